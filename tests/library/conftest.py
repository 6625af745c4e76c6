"""The library's tests run where it is installed: see ``tests/test_library.py``."""

collect_ignore_glob = ["tests/*"]
