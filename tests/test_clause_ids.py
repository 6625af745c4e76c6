"""The policy on clause ids: what was published stays or is retired, and is never given to another clause."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "conf"))

from clause_ids import ClauseIds, Retired, RetiredFileError, current, read_published, read_retired  # noqa: E402

RETIRED = """
["Scale.backward.old"]
version = "0.2.0"
reason = "said two things"
successors = ["Scale.backward.left", "Scale.backward.right"]
"""


def test_no_published_clause_is_gone_without_an_entry_and_no_retired_id_is_used_again():
    ids = ClauseIds(current(), read_published(), read_retired())
    assert ids.published, "the list of published ids is empty"
    assert list(ids.problems()) == []


def test_a_published_id_that_is_gone_is_a_problem():
    (problem,) = ClauseIds({"Scale.backward.sum"}, {"Scale.backward.sum", "Scale.backward.old"}, {}).problems()
    assert problem.startswith("Scale.backward.old was published and is gone")


def test_a_retired_id_that_is_used_again_is_a_problem():
    retired = {"Scale.backward.old": Retired("0.2.0", "said two things", ())}
    (problem,) = ClauseIds({"Scale.backward.old"}, {"Scale.backward.old"}, retired).problems()
    assert problem == "Scale.backward.old was retired in 0.2.0 and is used again: choose another id"


def test_an_id_that_was_never_published_needs_no_retirement():
    retired = {"Scale.backward.new": Retired("0.2.0", "a typing mistake", ())}
    (problem,) = ClauseIds(set(), set(), retired).problems()
    assert problem.startswith("Scale.backward.new is retired but was never published")


def test_a_successor_is_a_clause_that_there_is_or_was():
    retired = {"Scale.backward.old": Retired("0.2.0", "split", ("Scale.backward.left", "Scale.backward.rihgt"))}
    ids = ClauseIds({"Scale.backward.left"}, {"Scale.backward.old", "Scale.backward.left"}, retired)
    (problem,) = ids.problems()
    assert problem == "Scale.backward.old names Scale.backward.rihgt as its successor, which is no clause"


def test_what_is_not_yet_published_is_told_and_is_no_problem():
    ids = ClauseIds({"Scale.backward.sum", "Scale.backward.new"}, {"Scale.backward.sum"}, {})
    assert list(ids.problems()) == []
    assert ids.unpublished() == ["Scale.backward.new"]


def test_the_file_of_retired_ids_is_read(tmp_path):
    file = tmp_path / "retired.toml"
    file.write_text(RETIRED)
    successors = ("Scale.backward.left", "Scale.backward.right")
    assert read_retired(file) == {"Scale.backward.old": Retired("0.2.0", "said two things", successors)}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('["A.b.c"]\nversion = "0.2.0"', "A.b.c needs a reason"),
        ('["A.b.c"]\nreason = "split"', "A.b.c needs a version"),
        ('["A.b.c"]\nversion = "0.2.0"\nreason = "split"\nsuccesors = []', "A.b.c has an unknown key: succesors"),
        ('["A.b.c"]\nversion = "1"\nreason = "x"\nsuccessors = "A.b.d"', "A.b.c: successors is a list of ids"),
        ('A = "b"', "A is a table with version, reason and successors"),
        ("A = ", "Invalid value"),
    ],
)
def test_a_bad_entry_is_named(tmp_path, text, said):
    file = tmp_path / "retired.toml"
    file.write_text(text)
    with pytest.raises(RetiredFileError, match=said):
        read_retired(file)


def test_the_command_adds_new_ids_and_takes_none_away(tmp_path):
    command = copy_of_the_command(tmp_path)
    published = tmp_path / "conf" / "published-clauses.txt"
    gone, kept = "Scale.backward.old", sorted(current())[1:]
    published.write_text("\n".join([gone, *kept]) + "\n")
    check = subprocess.run([*command, "--check"], capture_output=True, text=True)
    assert check.returncode == 1
    assert gone in check.stderr
    assert sorted(current())[0] in check.stderr
    written = subprocess.run(command, capture_output=True, text=True)
    assert written.returncode == 1, "an id that is gone is a problem for the writer too"
    assert set(published.read_text().split()) == current() | {gone}


def test_the_command_is_content_where_all_is_published(tmp_path):
    command = copy_of_the_command(tmp_path)
    assert subprocess.run(command, capture_output=True).returncode == 0
    assert subprocess.run([*command, "--check"], capture_output=True).returncode == 0


def copy_of_the_command(folder: Path) -> list[str]:
    """The command with data files of its own, made empty of retired ids."""
    (folder / "conf").mkdir()
    shutil.copy(ROOT / "conf" / "clause_ids.py", folder / "conf")
    (folder / "conf" / "retired-clauses.toml").write_text("")
    (folder / "conf" / "published-clauses.txt").write_text("")
    return [sys.executable, str(folder / "conf" / "clause_ids.py")]
