"""Observe a Function while it is called: its use of ctx, arguments, memory and operations.

:mod:`.witness` sees what it does to its ctx, phase by phase; :mod:`.witnessing` puts the class under that witness while
a block runs, and :mod:`.looks` does so for every sample. :mod:`.operations` lists the PyTorch operations that one
static method carries out.
"""
