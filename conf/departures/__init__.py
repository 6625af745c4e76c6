"""Behaviours of PyTorch that differ from its documentation: one function each, True if the installed release has it.

The first line of a docstring says where, the rest what. ``conf/releases.py`` asks every release, and the page on
PyTorch shows the answers beside these words; a function more is a row more.
"""

from __future__ import annotations

from departures import autograd, collectives, compiled, vmap

DEPARTURES = (*autograd.DEPARTURES, *vmap.DEPARTURES, *collectives.DEPARTURES, *compiled.DEPARTURES)
