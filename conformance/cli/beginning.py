"""``conformance spec new NAME``: a package with one clause, its test and a planted bug, to go on from."""

from __future__ import annotations

import keyword
import re
from pathlib import Path

from conformance.core.errors import OK, UsageError
from conformance.core.homes import names
from conformance.core.output import say

TEMPLATE = Path(__file__).parents[1] / "template"
#: The template's names for the documented class, its module, and its distribution.
CLASS, MODULE, DISTRIBUTION = "GatedSum", "gated_sum", "gated-sum"
#: Hidden folders are not part of a wheel.
HIDDEN = {"workflows": ".github/workflows"}


def begin(name: str, folder: Path | None = None) -> int:
    """Write the package into a new folder beside the current directory's other ones, and say how to go on.

    Args:
        name: of the class that it documents.
        folder: where to, instead of the current directory.

    Raises:
        UsageError: the name cannot be that of a class, or the folder exists.
    """
    if not re.fullmatch(r"[A-Z][A-Za-z0-9]*", name) or keyword.iskeyword(name):
        raise UsageError(f"spec new {name!r}: give the name of a class, such as {CLASS}")
    if name in names():
        raise UsageError(f"spec new {name}: there is a specification of that name; give another one")
    module = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
    renamed = {CLASS: name, MODULE: module, DISTRIBUTION: module.replace("_", "-")}
    home = (folder or Path()) / f"{renamed[DISTRIBUTION]}-spec"
    if home.exists():
        raise UsageError(f"spec new {name}: there is a {home} already; go on with that one, or remove it")
    for file in sorted(path for path in TEMPLATE.rglob("*") if path.is_file() and path.suffix != ".pyc"):
        target = home / _renamed(str(file.relative_to(TEMPLATE)), renamed | HIDDEN)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_renamed(file.read_text("utf-8"), renamed), "utf-8")
    say(f"{home}: a specification of {name}, with one clause. To try it:")
    say(f"  pip install -e {home}")
    say(f"  conformance run --spec {name}       # the reference")
    say(f"  conformance prove {name}            # its planted bug, correct classes, mutants")
    return OK


def _renamed(text: str, names: dict[str, str]) -> str:
    for old, new in names.items():
        text = text.replace(old, new)
    return text
