"""What scripts are put together from: each file runs a check with torch alone, once its subject is filled in."""
