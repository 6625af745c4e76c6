"""Provide what test bodies use, on a rank or in the process that calls check.

The modules here are those that nearly every test needs: the subject and its samples, calls of it, the ranks,
comparisons, and the ways in which a test ends. What only some tests need is in packages:

- ``observation``: what a Function does while it is called
- ``variations``: other ways to call a sample
- ``numerics``: derivatives by differences
- ``oracles``: judges of a gradient, each with the smallest error that it could have detected
- ``spmd``: the types that a collective claims, and the gradients that follow from them
- ``gathers``: expected results of gathers
- ``process``: the state of the process around a test, and how it is restored
"""
