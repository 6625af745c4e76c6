"""Scan every pinned package of docs/data/scan-sample.json again, and say which findings nobody has judged yet.

    python tests/data/scan/precision.py [PACKAGE ...] [--write FILE]

A package is fetched with pip, without its dependencies, into ``.cache/scan``, and its source is read there; nothing of
it is built or run, except that pip asks an archive without a wheel for its version.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SAMPLE = ROOT / "docs" / "data" / "scan-sample.json"
CACHE = ROOT / ".cache" / "scan"
#: What makes two findings the same, whatever the wording of the message.
KEY = ("package", "version", "file", "line", "clause", "confidence")


def source(name: str, version: str) -> Path | str:
    """Where the source of a pinned package lies; it is fetched unless that was done before.

    Raises:
        subprocess.CalledProcessError: pip could not fetch it.
    """
    if name == "torch":
        return "torch"  # the installed one
    folder = CACHE / f"{name}-{version}"
    unpacked = folder / "src"
    if not unpacked.is_dir():
        if not folder.is_dir():
            fetch(f"{name}=={version}", folder)
        for archive in list(folder.iterdir()):
            unpack(archive, unpacked)
    within = list(unpacked.iterdir())
    return within[0] if len(within) == 1 and (within[0] / "PKG-INFO").exists() else unpacked  # an archive's own folder


def fetch(requirement: str, folder: Path) -> None:
    """Download a wheel, or the source archive where there is no wheel."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--disable-pip-version-check"]
    where = ["--dest", str(folder), requirement]
    # Some archives need this environment's torch to say which version they are, others tools that it lacks.
    for option in ("--only-binary=:all:", "--no-build-isolation"):
        if not subprocess.run([*command, option, *where], capture_output=True, check=False).returncode:
            return
    subprocess.run([*command, *where], check=True)


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a wheel or a source archive."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            wheel.extractall(folder)
    elif archive.name.endswith((".tar.gz", ".tgz")):
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")


def findings(name: str, version: str) -> list[dict[str, object]]:
    """What the scan finds in a package, one row each, as ``sample`` in the data file has it."""
    place = source(name, version)
    command = [sys.executable, "-m", "conformance", "scan", str(place), "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [
        {
            "package": name,
            "version": version,
            "file": str(finding["file"]).removeprefix(f"{Path(place).relative_to(ROOT)}/" if name != "torch" else ""),
            "line": finding["line"],
            "function": function["name"],
            "clause": finding["clause"],
            "confidence": finding["confidence"],
            "message": finding["message"],
        }
        for function in json.loads(done.stdout)["functions"]
        for finding in function["findings"]
    ]


def key(row: dict[str, object]) -> tuple[object, ...]:
    """What a finding is told apart by."""
    return tuple(row[field] for field in KEY)


def main() -> int:
    """Scan, compare, and list what is new and what is gone; 1 when a certain or likely finding was never judged."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("packages", nargs="*", help="names of packages in the data file; all of them by default")
    parser.add_argument("--write", type=Path, help="write every finding into this file, as JSON")
    options = parser.parse_args()
    data = json.loads(SAMPLE.read_text())
    names = options.packages or list(data["packages"])
    found = [row for name in names for row in findings(name, data["packages"][name]["version"])]
    if options.write:
        options.write.write_text(json.dumps(found, indent=1) + "\n")
    judged = {key(row): row for row in data["sample"] if row["package"] in names}
    new = [row for row in found if row["confidence"] != "possible" and key(row) not in judged]
    gone = [row for at, row in judged.items() if at not in {key(row) for row in found}]
    for title, rows in (("not judged", new), ("judged, and no longer found", gone)):
        print(f"{title}: {len(rows)}")
        for row in rows:
            print(f"  {row['package']}: {row['file']}:{row['line']} {row['function']} {row['clause']}")
            print(f"    {row['confidence']}: {row['message']}")
    return 1 if new else 0


if __name__ == "__main__":
    sys.exit(main())
