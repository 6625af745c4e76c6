"""The proof of the suite: every clause's test fails where it should, and nowhere else."""
