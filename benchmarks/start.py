"""How long until the first word: commands against the bare start of Python and of torch."""

from __future__ import annotations

import sys
from typing import Any

from benchmarks.measure import ROOT, figures, in_turn, ratios
from conformance.run.engine_record import FRESH

PYTHON = sys.executable
#: Commands that may end with a status other than 0: on a class that breaks a clause, and pytest without tests.
OTHER = {"a published gather, 1 to 3 ranks": 1, "pytest without the plugin": 5, "pytest with the plugin": 5}
RUN = [PYTHON, "-m", "conformance", "run"]
#: The group of whole runs: all clauses that concern a subject, from the shell.
WHOLE = "of a whole run against import torch"


def measure(rounds: int) -> dict[str, Any]:
    """What needs no torch against ``python -c pass``, what does and whole runs against ``import torch``.

    Whole runs know from the uncounted one what PyTorch itself keeps, as all but a user's first one do.
    """
    light = {
        "python -c pass": [PYTHON, "-c", "pass"],
        "conformance --help": [PYTHON, "-m", "conformance", "--help"],
        "conformance list": [PYTHON, "-m", "conformance", "list"],
        "conformance explain": [PYTHON, "-m", "conformance", "explain", "Function.backward.count"],
    }
    empty = ["-c", "/dev/null", "--rootdir", str(ROOT / "benchmarks"), "-p", "no:cacheprovider", "--collect-only", "-q"]
    pytests = {
        "pytest without the plugin": [PYTHON, "-m", "pytest", "-p", "no:conformance", *empty, str(ROOT / "conf")],
        "pytest with the plugin": [PYTHON, "-m", "pytest", *empty, str(ROOT / "conf")],
    }
    peer = str(ROOT / "benchmarks" / "peers" / "ours.py")
    subject = ["spec_impl.torchlogix:GradFactor", "--spec", "GradFactor"]
    heavy = {
        "import torch": [PYTHON, "-c", "import torch"],
        "one gather test, 1 rank": [PYTHON, peer, "1", "1"],
        "one gather test, 2 ranks": [PYTHON, peer, "2", "1"],
        "conformance run, one spec": [*RUN, *subject],
    }
    bare = "--no-compile"
    whole = {
        "import torch": heavy["import torch"],
        "a Function": [*RUN, "benchmarks.subjects:function"],
        "a Function, not compiled": [*RUN, "benchmarks.subjects:function", bare],
        "a Function, and PyTorch itself": ["env", f"{FRESH}=1", *RUN, "benchmarks.subjects:function"],
        "a collective, 1 to 3 ranks": [*RUN, "benchmarks.subjects:collective"],
        "a collective, 1 to 3 ranks, not compiled": [*RUN, "benchmarks.subjects:collective", bare],
        "a published gather, 1 to 3 ranks": [*RUN, "published.torch_distributed:all_gather", "--ranks", "1,2,3"],
    }
    return {
        "against python -c pass": _group(light, "python -c pass", rounds),
        "against pytest alone": _group(pytests, "pytest without the plugin", rounds),
        "against import torch": _group(heavy, "import torch", rounds),
        WHOLE: _group(whole, "import torch", rounds),
    }


def _group(commands: dict[str, list[str]], base: str, rounds: int) -> dict[str, Any]:
    runs = in_turn(commands, rounds)
    failed = [name for name in commands if any(run.status not in {0, OTHER.get(name, 0)} for run in runs[name])]
    if failed:
        raise SystemExit(f"these commands failed, so that their times say nothing: {', '.join(failed)}")
    seconds, against = figures(runs), ratios(runs, base)
    return {name: {"seconds": seconds[name].to_json(), "ratio": against[name].to_json()} for name in commands}
