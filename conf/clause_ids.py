"""``python conf/clause_ids.py``: add the ids of new clauses to the list of published ones.

Reports, files of expected failures and links name clauses by id. So an id that was released stays, or is retired with
an entry in ``retired-clauses.toml``, and is never given to another clause. With ``--check`` nothing is written, and an
id that is not in the list is a problem too: that is how a release is checked.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from conformance.core.clauses import registry

HERE = Path(__file__).parent
PUBLISHED = HERE / "published-clauses.txt"
RETIRED = HERE / "retired-clauses.toml"
KEYS = {"version", "reason", "successors"}


class RetiredFileError(Exception):
    """An entry of the file of retired clauses that cannot be used."""


@dataclass(frozen=True)
class Retired:
    """Why a clause is gone: the first version without it, the reason, and the clauses that took its place."""

    version: str
    reason: str
    successors: tuple[str, ...]


@dataclass(frozen=True)
class ClauseIds:
    """Every id that is or was in use."""

    current: Set[str]
    published: Set[str]
    retired: Mapping[str, Retired]

    def problems(self) -> Iterator[str]:
        """Yield each break of the promise that an id keeps its meaning."""
        for name in sorted(self.published - self.current - self.retired.keys()):
            yield f"{name} was published and is gone: give it back, or retire it in conf/{RETIRED.name}"
        for name, entry in self.retired.items():
            if name in self.current:
                yield f"{name} was retired in {entry.version} and is used again: choose another id"
            if name not in self.published:
                yield f"{name} is retired but was never published: take it out of conf/{RETIRED.name}"
            for successor in entry.successors:
                if successor not in self.current | self.retired.keys():
                    yield f"{name} names {successor} as its successor, which is no clause"

    def unpublished(self) -> list[str]:
        """The ids of clauses that no release has had yet."""
        return sorted(self.current - self.published)


def main(argv: Sequence[str] | None = None) -> int:
    """Add what is new, unless it is only asked whether all is well."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; status 1 if an id is not in the list")
    check = parser.parse_args(argv).check
    try:
        ids = ClauseIds(current(), read_published(), read_retired())
    except RetiredFileError as error:
        print(error, file=sys.stderr)
        return 1
    problems = list(ids.problems())
    if check:
        problems += [f"{name} is not published yet: run python conf/clause_ids.py" for name in ids.unpublished()]
    else:
        PUBLISHED.write_text("".join(f"{name}\n" for name in sorted(ids.current | ids.published)), encoding="utf-8")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


def current() -> frozenset[str]:
    """The ids of the clauses that there are."""
    return frozenset(registry())


def read_published() -> frozenset[str]:
    """The ids that some release had."""
    return frozenset(PUBLISHED.read_text(encoding="utf-8").split())


def read_retired(file: Path = RETIRED) -> dict[str, Retired]:
    """The retired clauses by id.

    Raises:
        RetiredFileError: the file is no TOML, or an entry lacks something.
    """
    try:
        entries = tomllib.loads(file.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise RetiredFileError(f"{file.name}: {error}") from None
    return {name: _entry(file, name, entry) for name, entry in entries.items()}


def _entry(file: Path, name: str, entry: object) -> Retired:
    if not isinstance(entry, dict):
        raise RetiredFileError(f"{file.name}: {name} is a table with version, reason and successors")
    for key in ("version", "reason"):
        if not entry.get(key):
            raise RetiredFileError(f"{file.name}: {name} needs a {key}")
    for key in sorted(entry.keys() - KEYS):
        raise RetiredFileError(f"{file.name}: {name} has an unknown key: {key}")
    successors = entry.get("successors", [])
    if not isinstance(successors, list):
        raise RetiredFileError(f"{file.name}: {name}: successors is a list of ids")
    return Retired(str(entry["version"]), str(entry["reason"]), tuple(successors))


if __name__ == "__main__":
    sys.exit(main())
