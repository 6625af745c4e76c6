"""Watch the process around a test: what a Function changed outside itself, and how to restore it."""
