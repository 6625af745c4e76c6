"""A module that answers in the name of the rank that imports it, with what no rank would say."""

from hostile import Good, forged

forged(outcome="pass", spec=["AllGather"], files=[{"a": 1}, 7])

Gather = Good
