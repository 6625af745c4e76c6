"""Rank processes: started, given tests, watched, ended. Nothing here knows a clause."""
