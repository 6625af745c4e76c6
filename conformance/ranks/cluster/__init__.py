"""Ranks under a launcher such as torchrun: one supervisor for each launched process."""
