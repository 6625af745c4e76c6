"""Plain data that every part shares: options, clauses, the tests, the plan, outcomes. Nothing here imports torch."""
