"""Proves a specification: each clause by a bug that breaks it, its tests by what is right and by mutants."""
