"""Simulated worlds: N ranks as threads of one process, one running at a time, with a process group of their own."""
