"""Ranks under a launcher such as torchrun: each launched process keeps one."""
