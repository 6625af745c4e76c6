"""The process around a test: what a Function changed outside itself, and how that is put back."""
