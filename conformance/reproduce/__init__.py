"""Scripts that show a failure with torch alone."""
