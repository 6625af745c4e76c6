"""A package whose Functions hide behind aliases, other modules, and functions. It must never be imported."""

raise RuntimeError("the scan has imported what it scans")
