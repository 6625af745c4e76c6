"""The JSON Schema of report.json, made from the types of a report.

``python -m conformance.report.schema > conformance/report/schema.json`` writes the file that is published.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import msgspec

from conformance.report.model import SCHEMA, Report


def schema() -> dict[str, Any]:
    """Return the schema as data."""
    made = msgspec.json.schema(Report)
    definitions = made["$defs"]
    top = definitions.pop("Report")
    top["properties"]["content_sha256"] = {
        "type": "string",
        "pattern": "^[0-9a-f]{64}$",
        "description": "Of all other keys, as compact JSON in UTF-8 with sorted keys: a change by hand is noticed.",
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:autograd-conformance:report:{SCHEMA}",
        **top,
        "title": "Conformance report",
        "required": ["schema", *top["required"]],
        "$defs": definitions,
    }


def text() -> str:
    """Return the schema as the text of schema.json."""
    return json.dumps(schema(), indent=2) + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())
