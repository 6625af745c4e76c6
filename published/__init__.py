"""Published implementations against the suite: pinned packages, an adapter for each, and one command.

``python -m published [NAME ...]`` installs every pinned package without its dependencies into a folder
of its own, runs the suite on its subjects, and prints a table. Every adapter is a module here; every subject in
one is an assignment ``name = Subject("module:attribute", ...)``.
"""
