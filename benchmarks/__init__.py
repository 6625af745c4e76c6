"""How fast: every figure a ratio of medians from alternating runs on one machine, written down as it was measured."""
