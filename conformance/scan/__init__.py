"""Find the Function subclasses of a package by reading its source, and what can be seen of them without running."""

from __future__ import annotations

from conformance.scan.model import BadTarget, Finding, Found, Scan, Skipped
from conformance.scan.run import scan

__all__ = ["BadTarget", "Finding", "Found", "Scan", "Skipped", "scan"]
