"""Derivatives by differences, and how exactly a number can be known: what judges a gradient."""
