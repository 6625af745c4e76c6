"""What decides whether a gradient is right, each with the smallest relative error that it could have seen."""
