"""The specification of GatedSum: its clauses, its tests, and bugs planted to prove them."""
