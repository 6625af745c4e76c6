"""Odd places and ways to start a run from: streams that are closed, few open files, modules in the way."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from conformance.ranks.client import Forkserver
from tests.faults.command import FEW, HERE, ROOT, reported, run, start
from tests.faults.running import SPEC, new_pool
from tests.faults.running import run as run_item
from tests.modules import module

GATHER = ("--spec", SPEC, "--ranks", "2", "-k", FEW)
#: Modules that Python or torch would find first in the current directory, were it on the path.
IN_THE_WAY = ("random", "torch", "ctypes", "selectors", "signal", "socket", "pytest", "numpy")
COMMAND = str(Path(sysconfig.get_path("scripts"), "conformance"))
PYTHON = shlex.quote(sys.executable)
WAYS = {"-m": f"{PYTHON} -m conformance", "-P -m": f"{PYTHON} -P -m conformance", "command": COMMAND}


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_standard_streams_that_are_closed_cost_nothing(tmp_path: Path, closed: str) -> None:
    words = [sys.executable, "-m", "conformance", "run", "hostile:Good", *GATHER, "--report", "out"]
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{HERE}"}
    subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", *words],
        cwd=tmp_path, env=environment, capture_output=True, check=False, timeout=600,
    )  # fmt: skip
    assert {test["outcome"] for test in reported(tmp_path / "out" / "report.json")} == {"pass", "skip"}


@pytest.mark.parametrize(("most", "size"), [(20, 2), (26, 2), (32, 2), (64, 16)])
def test_too_few_open_files_are_said(tmp_path: Path, most: int, size: int) -> None:
    words = [sys.executable, "-m", "conformance", "run", "hostile:Good", "--spec", SPEC, "-k", FEW]
    words += ["--ranks", str(size), "--report", "out"]
    done = subprocess.run(
        ["sh", "-c", f'ulimit -n {most}; exec "$@"', "sh", *words],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": f"{ROOT}:{HERE}"}, capture_output=True, text=True, check=False,
        timeout=600,
    )  # fmt: skip
    report = tmp_path / "out" / "report.json"
    tests = list(reported(report)) if report.exists() else []
    good = {test["outcome"] for test in tests} == {"pass", "skip"}
    said = done.stderr + "".join(test["message"] + test["reason"] for test in tests)
    assert good or "ulimit -n" in said or "Too many open files" in said, said
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ({"GLOO_SOCKET_IFNAME": "nope0"}, r"GLOO_SOCKET_IFNAME='nope0': .* there are .*\blo"),
        ({"GLOO_SOCKET_IFNAME": "lo,nope0"}, r"GLOO_SOCKET_IFNAME='lo,nope0': .* there are .*\blo"),
        ({"GLOO_DEVICE_TRANSPORT": "BOGUS"}, r"2 ranks did not start with gloo: .*unsupported gloo device"),
    ],
    ids=["no such interface", "one of two", "no such transport"],
)
def test_ranks_that_cannot_meet_accuse_nobody(tmp_path: Path, setting: dict[str, str], told: str) -> None:
    status, out, err = run("run", "hostile:Good", *GATHER, "--report", "out", cwd=tmp_path, env=setting)
    (subject,) = json.loads((tmp_path / "out" / "report.json").read_text())["subjects"]
    assert (status, subject["verdict"]) == (1, "incomplete"), out
    asked = [test for test in reported(tmp_path / "out" / "report.json") if FEW in test["nodeid"]]
    assert {test["outcome"] for test in asked} == {"skip"}
    assert all(re.match(told, test["reason"]) for test in asked if "ranks2" in test["nodeid"]), asked
    assert "Traceback" not in out + err


def test_warnings_that_are_errors_for_the_user_are_not_for_torch(tmp_path: Path) -> None:
    words = ("run", "hostile:Good", *GATHER, "--report", "out")
    _, out, err = start(*words, cwd=tmp_path, env={"PYTHONWARNINGS": "error"})
    assert err == "", out
    assert {test["outcome"] for test in reported(tmp_path / "out" / "report.json")} == {"pass", "skip"}


def test_warnings_that_are_errors_for_the_user_are_none_on_ranks(tmp_path: Path) -> None:
    """PyTorch warns of what the suite does on purpose, such as forward mode, and a subject may warn as it likes."""
    (tmp_path / "warns.py").write_text(
        "import torch, warnings\n"
        "warnings.warn('of its import')\n"
        "warnings.simplefilter('error')\n"
        "class Warns(torch.autograd.Function):\n"
        "    @staticmethod\n    def forward(ctx, x):\n        warnings.warn('old')\n        return 2 * x\n"
        "    @staticmethod\n    def backward(ctx, grad):\n        return 2 * grad\n"
        "inputs = [(torch.ones(2, requires_grad=True),)]\n"
    )
    asked = "test_data_on_ctx_reaches_jvp or test_gradient_is_the_derivative"
    words = ("run", "warns:Warns", "--inputs", "warns:inputs", "-k", asked, "--report", "out")
    _, out, _ = start(*words, cwd=tmp_path, env={"PYTHONWARNINGS": "default,error"})
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    tests = [test for clause in report["engine"] for test in clause["tests"]] + [
        *reported(tmp_path / "out" / "report.json")
    ]
    assert {test["outcome"] for test in tests if test["reason"] != "not selected"} == {"pass"}, out


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder full of modules in the way."""
    for name in IN_THE_WAY:
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong one')\n")
    (tmp_path / "json").mkdir()
    (tmp_path / "json" / "__init__.py").write_text("raise SystemExit('the wrong one')\n")
    return tmp_path


def started(folder: Path, way: str, *words: str) -> tuple[int, str]:
    """Run the command in a folder, in one of the ways there are: its status and all that it says."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [*shlex.split(way), *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("more", [(), ("-n", "1")], ids=["alone", "with workers"])
def test_modules_in_the_current_directory_do_not_break_a_run(folder: Path, way: str, more: tuple[str, ...]) -> None:
    if way != WAYS["-m"]:
        # Before `-m` comes to our code, a bare Python has imported it; see the next test.
        (folder / "types.py").write_text("raise SystemExit('the wrong one')\n")
    words = ("spec_impl.torchlogix:GradFactor", "--spec", "GradFactor", "--ranks", "1", "-k", "test_values_are_kept")
    status, said = started(folder, way, "run", *words, "--report", "out", *more)
    assert status == 1, said  # the rest was not selected
    outcomes = {test["outcome"] for test in reported(folder / "out" / "report.json", words[0])}
    assert outcomes == {"pass", "skip"}, said


def test_a_types_module_is_in_the_way_of_m_itself_and_of_nothing_of_ours(folder: Path) -> None:
    """Python's own ``-m`` imports ``types`` before it comes to any package, so that there is nothing to mend here."""
    (folder / "types.py").write_text("raise SystemExit('the wrong one')\n")
    bare = f"{PYTHON} -S -m"  # as where no package has Python import it at the start
    assert "the wrong one" in started(folder, f"{bare} this")[1]
    assert started(folder, COMMAND, "list")[0] == 0


def test_the_forkserver_does_not_look_in_the_current_directory(folder: Path) -> None:
    (folder / "types.py").write_text("raise SystemExit('the wrong one')\n")
    script = "from conformance.ranks.client import Forkserver\nwith Forkserver() as forkserver: forkserver.wait()"
    status, said = started(folder, shlex.join([sys.executable, "-P", "-c", script]))
    assert (status, said) == (0, "")


def test_a_module_that_cannot_be_imported_ahead_ends_nothing() -> None:
    with Forkserver() as forkserver, new_pool(forkserver) as pool:
        forkserver.preload(("no_such_module",))
        assert run_item(pool, "Good", "test_calm", 2).outcome == "pass"
        assert forkserver.restarts == 0


@pytest.mark.parametrize("executable", ["None", "''"])
def test_a_python_that_does_not_know_where_it_is_is_said_in_a_line(tmp_path: Path, executable: str) -> None:
    script = (
        f"import sys; sys.executable = {executable}\nfrom conformance.cli.commands import main\n"
        f"sys.exit(main(['run', 'hostile:Good', '--spec', {SPEC!r}]))"
    )
    status, said = started(tmp_path, shlex.join([sys.executable, "-P", "-c", script]))
    assert status == 4
    assert said.startswith("conformance: sys.executable is empty")
    assert len(said.splitlines()) == 1


def test_half_a_report_that_a_killed_run_left_is_swept_by_the_next(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    left = [tmp_path / "out" / f".{name}-a1b2c3d4" for name in ("report.json", "report.html", "junit.xml", "badge.svg")]
    own = [tmp_path / "out" / name for name in (".report.json-other-notes", ".gitignore", "report.json-a1b2c3d4")]
    for file in (*left, *own):
        file.write_text("{")
    run("run", "hostile:Good", *GATHER, "--report", "out", cwd=tmp_path)
    assert [file.name for file in left if file.exists()] == []
    assert all(file.exists() for file in own)


def test_a_run_needs_no_root(tmp_path: Path) -> None:
    """In a namespace in which nobody is anybody: without capabilities, and without a home to keep a key in."""
    if subprocess.run(["unshare", "-U", "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine lets nobody make a namespace of users")
    words = ["run", "hostile:Good", "kills_on_import:Gather", *GATHER, "--report", "out"]
    done = subprocess.run(
        ["unshare", "-U", sys.executable, "-m", "conformance", *words],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT}/tests/faults", "HOME": "/proc/none"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, ""), done.stdout
    report = tmp_path / "out" / "report.json"
    assert "crash" in {test["outcome"] for test in reported(report, "kills_on_import:Gather")}
    assert {test["outcome"] for test in reported(report, "hostile:Good")} == {"pass", "skip"}


def test_many_subjects_go_through_one_run(tmp_path: Path) -> None:
    """Three hundred take two minutes; of them all nothing grows but the report."""
    names = [f"layers:Twice{number}" for number in range(40)]
    more = "\nfor number in range(40):\n    globals()[f'Twice{number}'] = type(f'Twice{number}', (Twice,), {})\n"
    (tmp_path / "layers.py").write_text(module() + more)
    words = ("--inputs", "layers:inputs", "--ranks", "1", "-k", "test_one_value_for_each_input", "--report", "out")
    status, _, said = run("run", *names, *words, cwd=tmp_path)
    assert (status, said) == (1, ""), "-k leaves the verdict incomplete"
    for name in names:
        outcomes = [test["outcome"] for test in reported(tmp_path / "out" / "report.json", name)]
        assert outcomes.count("pass") == 1
        assert set(outcomes) == {"pass", "skip"}


def test_ranks_are_the_first_to_go_when_memory_ends() -> None:
    with Forkserver() as forkserver, new_pool(forkserver) as pool:
        assert run_item(pool, "Good", "test_calm", 2).outcome == "pass"
        assert pool.group is not None
        scores = [Path(f"/proc/{rank.pid}/oom_score_adj").read_text() for rank in pool.group.ranks]
    assert scores == ["1000\n"] * 2
    assert int(Path("/proc/self/oom_score_adj").read_text()) < 1000
