"""What a test body is written with. It runs on a rank, or in the process that calls check.

The modules here are those that nearly every test needs: the subject and its samples, calls of it, the ranks,
comparisons, and the ways in which a test ends. What is for some tests alone is in a package each:

- ``observation``: what a Function does while it is called
- ``variations``: a sample called otherwise
- ``numerics``: derivatives by differences
- ``oracles``: what judges a gradient, and how small an error it could have seen
- ``spmd``: the types that a collective claims, and the gradients that they owe
- ``gathers``: what gathers return
- ``process``: what is around a test, and how it is put back
"""
