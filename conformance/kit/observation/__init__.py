"""Observe a Function while it is called: its use of ctx, arguments, memory and operations.

:mod:`.witness` sees what it does to its ctx, phase by phase, and :mod:`.looks` looks at every sample that way.
:mod:`.operations` lists the PyTorch operations that one static method carries out.
"""
