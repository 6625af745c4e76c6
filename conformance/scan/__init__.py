"""Find the Function subclasses of a package in its source, and the clauses that they visibly break."""

from __future__ import annotations

from conformance.scan.command import run
from conformance.scan.formats import to_json, to_sarif
from conformance.scan.model import Finding, Found, Scan, Skipped
from conformance.scan.reading import scan
from conformance.scan.table import table

__all__ = ["Finding", "Found", "Scan", "Skipped", "run", "scan", "table", "to_json", "to_sarif"]
