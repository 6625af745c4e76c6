"""Judge whether a gradient is right; each oracle reports the smallest relative error that it could have detected."""
