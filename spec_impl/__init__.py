"""The reference: one module for each documented class, and ``function`` for the contract they all share.

Importing this package imports nothing else, so that the clauses in its docstrings can be read where torch is
missing.
"""
