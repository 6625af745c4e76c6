"""The suite: one module a chapter. Every test runs on every rank of its world, the same lines everywhere."""
