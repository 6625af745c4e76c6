"""``check`` in a process whose clocks stand still, as freezegun and its like have them."""

from __future__ import annotations

import subprocess
import sys
import textwrap

from tests.faults.command import ROOT

#: Every function of Python's that tells the time is replaced, in every module that holds one.
FROZEN = """
import sys, time
import torch, conformance
from conformance import check

real = {name: getattr(time, name) for name in ("time", "monotonic", "perf_counter", "time_ns", "monotonic_ns", "sleep")}
for module in list(sys.modules.values()):
    for name, value in list(vars(module).items()) if hasattr(module, "__dict__") else ():
        for function, original in real.items():
            if value is original:
                setattr(module, name, (lambda *_: None) if function == "sleep" else (lambda: 0.0))

class Hangs(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        while True:
            pass
    @staticmethod
    def backward(ctx, grad):
        return grad

try:
    sample = (torch.ones(3, requires_grad=True),)
    check(Hangs, sample, ranks=2, spec="Collective", timeout=1, only="Function.backward.count")
except conformance.ConformanceError as error:
    print("did not finish within 1 s" in str(error))
"""


def test_a_rank_that_hangs_is_noticed_although_the_clocks_stand_still() -> None:
    words = [sys.executable, "-c", textwrap.dedent(FROZEN)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    assert (done.stdout, done.stderr) == ("True\n", "")
