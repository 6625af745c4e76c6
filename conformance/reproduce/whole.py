"""Write a test of the suite as a script that contains the sources it needs: it runs with torch alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from conformance.core.homes import OURS, SPEC, homes
from conformance.core.plan import PlannedTest
from conformance.reproduce.assemble import assembled

ROOT = Path(__file__).parents[2]
#: Its names come from modules of its own: a script has those that its test needs.
_KIT = "conformance.kit"
PACKAGES = (
    "conformance",
    "conformance.core",
    _KIT,
    *sorted(f"conformance.kit.{file.parent.name}" for file in ROOT.glob("conformance/kit/*/__init__.py")),
    "conformance.suite",
    "published",
    "spec_impl",
)
ALWAYS = (
    "conformance.kit.loading",
    "conformance.kit.subject",
    "conformance.kit.deviations",
    "conformance.kit.world",
    "conformance.kit.process_groups",
)
#: What tests need that ask copies of their process.
COPIES = "conformance.kit.process.copies"
#: In place of the module that looks for specifications in folders and entry points: the one that the test needs.
HOMES = """\
from typing import NamedTuple

SPEC = {spec!r}


class Home(NamedTuple):
    name: str
    package: str = {package!r}
    origin: str = "in this script"


find = Home
"""
#: What the subject's module may import from the package itself; of these, a script's test needs the first two.
FACE = """\
from conformance.kit.process_groups import GROUP
from conformance.kit.subject import Subject
from conformance.kit.world import World

ConformanceError = AssertionError


def check(*cases, **options):
    raise NotImplementedError("a script runs one test of the suite; check is not part of it")
"""


def whole_script(
    planned: PlannedTest, timeout: float, hangs: bool = False, device: str = "cpu", backend: str = "gloo"
) -> str:
    """Return the code below the docstring of a script that runs one test of the suite.

    Args:
        planned: the test.
        timeout: its deadline in seconds, counted from when all ranks have begun.
        hangs: whether the bug shows as a rank that hangs or crashes, not as a failure that a rank reports.
        device: what its tensors are on.
        backend: of the process group.
    """
    subject, test = planned.subject, planned.test
    values = {
        "SUBJECT": subject.reference if subject else "",
        "SPEC": planned.spec,
        "INPUTS": subject.inputs if subject else None,
        "TYPES": subject.types if subject else None,
        "TEST": (test.module, test.function),
        "CASE": dict(planned.case),
        "ARGUMENTS": tuple(test.arguments),
        "SIZE": planned.size,
        "GROUP": planned.group,
        "DEVICE": device,
        "BACKEND": backend,
        "TIMEOUT": timeout,
        "HANGS": hangs,
    }
    named = "\n".join(f"{name} = {value!r}" for name, value in values.items())
    return assembled("suite_test", {"planned": named, "embedded": embedded(planned)})


def embedded(planned: PlannedTest) -> str:
    """Return the sources that a test's script contains, as Python: the suite's, not those of a spec from outside."""
    test, package = planned.test, ""
    names = [*([test.module] if _file(test.module).is_file() else []), *_needed(test.file), *ALWAYS]
    for home in homes([planned.spec]):
        package, own = home.package, f"{home.package}.{SPEC}"
        if _file(own).is_file():
            names += [own, *_needed(_file(own))]
        else:
            names += [name for file in sorted(home.folder.glob("*.py")) for name in _needed(file)]
    for always in ALWAYS:
        names += _needed(_file(always))
    if planned.test.is_fresh:
        names += [COPIES, *_needed(_file(COPIES))]
    own = planned.subject.reference.partition(":")[0] if planned.subject else ""
    if own.startswith("published."):  # an adapter of ours
        names += [own, *_needed(_file(own))]
    given = {"conformance": FACE, "conformance.core.homes": HOMES.format(spec=SPEC, package=package)}
    given["conformance.kit"] = "\n".join(ast.unparse(node) for node in _public_kit() if node.module in names)
    names += [parent for name in names if (parent := name.rpartition(".")[0]).startswith("spec_impl.")]
    names += [name for package in names if _file(package).name == OURS for name in _needed(_file(package))]
    packages = (*PACKAGES, *dict.fromkeys(name for name in names if _file(name).name == OURS))
    head = f"PACKAGES = {packages!r}\nSOURCES = dict.fromkeys(PACKAGES, '') | {given!r}\n"
    return head + "".join(_quoted(name) for name in dict.fromkeys(names) if name not in given)


def _quoted(name: str) -> str:
    text = _file(name).read_text("utf-8")
    quoted = f"r'''{text}'''" if "'''" not in text and text.isascii() else repr(text)
    return f"\n# {'-' * 20} {name}\nSOURCES[{name!r}] = {quoted}\n"


def _needed(file: Path, seen: set[str] | None = None) -> Iterator[str]:
    """Yield the modules of this project that a module needs, each once."""
    seen = set() if seen is None else seen
    for name in _imported(file):
        if name not in seen:
            seen.add(name)
            yield name
            yield from _needed(_file(name), seen)


@cache
def _imported(file: Path) -> tuple[str, ...]:
    """Return the modules of this project that a module imports when it runs."""
    tree = ast.parse(file.read_text("utf-8"))
    for node in [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]:
        tree.body.remove(node)
    found = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    homes = {own.name: str(node.module) for node in _public_kit() for own in node.names}
    pairs = [(str(node.module), own.name) for node in found for own in node.names]
    names = [
        name
        for module, own in pairs
        for name in (homes.get(own, module) if module == _KIT else module, f"{module}.{own}")
    ]
    own = ("conformance", "published", "spec_impl")
    return tuple(name for name in names if name.startswith(own) and _file(name).is_file())


@cache
def _public_kit() -> tuple[ast.ImportFrom, ...]:
    """Return the imports of the kit itself: the public names, each from its home."""
    tree = ast.parse(ROOT.joinpath(*_KIT.split("."), OURS).read_text("utf-8"))
    return tuple(node for node in tree.body if isinstance(node, ast.ImportFrom))


def _file(name: str) -> Path:
    whole = ROOT.joinpath(*name.split(".")) if "." in name else ROOT / "nothing"
    return whole / OURS if name.startswith("spec_impl.") and whole.is_dir() else whole.with_suffix(".py")
