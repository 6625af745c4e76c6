"""Scan a target: read, discover, check."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from conformance.core.errors import UsageError
from conformance.scan.classes import FunctionClass
from conformance.scan.discover import Discovery
from conformance.scan.helpers import Helpers
from conformance.scan.model import Finding, Found, Scan, Skipped
from conformance.scan.rules import RULES
from conformance.scan.source import Text, parse, read, refusal
from conformance.scan.study import Study
from conformance.scan.target import locate, sources, surroundings


def scan(target: str) -> Scan:
    """Find every Function subclass of a package, folder or file, and its findings. Nothing is imported.

    Raises:
        UsageError: there is nothing of that name to read.
    """
    start = time.perf_counter()
    place = locate(target)
    refused: list[OSError] = []
    read_files = list(read(place, sources(place, refused.append)))
    if refused and not read_files:
        raise UsageError(f"{refused[0].filename} {refusal(refused[0])}")
    if not read_files:
        raise UsageError(f"{target!r} holds no Python files")
    skipped = [file for file in read_files if isinstance(file, Skipped)]
    skipped += [Skipped(place.named(Path(error.filename)), refusal(error)) for error in refused]
    around = read(place, surroundings(place))
    if len(read_files) == 1 and isinstance(read_files[0], Text):  # named by the user: read it in any case
        only = parse(read_files[0])
        skipped += [only] if isinstance(only, Skipped) else []
    discovery = Discovery(_texts(read_files), _texts(around))
    helpers = Helpers(discovery.module_named)
    found: list[Found] = []
    for function in discovery.functions():
        try:
            findings = _findings(function, helpers)
        except RecursionError:
            findings = ()
            skipped.append(Skipped(function.module.file, f"{function.node.name} is nested too deeply to be checked"))
        found.append(_found(function, findings))
    skipped += [skip for skip in discovery.skipped if skip not in skipped]
    seconds = time.perf_counter() - start
    return Scan(
        target,
        str(place.root),
        len(read_files),
        tuple(found),
        tuple(sorted(skipped, key=lambda skip: skip.file)),
        seconds,
    )


def _texts(files: Iterable[Text | Skipped]) -> list[Text]:
    return [file for file in files if isinstance(file, Text)]


def _findings(function: FunctionClass, helpers: Helpers) -> tuple[Finding, ...]:
    study = Study(function, helpers)
    found = {finding for rule in RULES for finding in rule.check(study)}
    return tuple(sorted(found, key=lambda finding: (finding.line, finding.clause)))


def _found(function: FunctionClass, findings: tuple[Finding, ...]) -> Found:
    module = function.module
    qualname = f"{module.name}:{function.qualname}"
    return Found(module.file, function.node.lineno, function.node.name, qualname, function.members, findings)
