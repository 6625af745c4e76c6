"""What a test body is written with. It runs on a rank, or in the process that calls check."""
