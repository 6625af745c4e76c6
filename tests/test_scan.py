"""``conformance scan``: what it finds, what it leaves alone, and that nothing makes it fall over."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from conformance.core.errors import UsageError
from conformance.report.sheet import terminal
from conformance.scan import run, scan, to_sarif
from conformance.scan.rules import RULES

DATA = Path(__file__).parent / "data" / "scan"
EXPECTED = re.compile(r"# expect: (\S+) (\w+)")
BROKEN = sorted((DATA / "broken").glob("*.py"))
FINE = sorted((DATA / "fine").glob("*.py"))


def command(target: object, width: int = 80, piped: bool = False, **options: object) -> tuple[int, str]:
    """Run the command with its output caught."""
    text = io.StringIO()
    console = Console(file=text, width=width, force_terminal=not piped, color_system=None)
    status = run(str(target), console=console, **options)
    return status, text.getvalue()


def test_a_finding_is_one_line_if_the_output_is_piped():
    status, said = command(DATA / "broken", piped=True)
    found = scan(str(DATA / "broken")).findings
    *lines, summary = said.splitlines()
    assert status == 0
    assert sorted(lines) == sorted(
        f"{one.file}:{one.line}: {one.confidence} {one.clause}: {one.message}" for one in found
    )
    assert "findings" in summary


def scanned(tmp_path: Path, source: str | bytes):
    """Scan one file of this source."""
    file = tmp_path / "module.py"
    file.write_bytes(source if isinstance(source, bytes) else source.encode())
    return scan(str(file))


@pytest.mark.parametrize("file", BROKEN, ids=lambda file: file.stem)
def test_every_marked_line_is_found_and_nothing_else(file):
    lines = file.read_text().splitlines()
    expected = {
        # A line of its own speaks of the next one.
        (number + line.lstrip().startswith("#"), *match.groups())
        for number, line in enumerate(lines, 1)
        if (match := EXPECTED.search(line))
    }
    assert {(finding.line, finding.clause, finding.confidence) for finding in scan(str(file)).findings} == expected


def test_every_rule_has_a_broken_example():
    marked = {clause for file in BROKEN for clause, _ in EXPECTED.findall(file.read_text())}
    assert marked == {rule.clause for rule in RULES}


@pytest.mark.parametrize("file", FINE, ids=lambda file: file.stem)
def test_correct_functions_are_not_accused(file):
    assert scan(str(file)).findings == ()


@pytest.mark.parametrize("folder", ["correct", "../spec_impl"])
def test_implementations_known_to_be_right_are_not_accused(folder):
    found = scan(str(Path(__file__).parent / folder)).findings
    right = [finding for finding in found if not Path(finding.file).name.startswith("planted")]
    assert [finding for finding in right if finding.confidence != "possible"] == []


def test_functions_are_found_through_aliases_modules_and_inside_functions():
    result = scan(str(DATA / "found"))
    assert [(found.qualname, found.line) for found in result.found] == [
        ("pkg.aliases:ByFullName", 10),
        ("pkg.aliases:ByModuleAlias", 17),
        ("pkg.aliases:ByModule", 20),
        ("pkg.aliases:Renamed", 23),
        ("pkg.aliases:InPlace", 26),
        ("pkg.aliases:PassedOn", 29),
        ("pkg.aliases:WithMixin", 35),
        ("pkg.aliases:Assigned", 44),
        ("pkg.deep.children:Child", 5),
        ("pkg.deep.children:Grandchild", 8),
        ("pkg.deep.children:ByAttribute", 11),
        ("pkg.deep.children:make.<locals>.Local", 17),
        ("pkg.deep.children:make.<locals>.Local.Inner", 18),
        ("pkg.deep.children:make.<locals>.Conditional", 22),
        ("pkg.deep.stars:ByStar", 8),
        ("pkg.deep.stars:ByStarOfTorch", 12),
        ("pkg.deep.stars:ByStarOfPackage", 16),
    ]
    assert result.found[0].members == ("backward",)
    assert result.skipped == ()


def test_a_package_is_found_by_name_and_not_imported(monkeypatch):
    monkeypatch.chdir(DATA / "found")
    assert [found.file for found in scan("pkg.deep").found] == [found.file for found in scan("pkg").found[8:]]
    assert scan("pkg").found[0].file == "pkg/aliases.py"
    assert scan("pkg.compat").found == ()
    assert "pkg" not in sys.modules


def test_neither_torch_nor_the_package_is_imported():
    code = "import sys; from conformance.scan import scan; scan('torch.nn.parallel'); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_distribution_is_found_by_its_name_too():
    assert scan("markdown-it-py").files > 10


def test_nothing_of_torch_itself_is_skipped():
    result = scan("torch")
    assert len(result.found) > 80
    assert result.skipped == ()


@pytest.mark.parametrize(
    ("target", "word"),
    [
        ("", "nothing to scan"),
        ("no_such_package_anywhere", "neither an installed package nor a path"),
        ("no/such/folder", "no file or folder"),
        ("torch.no_such_module", "not in the installed package"),
        ("sys", "no Python source"),
        ("a b", "neither an installed package nor a path"),
        ("rich..console", "neither an installed package nor a path"),
        ("x\0y", "nothing to scan"),
    ],
)
def test_a_bad_target_is_one_line_and_status_4(target, word, capsys):
    with pytest.raises(UsageError, match=word):
        scan(target)
    assert command(target) == (4, "")
    text = capsys.readouterr().err
    assert text.count("\n") == 1
    assert word in text


def test_an_empty_folder_is_a_bad_target(tmp_path):
    assert command(tmp_path)[0] == 4


@pytest.mark.parametrize(
    "source",
    [
        b"class A(torch.autograd.Function:\n  pass",
        b"# coding: no-such-codec\nclass A(autograd.Function): pass",
        b"class A(autograd.Function): pass\n\xff\xfe",
        b"class A(autograd.Function): pass\n\0",
        "class A(autograd.Function): pass".encode("utf-16"),
        b"class A(autograd.Function): x = " + b"(" * 5000 + b")" * 5000,
        b"class A(autograd.Function): x = " + b"-" * 50_000 + b"1",
        b"class A(autograd.Function): pass\n" + b"#" * 4_000_000,
    ],
    ids=["syntax", "codec", "bytes", "nul", "utf-16", "parentheses", "minus", "huge"],
)
def test_a_file_that_cannot_be_read_is_reported_in_one_line_and_skipped(tmp_path, source):
    (tmp_path / "good.py").write_text("import torch\nclass B(torch.autograd.Function): ...\n")
    (tmp_path / "bad.py").write_bytes(source)
    result = scan(str(tmp_path))
    assert [found.name for found in result.found] == ["B"]
    (skipped,) = result.skipped
    assert skipped.file.endswith("bad.py")
    assert "\n" not in skipped.reason
    assert command(tmp_path)[0] == 0


def test_another_declared_encoding_is_read(tmp_path):
    source = "# -*- coding: latin-1 -*-\nimport torch\nclass Größe(torch.autograd.Function): ...\n".encode("latin-1")
    assert [found.name for found in scanned(tmp_path, source).found] == ["Größe"]


def test_deep_expressions_in_a_method_do_not_end_the_scan(tmp_path):
    long = " + ".join(["x"] * 3000)
    source = f"import torch\nclass A(torch.autograd.Function):\n  def forward(ctx, x):\n    return {long}\n"
    result = scanned(tmp_path, source)
    assert [found.name for found in result.found] + [skip.reason for skip in result.skipped]


def test_links_and_folders_that_loop_or_are_environments_are_left_out(tmp_path):
    function = "import torch\nclass A(torch.autograd.Function): ...\n"
    for folder in ("pkg", "env", ".hidden", "__pycache__"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.py").write_text(function)
    (tmp_path / "env" / "pyvenv.cfg").touch()
    (tmp_path / "pkg" / "loop").symlink_to(tmp_path, target_is_directory=True)
    assert [found.qualname for found in scan(str(tmp_path)).found] == ["a:A"]


@pytest.mark.parametrize("width", [80, 160])
def test_the_table_fits_and_names_everything(width):
    status, text = command(DATA / "broken", width)
    assert status == 0
    assert max(len(line.rstrip()) for line in text.splitlines()) <= width
    for found in scan(str(DATA / "broken")).found:
        assert re.search(rf"^ *{found.line}  {found.name}\b", text, re.MULTILINE), found.name
    for rule in RULES:
        assert rule.clause in text
    result = scan(str(DATA / "broken"))
    sure = sum(finding.confidence == "certain" for finding in result.findings)
    counted = f"{len(result.found)} Functions in {result.files} files; findings: {sure} certain, "
    assert text.splitlines()[-1].startswith(counted)


def test_text_of_others_is_no_markup(tmp_path):
    (tmp_path / "[red]a[").mkdir()
    (tmp_path / "[red]a[" / "bad.py").write_text("class A(Function:\n")
    (tmp_path / "[red]a[" / "bad.py").write_text("class A(Function):\n(")
    assert "[red]a[" in command(tmp_path)[1]


def test_json_holds_the_same_as_the_scan():
    status, text = command(DATA / "broken", as_json=True)
    data, result = json.loads(text), scan(str(DATA / "broken"))
    assert status == 0
    assert [function["qualname"] for function in data["functions"]] == [found.qualname for found in result.found]
    assert sum(len(function["findings"]) for function in data["functions"]) == len(result.findings)
    assert set(data["functions"][0]["findings"][0]) == {"clause", "confidence", "file", "line", "message"}


@pytest.mark.parametrize(("fail_on", "status"), [(None, 0), ("certain", 1), ("likely", 1)])
def test_findings_fail_only_when_asked(fail_on, status):
    assert command(DATA / "broken", fail_on=fail_on)[0] == status
    assert command(DATA / "fine", fail_on=fail_on)[0] == 0


def test_sarif_has_what_code_scanning_pages_need(tmp_path):
    status, _ = command(DATA / "broken", sarif=tmp_path / "scan.sarif")
    log = json.loads((tmp_path / "scan.sarif").read_text())
    assert status == 0
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-2.1.0.json")
    (sarif_run,) = log["runs"]
    rules = sarif_run["tool"]["driver"]["rules"]
    assert sarif_run["tool"]["driver"]["name"]
    assert all(rule["id"] and rule["shortDescription"]["text"] for rule in rules)
    assert sarif_run["invocations"][0]["executionSuccessful"] is True
    prints = set()
    for result in sarif_run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in {"error", "warning", "note"}
        assert result["message"]["text"]
        place = result["locations"][0]["physicalLocation"]
        assert not place["artifactLocation"]["uri"].startswith(("/", "file:"))
        assert place["region"]["startLine"] >= 1
        prints.add(result["partialFingerprints"]["conformance/v1"])
    assert len(prints) == len(sarif_run["results"]) == len(scan(str(DATA / "broken")).findings)


def test_sarif_tells_of_skipped_files(tmp_path):
    (tmp_path / "bad file.py").write_text("class A(Function):\n(")
    (sarif_run,) = to_sarif(scan(str(tmp_path)))["runs"]
    (notice,) = sarif_run["invocations"][0]["toolExecutionNotifications"]
    assert notice["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].endswith("bad%20file.py")


def test_a_sarif_file_that_cannot_be_written_is_bad_usage(tmp_path, capsys):
    assert command(DATA / "fine", sarif=tmp_path / "no" / "folder.sarif") == (4, "")
    assert capsys.readouterr().err.count("\n") == 1


def test_the_page_on_precision_names_the_packages_of_the_sample():
    """Its figures and its table are made from the data when the site is built; names and sizes are written out."""
    docs = Path(__file__).parent.parent / "docs"
    page, data = (docs / "guides" / "scan.md").read_text(), json.loads((docs / "data" / "scan-sample.json").read_text())
    later = page.partition("- **later**")[2].partition("\n\n")[0]
    named = later.partition("changed:")[2].strip(" .\n").replace("\n", " ").split(", ")
    assert [name.strip() for name in named] == [name for name, one in data["packages"].items() if one["set"] == "later"]
    (most, _), *_ = Counter(row["package"] for row in data["sample"]).most_common(1)
    assert f"findings come from {most} alone" in " ".join(page.split())
    sizes = re.findall(r"^\| (\S+) (\S+) \| ([\d,]+) \| (\d+) \| [\d.]+ \|$", page, re.MULTILINE)
    assert len(sizes) == 4
    for name, version, files, functions in sizes:
        one = data["packages"][name]
        assert (version, files, int(functions)) == (one["version"], f"{one['files']:,}", one["functions"])


SOURCES = [file.read_text() for file in (*BROKEN, *FINE, *(DATA / "found" / "pkg").glob("*.py"))]
LINES = sorted({line for source in SOURCES for line in source.splitlines()})
WORDS = sorted({word for source in SOURCES for word in re.findall(r"\w+|[^\w\s]", source)})


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=300))
def test_no_bytes_end_the_scan(tmp_path, data):
    scanned(tmp_path, b"class A(torch.autograd.Function):\n  " + data)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_no_shuffled_program_ends_the_scan(tmp_path, data):
    """Whole programs, with lines and words of others put in, taken out, and swapped."""
    lines = data.draw(st.sampled_from(SOURCES)).splitlines()
    for _ in range(data.draw(st.integers(1, 6))):
        place = data.draw(st.integers(0, len(lines) - 1))
        change = data.draw(st.sampled_from(["drop", "insert", "word", "swap"]))
        if change == "drop" and len(lines) > 1:
            del lines[place]
        elif change == "insert":
            lines.insert(place, data.draw(st.sampled_from(LINES)))
        elif change == "swap":
            other = data.draw(st.integers(0, len(lines) - 1))
            lines[place], lines[other] = lines[other], lines[place]
        else:
            found = list(re.finditer(r"\w+", lines[place]))
            if found:
                word = data.draw(st.sampled_from(found))
                new = data.draw(st.sampled_from(WORDS))
                lines[place] = lines[place][: word.start()] + new + lines[place][word.end() :]
    result = scanned(tmp_path, "\n".join(lines))
    to_sarif(result)
    assert all(finding.line > 0 for finding in result.findings)


def test_a_folder_that_cannot_be_read_is_named(monkeypatch, capsys):
    def refused(target):
        raise PermissionError(13, "Permission denied", "locked/inside")

    monkeypatch.setattr("conformance.scan.command.scan", refused)
    assert run("locked") == 4
    assert capsys.readouterr().err == "conformance: locked/inside cannot be read: Permission denied\n"


FUNCTION = "import torch\nclass A(torch.autograd.Function): ...\n"


@pytest.fixture
def refused(tmp_path, monkeypatch):
    """A package of which two folders cannot be read: one not at all, of one only the names in it."""
    package = tmp_path / "pkg"
    for folder in ("a", "closed", "names", "z"):
        (package / folder).mkdir(parents=True)
        (package / folder / "m.py").write_text(FUNCTION)
    (package / "__init__.py").touch()

    def refusing(function, *parts):
        def asked(path=".", *more, **options):
            if isinstance(path, (str, Path)) and any(f"{package}/{part}" in f"{path}" for part in parts):
                raise PermissionError(13, "Permission denied", str(path))
            return function(path, *more, **options)

        return asked

    # root may read everything, so permissions alone would not do
    monkeypatch.setattr(os, "scandir", refusing(os.scandir, "closed"))
    monkeypatch.setattr(os, "open", refusing(os.open, "closed/", "names/"))
    monkeypatch.setattr(os, "stat", refusing(os.stat, "closed/", "names/"))
    return package


def test_folders_that_cannot_be_read_are_named_and_the_scan_goes_on(refused):
    result = scan(str(refused))
    assert [found.file for found in result.found] == ["pkg/a/m.py", "pkg/z/m.py"]
    denied = "cannot be read: Permission denied"
    assert [(skip.file, skip.reason) for skip in result.skipped] == [("pkg/closed", denied), ("pkg/names/m.py", denied)]


def test_what_stands_beside_a_folder_that_cannot_be_read_is_scanned(refused):
    result = scan(str(refused / "a"))
    assert [found.name for found in result.found] == ["A"]
    assert result.skipped == ()


def test_a_folder_that_cannot_be_read_at_all_is_no_empty_one(refused, capsys):
    assert run(str(refused / "closed")) == 4
    assert capsys.readouterr().err == f"conformance: {refused}/closed cannot be read: Permission denied\n"


def test_only_files_are_read(tmp_path):
    (tmp_path / "m.py").write_text(FUNCTION)
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "gone.py").symlink_to("nowhere.py")
    result = scan(str(tmp_path))
    assert [found.name for found in result.found] == ["A"]
    assert {Path(skip.file).name: skip.reason for skip in result.skipped} == {
        "pipe.py": "cannot be read: it is not a file",
        "gone.py": "cannot be read: No such file or directory",
    }


def test_what_was_skipped_is_named_as_it_is_called(tmp_path):
    (tmp_path / "bad[bold].py").write_text("class A(autograd.Function:")
    text = io.StringIO()
    assert run(str(tmp_path), console=terminal(text, width=200)) == 0
    assert re.search(r"^skipped \S*bad\[bold\]\.py: not Python", text.getvalue(), re.MULTILINE), text.getvalue()


def test_a_file_name_may_be_any_bytes(tmp_path):
    for name, source in ((b"\xff\x1b[31m.py", FUNCTION), (b"bad\xff.py", "class A(autograd.Function:")):
        with open(os.path.join(os.fsencode(tmp_path), name), "w") as file:
            file.write(source)
    status, told = command(tmp_path, width=200, sarif=tmp_path / "scan.sarif")
    assert status == 0
    assert r"\udcff\x1b[31m.py" in told
    assert r"bad\udcff.py: not Python" in told
    assert "bad%FF.py" in (tmp_path / "scan.sarif").read_text()
