"""A sample called otherwise: laid out otherwise in memory, longer, in another dtype, under a mode, in a batch."""
