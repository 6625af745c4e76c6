"""Call a sample in other ways: in another layout, longer, in another dtype, under a mode, in a batch."""
