"""Runs one test of the small suite in a process of its own: ``python -m tests.faults.one_test SUBJECT SIZE DEADLINE``.

It says ``started`` once ranks stand ready, and at the end what came out.
"""

from __future__ import annotations

import sys

from conformance.ranks.client import Forkserver
from tests.faults.running import new_pool, run

if __name__ == "__main__":
    subject, size, deadline = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    with Forkserver() as forkserver, new_pool(forkserver) as pool:
        run(pool, subject, "test_calm", size)
        print("started", flush=True)
        outcome = run(pool, subject, "test_fault", size, deadline)
        print(outcome.outcome, outcome.message, flush=True)
