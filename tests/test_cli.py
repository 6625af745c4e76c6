"""The command line: what cannot be used ends with status 4 and a line or two; list and explain tell what there is."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.cli.commands import main
from conformance.core import clauses
from tests.modules import module
from tests.sharing import one_forkserver

MORE = """
number = 5

class Other:
    pass

class Layer(torch.nn.Module):
    pass

def no_tuples():
    yield torch.ones(3)

def raising():
    raise ValueError("no data here")

def raising_there():
    return [(torch.ones(3), given()) for given in (raising,)]

def nothing():
    return []

def endless():
    while True:
        yield (torch.ones(3, requires_grad=True),)

def none():
    pass

def leaving():
    raise SystemExit(5)

def mapping():
    return {"x": torch.ones(3)}

def text():
    return "hello"

def tensor():
    return torch.ones(3)

def returned():
    return torch.ones(3), 2.0
"""
UNREAD = """
import torch

class Twice(torch.autograd.Function):
    def forward(ctx, x:
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    (folder / "layers.py").write_text(module() + MORE)
    (folder / "src").mkdir()
    (folder / "src/inner.py").write_text(module())
    (folder / "raising.py").write_text('raise ValueError("not here")\n')
    (folder / "leaving.py").write_text("import sys\nsys.exit(3)\n")
    with contextlib.chdir(folder), one_forkserver():
        yield folder


@pytest.fixture
def among_others(folder, monkeypatch):
    """A folder with modules in which nothing is written, and ranks that start there."""
    monkeypatch.chdir(folder)
    before = set(folder.iterdir())
    yield
    assert {file for file in folder.iterdir() if file.name != "__pycache__"} <= before


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


TWICE = ("run", "layers:Twice", "--inputs", "layers:inputs")
#: What is wrong: the words of the command, and what must be said.
BAD = {
    "no such module": (("run", "layrs:Twice"), "no module named 'layrs'"),
    "no such attribute": (("run", "layers:Thrice"), "module 'layers' has no attribute 'Thrice'"),
    "no reference": (("run", "layers"), "is not of the form module:attribute"),
    "not a Function": (("run", "layers:number"), "is an int, not a Function class, a callable or a Subject"),
    "no module": (("run", ":Twice"), "':Twice' is not of the form module:attribute"),
    "no name": (("run", ""), "'' is not of the form module:attribute"),
    "no module to watch": (("watch", ".:Twice"), "'.:Twice' is not of the form module:attribute"),
    "another case": (("run", "layers:twice"), "module 'layers' has no attribute 'twice'; did you mean 'Twice'?"),
    "a file": (("run", "layers.py:Twice"), "give a module, not a file: layers:Twice"),
    "a path": (("run", "./layers.py:Twice"), "give a module, not a file: layers:Twice"),
    "two colons": (("run", "layers.py::Twice"), "give a module, not a file: layers:Twice"),
    "a file alone": (("run", "layers.py"), "give a module and what it holds, not a file: layers:MyFunction"),
    "a dot for the colon": (("run", "layers.Twice"), "did you mean layers:Twice?"),
    "another class": (("run", "layers:Other"), "no subclass of torch.autograd.Function"),
    "no inputs": (("run", "layers:Twice"), "needs sample inputs"),
    "wrong spec": (
        ("run", "layers:Twice", "--spec", "Gather"),
        "no such spec; did you mean AllGather? there are Function, Collective, AllGatherGradAutograd",
    ),
    "ranks 0": ((*TWICE, "--ranks", "0"), "--ranks '0': give world sizes from 1"),
    "ranks x": ((*TWICE, "--ranks", "x"), "--ranks 'x': give world sizes from 1"),
    "ranks -1": ((*TWICE, "--ranks=-1"), "--ranks '-1'"),
    "no time": ((*TWICE, "--timeout", "0"), "--timeout '0': give a number of seconds from 0.1 to 86400"),
    "hardly any time": ((*TWICE, "--timeout", "1e-9"), "--timeout '1e-9': give a number of seconds from 0.1"),
    "no number of seconds": ((*TWICE, "--timeout", "nan"), "--timeout 'nan': give a number of seconds from 0.1"),
    "backend": (
        (*TWICE, "--backend", "warp"),
        "--backend 'warp': torch.distributed knows no such backend; there are gloo",
    ),
    "a seed that is no number": ((*TWICE, "--backend", "simulated:x"), "give the seed of a schedule as a number"),
    "simulated ranks on a device": (
        (*TWICE, "--backend", "simulated", "--device", "emulated"),
        "--backend simulated: simulated ranks have tensors on the CPU; leave out --device",
    ),
    "device": ((*TWICE, "--device", "npu"), "--device 'npu': PyTorch knows no such device; there are cpu, emulated"),
    "inputs that are no tuples": (
        ("run", "layers:Twice", "--inputs", "layers:no_tuples"),
        "yield a Tensor, not a tuple",
    ),
    "inputs that raise": (("run", "layers:Twice", "--inputs", "layers:raising"), "raise ValueError: no data here"),
    "where inputs raise": (
        ("run", "layers:Twice", "--inputs", "layers:raising_there"),
        "(at layers.py:29, in raising)",
    ),
    "inputs of a module that raises": (
        ("run", "layers:Twice", "--inputs", "raising:inputs"),
        "the inputs raising:inputs: its import raises ValueError: not here (at raising.py:1, in <module>)",
    ),
    "inputs of a module that exits": (
        ("run", "layers:Twice", "--inputs", "leaving:inputs"),
        "the inputs leaving:inputs: its import raises SystemExit: 3 (at leaving.py:2, in <module>)",
    ),
    "a setup of a module that raises": (
        (*TWICE, "--setup", "raising:setup"),
        "--setup raising:setup: its import raises ValueError: not here (at raising.py:1, in <module>)",
    ),
    "a setup that exits": ((*TWICE, "--setup", "layers:leaving"), "--setup layers:leaving raised SystemExit: 5"),
    "inputs that exit": (("run", "layers:Twice", "--inputs", "layers:leaving"), "raise SystemExit: 5"),
    "inputs that are None": (("run", "layers:Twice", "--inputs", "layers:none"), "are None, not tuples of arguments"),
    "inputs by name": (("run", "layers:Twice", "--inputs", "layers:mapping"), "are a dict, not tuples of arguments"),
    "inputs of text": (("run", "layers:Twice", "--inputs", "layers:text"), "are a str, not tuples of arguments"),
    "one tensor": (("run", "layers:Twice", "--inputs", "layers:tensor"), "are a Tensor, not tuples of arguments"),
    "inputs that are none": (("run", "layers:Twice", "--inputs", "layers:nothing"), "yield nothing"),
    "inputs for a spec that has its own": ((*TWICE, "--spec", "GradFactor"), "spec GradFactor has samples of its own"),
    "inputs that never end": (
        ("run", "layers:Twice", "--inputs", "layers:endless"),
        "yield more than 1000 tuples of arguments; one of each kind is enough",
    ),
    "inputs of nothing": (("run", "--inputs", "layers:inputs"), "--inputs needs a subject"),
    "report folder": ((*TWICE, "--report", "layers.py/x"), "cannot write to layers.py/x"),
    "script folder": ((*TWICE, "--reproduce", "layers.py/x"), "cannot write to layers.py/x"),
    "no report folder": ((*TWICE, "--report", ""), "--report needs DIR; it was given an empty string"),
    "no inputs by name": (("run", "layers:Twice", "--inputs", ""), "--inputs needs MODULE:CALLABLE; it was given an"),
    "expectations": ((*TWICE, "--expect", "none.toml"), "none.toml"),
    "expectations there": ((*TWICE, "--write-expect", "layers.py"), "there is such a file"),
    "no place for expectations": ((*TWICE, "--write-expect", "/proc/new.toml"), "cannot write /proc/new.toml: "),
    "a long name for expectations": ((*TWICE, "--write-expect", "a" * 300), "File name too long"),
    "no folder for expectations": ((*TWICE, "--write-expect", "no/such.toml"), "there is no folder 'no'"),
    "workers": ((*TWICE, "-n", "some"), "-n 'some': give a number of processes, or auto"),
    "workers by the hundred": ((*TWICE, "-n", "999"), "-n '999': give at most 8 processes for each of the"),
    "workers below 0": ((*TWICE, "-n=-1"), "-n '-1': give a number of processes, or auto"),
    "nothing selected": ((*TWICE, "-k", "no_such_test"), "-k 'no_such_test' matches no test"),
    "no package": (("run", "--from", "nobody"), "no installed package of that name registers subjects"),
    "no command": ((), "COMMAND"),
    "unknown command": (("rum",), "invalid choice: 'rum'"),
    "unknown option": (("run", "--rank", "2,x"), "--rank"),
    "half an option": ((*TWICE, "--rank", "2"), "unrecognized arguments: --rank 2; did you mean --ranks?"),
    "arguments that are returned": (
        ("run", "layers:Twice", "--inputs", "layers:returned"),
        "yield a Tensor, not a tuple of arguments; yield (x, 2.0) instead of returning it",
    ),
    "inputs that nobody named": (
        ("run", "layers:Twice"),
        "tuples of arguments: does layers:inputs yield them? Name it by --inputs",
    ),
    "unknown clause": (("explain", "Function.backward.cuont"), "did you mean Function.backward.count"),
    "no report": (("verify", "none.json"), "cannot read none.json"),
    "no reports": (("compare", "none.json", "none.json"), "cannot read none.json"),
    "no package to scan": (("scan", "nobody_has_this"), "nobody_has_this"),
    "nothing to watch": (("watch",), "watch needs a subject"),
    "not installed": (("run", "inner:Twice", "--inputs", "inner:inputs"), "it lies in src: install your package"),
    "a file in src": (("run", "src/inner.py:Twice"), "give a module, not a file: inner:Twice"),
    "a class to be called": (("run", "layers:Layer", "--inputs", "layers:inputs"), "give an instance of it"),
    "inputs without a name": (
        ("run", "layers:Twice", "--inputs", "layers"),
        "--inputs 'layers' is not of the form module:attribute, such as mypackage.layers:inputs",
    ),
    "a setup without a module": ((*TWICE, "--setup", "start"), "--setup 'start' is not of the form module:attribute"),
    "a spec in other letters": ((*TWICE, "--spec", "function"), "did you mean Function?"),
    "words for types": ((*TWICE, "--spec", "Collective", "--types", "partial -> varying"), 'write "P -> V"'),
    "a type for the group": ((*TWICE, "--spec", "Collective", "--types", "P, GROUP -> V"), 'write "P -> V"'),
    "a name of 4,000 letters": (("run", "layers:" + "T" * 4000), "has 4007 characters; give it a name of at most 200"),
    "a clause for a test": (
        (*TWICE, "-k", "Function.backward.accepts"),
        "the tests of that clause are -k 'test_it_takes_one_value_for_each_output'",
    ),
    "no run to resume": ((*TWICE, "--resume", "nothing"), "it has no outcomes.jsonl; give the folder of a run with"),
    "a file for a folder": (
        (*TWICE, "--report", "layers.py"),
        "cannot write to layers.py: it is a file; give a folder",
    ),
    "another command's option": (
        ("watch", "layers:Twice", "--report", "x"),
        "conformance watch: unrecognized arguments: --report x (see conformance watch --help)",
    ),
    "an option mistyped": (("list", "--jsn"), "unrecognized arguments: --jsn; did you mean --json?"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_ends_with_status_4_and_a_line_or_two(among_others, capfd, case):
    words, said = BAD[case]
    assert main(words) == 4
    told = capfd.readouterr()
    assert said in told.err, told.err
    assert not told.out.strip()
    assert len(told.err.strip().splitlines()) <= 2
    assert "Traceback" not in told.err


def test_a_file_that_cannot_be_read_is_not_passed_over_in_silence(here, capsys):
    (here / "unread.py").write_text(UNREAD)
    main(("scan", "unread.py"))
    assert "unread.py: not Python that this interpreter reads" in capsys.readouterr().out


def test_a_file_that_is_scanned_by_name_is_read_whatever_it_holds(here, capsys):
    (here / "known.toml").write_text("[[expect]]\nnot one = but two\n")
    assert main(("scan", "known.toml")) == 0
    assert "known.toml: not Python that this interpreter reads" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["run", "watch"])
def test_a_current_directory_that_is_gone_is_named(tmp_path, monkeypatch, capfd, command):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert main((command, "layers:Twice")) == 4
    assert capfd.readouterr().err == "conformance: the current directory does not exist any more; go to another one\n"


def test_a_report_with_one_problem_has_one(here, capsys):
    (here / "none.json").write_text("{}")
    assert main(("verify", "none.json")) == 1
    assert "none.json: 1 problem\n" in capsys.readouterr().out


def test_list_names_every_clause(capsys):
    assert main(["list"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in clauses.registry())


def test_list_as_json_has_every_clause_in_order(capsys):
    assert main(["list", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [clause["id"] for clause in data] == list(clauses.registry())
    assert all(clause["text"] and clause["level"] and clause["tests"] for clause in data)


def test_explain_tells_text_level_sources_and_tests(capsys):
    assert main(["explain", "Function.backward.count"]) == 0
    out = capsys.readouterr().out
    for word in ("must", "sources", "spec_impl/function_backward.py", "test_one_value_for_each_input"):
        assert word in out


def test_explain_says_which_modules_decide(capsys):
    assert main(["explain", "Function.backward.gradient"]) == 0
    told = capsys.readouterr().out
    one = told.partition("test_gradient_is_the_derivative")[2].partition("test_backward")[0]
    assert "decided by kit." in one
    assert "kit.oracles.sample" in one
    varied = told.partition("test_gradient_of_another_sample")[2].partition("test_varied.py")[0]
    assert "decided by kit.judged\n" in varied  # where the annotation Variation comes from decides nothing
    assert main(["explain", "Function.backward.count"]) == 0
    assert "kit.oracles" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "shown", "others"),
    [
        ("Function.jvp", {"Function.jvp.count", "Function.jvp.in-place"}, {"NestedIOFunction.jvp.nested"}),
        ("gradfactor.", {"GradFactor.jvp.scaled", "GradFactor.backward.none-for-f"}, {"Function.jvp.count"}),
        ("AllGather", {"AllGather.forward.args"}, {"AllGatherGradAutograd.forward.meta"}),
        ("mark_dirty", {"Function.mark_dirty.once", "NestedIOFunction.mark_dirty.nested"}, {"Function.jvp.count"}),
        ("count", {"Function.backward.count", "Function.jvp.count"}, {"Function.backward.gradient"}),
    ],
)
def test_explain_lists_the_clauses_under_a_part_of_their_names(capsys, words, shown, others):
    assert main(["explain", words]) == 0
    rows = {line.split()[0] for line in capsys.readouterr().out.splitlines() if line.startswith("  ")}
    assert shown <= rows
    assert not others & rows
    assert rows <= set(clauses.registry())


@pytest.mark.parametrize("words", ["backward.count", "function.BACKWARD.count", "Function.backward.count."])
def test_explain_shows_the_one_clause_that_is_meant(capsys, words):
    assert main(["explain", words]) == 0
    assert "Function.backward.count   must" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("Function.backward.gradiant", "Function.backward.gradient"),
        ("Function.backwards.count", "Function.backward.count"),
        ("Funtcion.backward", "Function.backward"),
        ("Function_backward", "Function.backward"),
        ("Fonction", "Function"),
        ("GradFactor.forward.identty", "GradFactor.forward.identity"),
    ],
)
def test_explain_names_the_nearest_of_what_there_is(capsys, words, meant):
    assert main(["explain", words]) == 4
    assert capsys.readouterr().err == f"conformance: no clause {words!r}; did you mean {meant}?\n"


@pytest.mark.parametrize("words", ["", " ", ".", "xyz", "?" * 100_000])
def test_explain_guesses_nothing_where_nothing_is_near(capsys, words):
    assert main(["explain", words]) == 4
    told = capsys.readouterr().err
    assert told.endswith("`conformance list` shows them all\n")
    assert len(told) < 300


@pytest.mark.parametrize("command", ["", "run", "list", "explain", "scan", "verify", "compare", "watch"])
def test_help_is_there_for_every_command(capsys, command):
    assert main([*filter(None, [command]), "--help"]) == 0
    assert "usage: conformance" in capsys.readouterr().out


def test_the_version_is_told(capsys):
    assert main(["--version"]) == 0
    assert re.fullmatch(r"autograd-conformance \d+\.\d+\.\d+\S*\n", capsys.readouterr().out)


def test_neither_help_nor_list_imports_torch():
    code = "import sys; from conformance.cli.commands import main; main(['list']); main(['run', '--help'])"
    code += "; sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=Path(__file__).parent.parent)
    assert done.returncode == 0, done.stderr


def test_python_m_is_the_same_command():
    done = subprocess.run(
        [sys.executable, "-m", "conformance", "explain", "Function.backward.count"],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent.parent,
    )
    assert done.returncode == 0
    assert "Function.backward.count" in done.stdout
