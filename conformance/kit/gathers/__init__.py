"""What the tests of gathers share: what ranks hold, the expected results, and the mistakes that are worth a name."""
