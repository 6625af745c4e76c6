"""Inputs that raise with what a terminal would obey."""


def inputs():
    raise RuntimeError("\x1b]0;owned\x07 \x1b[31mred")
