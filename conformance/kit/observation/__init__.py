"""What a Function does while it is called: to its ctx, to its arguments, to memory, and with which operations.

:mod:`.witness` sees what it does to its ctx, phase by phase; :mod:`.witnessing` puts the class under that witness while
a block runs, and :mod:`.looks` does so for every sample. :mod:`.operations` lists the PyTorch operations that one
static method carries out.
"""
