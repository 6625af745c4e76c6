"""``python conf/releases.py``: write down what is special to the installed PyTorch, for the page that compares them.

It writes ``docs/data/release-VERSION.json``: the public members of ``Function``, ``FunctionCtx`` and
``BackwardCFunction`` with kind and signature, and which departures show. Run it once in an environment of each
release; an argument names another folder to write to.
"""

from __future__ import annotations

import inspect
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import departures
import torch
from torch.autograd import function

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.measure import machine  # noqa: E402

DATA = ROOT / "docs" / "data"
CLASSES = ("Function", "FunctionCtx", "BackwardCFunction")
KINDS = {
    "function": "method",
    "method_descriptor": "method",
    "classmethod": "class method",
    "classmethod_descriptor": "class method",
    "staticmethod": "static method",
}


def main() -> int:
    """Ask the installed PyTorch, and write the answers."""
    warnings.simplefilter("ignore")  # a deprecated member warns when it is looked at
    release = torch.__version__.partition("+")[0]
    data = {
        "machine": machine(),
        "members": {name: members(getattr(function, name)) for name in CLASSES},
        "departures": {check.__name__: check() for check in departures.DEPARTURES},
    }
    path = Path(*sys.argv[1:2] or [DATA]) / f"release-{release}.json"
    path.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", "utf-8")
    print(path.name, data["departures"])
    return 0


def members(cls: type) -> dict[str, str]:
    """Every public member that is not every object's, as kind and signature."""
    names = [name for name in dir(cls) if not name.startswith("_")]
    return {name: _described(cls, name) for name in names}


def _described(cls: type, name: str) -> str:
    attribute: Any = inspect.getattr_static(cls, name)
    kind = KINDS.get(type(attribute).__name__, "attribute")
    if kind == "attribute":
        return kind
    try:
        return f"{kind} {inspect.signature(getattr(attribute, '__func__', attribute))}"
    except ValueError:  # what is written in C need not have one
        return f"{kind}, written in C"


if __name__ == "__main__":
    sys.exit(main())
