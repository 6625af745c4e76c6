"""Write a scan for programs: JSON, and SARIF 2.1.0 for code-scanning pages.

SARIF is written as plain data: the models for it on PyPI would bring pydantic along for one document.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

from conformance.scan.model import Confidence, Finding, Found, Scan
from conformance.scan.rules import RULES

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS: dict[Confidence, str] = {"certain": "error", "likely": "warning", "possible": "note"}
RANKS: dict[Confidence, float] = {"certain": 95.0, "likely": 75.0, "possible": 30.0}


def to_json(scan: Scan) -> dict[str, Any]:
    """Return the scan as plain data."""
    return {
        "schema": 1,
        "target": scan.target,
        "files": scan.files,
        "seconds": round(scan.seconds, 3),
        "functions": [
            {**asdict(found), "members": list(found.members), "findings": _findings(found)} for found in scan.found
        ],
        "skipped": [asdict(skipped) for skipped in scan.skipped],
    }


def to_sarif(scan: Scan) -> dict[str, Any]:
    """Return the scan as a SARIF 2.1.0 log with one run; paths are relative, as code-scanning pages need them."""
    indices = {rule.clause: index for index, rule in enumerate(RULES)}
    rules = [
        {
            "id": rule.clause,
            "name": "".join(
                part[:1].upper() + part[1:] for part in rule.clause.replace("-", ".").replace("_", ".").split(".")
            ),
            "shortDescription": {"text": rule.summary},
            "help": {"text": f"conformance explain {rule.clause}"},
        }
        for rule in RULES
    ]
    notifications = [
        {
            "level": "warning",
            "message": {"text": f"skipped: {skipped.reason}"},
            "locations": [{"physicalLocation": {"artifactLocation": {"uri": _uri(skipped.file)}}}],
        }
        for skipped in scan.skipped
    ]
    driver = {"name": "conformance scan", "version": _version(), "rules": rules}
    results = [_result(found, finding, indices[finding.clause]) for found in scan.found for finding in found.findings]
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": notifications}],
        "columnKind": "unicodeCodePoints",
        "results": results,
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _result(found: Found, finding: Finding, index: int) -> dict[str, Any]:
    place = {"artifactLocation": {"uri": _uri(finding.file)}, "region": {"startLine": max(1, finding.line)}}
    # Without the line, so that a finding stays the same one when code above it moves.
    key = "\0".join((finding.clause, found.qualname, finding.message))
    return {
        "ruleId": finding.clause,
        "ruleIndex": index,
        "level": LEVELS[finding.confidence],
        "rank": RANKS[finding.confidence],
        "message": {"text": f"{found.name}: {finding.message} ({finding.confidence})"},
        "locations": [
            {
                "physicalLocation": place,
                "logicalLocations": [{"fullyQualifiedName": found.qualname, "kind": "type"}],
            }
        ],
        "partialFingerprints": {"conformance/v1": hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()},
        "properties": {"confidence": finding.confidence},
    }


def _uri(file: str) -> str:
    return quote(os.fsencode(file))  # the bytes of a name need not be UTF-8


def _findings(found: Found) -> list[dict[str, Any]]:
    return [asdict(finding) for finding in found.findings]


def _version() -> str:
    try:
        return importlib.metadata.version("autograd-conformance")
    except importlib.metadata.PackageNotFoundError:
        return "0"
