"""From options to outcomes: the session, check, watch, the journal."""
