"""A specification from outside, as if it had been installed: a folder that is on the path, with its metadata."""

from __future__ import annotations

import shutil
from pathlib import Path

from conformance.core import homes

TEMPLATE = Path(homes.__file__).parents[1] / "template" / "gated_sum_spec"


def install(site: Path, spec: str = "GatedSum", package: str = "gated_sum_spec", distribution: str = "gated-sum-spec"):
    """Put a copy of the template into a folder; what it registers is the caller's."""
    site.mkdir(exist_ok=True)
    if not (site / TEMPLATE.name).exists():
        shutil.copytree(TEMPLATE, site / TEMPLATE.name)
    metadata(site, spec, package, distribution)
    return site / TEMPLATE.name


def metadata(site: Path, spec: str, package: str, distribution: str) -> None:
    """Register a specification in a folder of the path, as its installation would."""
    folder = site / f"{distribution.replace('-', '_')}-0.1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 0.1.0\n")
    (folder / "entry_points.txt").write_text(f"[{homes.GROUP}]\n{spec} = {package}\n")
