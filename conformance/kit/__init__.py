"""Provide what test bodies use, on a rank or in the process that calls check.

What nearly every test of a clause needs can be imported from here: marks, comparisons, the subject and its samples, the
ranks, and the ways in which a test ends.

>>> from conformance.kit import Subject, World, clause, expect, need

What only some tests need is in packages:

- ``observation``: what a Function does while it is called
- ``variations``: other ways to call a sample
- ``numerics``: derivatives by differences
- ``oracles``: judges of a gradient, each with the smallest error that it could have detected
- ``spmd``: the types that a collective claims, and the gradients that follow from them
- ``gathers``: expected results of gathers
- ``process``: the state of the process around a test, and how it is restored
"""

from __future__ import annotations

from conformance.kit import expect
from conformance.kit.calls import Run, SampleCall
from conformance.kit.deviations import NO_JVP, Deviation, NotApplicable, Skipped, Unfit, need
from conformance.kit.marks import cases, clause, deadline, ranks, varies
from conformance.kit.probe import WRITES_INTO_GRADIENTS, Probe
from conformance.kit.process_groups import GROUP, all_ranks, world_group
from conformance.kit.sample_calls import active_samples, differentiated, every_sample, in_double
from conformance.kit.specs import Specification, random
from conformance.kit.subject import Subject
from conformance.kit.tensors import differentiable, is_strided, many, same_values, share_memory
from conformance.kit.varied_call import Observed, Refused
from conformance.kit.world import World

__all__ = [
    "GROUP",
    "NO_JVP",
    "WRITES_INTO_GRADIENTS",
    "Deviation",
    "NotApplicable",
    "Observed",
    "Probe",
    "Refused",
    "Run",
    "SampleCall",
    "Skipped",
    "Specification",
    "Subject",
    "Unfit",
    "World",
    "active_samples",
    "all_ranks",
    "cases",
    "clause",
    "deadline",
    "differentiable",
    "differentiated",
    "every_sample",
    "expect",
    "in_double",
    "is_strided",
    "many",
    "need",
    "random",
    "ranks",
    "same_values",
    "share_memory",
    "varies",
    "world_group",
]
