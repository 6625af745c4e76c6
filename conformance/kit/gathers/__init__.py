"""Share between tests of gathers: the ranks' inputs, the expected results, and the mistakes that are worth a name."""
