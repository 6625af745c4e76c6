"""Start rank processes, run tests on them, watch them and end them. Nothing here knows a clause."""
