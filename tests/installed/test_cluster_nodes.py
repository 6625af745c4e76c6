"""Two nodes on one machine: network namespaces with a cable between them, cut and mended."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster_nodes import Nodes, alone, finish, hub, two_nodes, verdicts, wait_for

GATHER = ("spec_impl.ksuit:AllGatherGradAutograd", "--spec", "AllGatherGradAutograd", "--ranks")
AFFECTED_GATHER = ("affected:Gather", *GATHER[1:], "1,2")
FEW = ("-k", "gradient_is_the_sum and float64", "--timeout", "20", "--report")
#: A gather during which something happens to rank 1, which stands on the second node, the first time it is called.
AFFECTED = """
import os, pathlib, subprocess, time
import torch.distributed as dist
from spec_impl.ksuit import AllGatherGradAutograd

HAPPENED = pathlib.Path(__file__).with_name("happened")

class Gather(AllGatherGradAutograd):
    @staticmethod
    def forward(ctx, x):
        if dist.get_world_size() == 2 and not HAPPENED.exists():
            if dist.get_rank() == 1:
                {what}
                HAPPENED.touch()
            dist.barrier()
        return AllGatherGradAutograd.forward(ctx, x)
"""


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    try:
        with two_nodes(tmp_path, processes=1) as made:
            yield made
    except PermissionError as error:
        pytest.skip(str(error))


def test_two_nodes_give_the_verdicts_of_one_machine(tmp_path: Path) -> None:
    """With a world across the cable, and one that fits on the first node; one report, on the first node."""
    words = (*GATHER, "2,4", *FEW)
    alone(tmp_path, *words, "one")
    try:
        with two_nodes(tmp_path, processes=2) as nodes:
            launched = [nodes.launch(place, 29511, *words, "many") for place in (0, 1)]
            outputs = [finish(process)[1] for process in launched]
    except PermissionError as error:
        pytest.skip(str(error))
    assert verdicts(tmp_path / "one") == verdicts(tmp_path / "many"), outputs
    assert json.loads((tmp_path / "many" / "report.json").read_text())["environment"]["machines"] == 2
    assert "Not selected" in outputs[0]
    assert "Not selected" not in outputs[1]


def test_more_nodes_and_slow_cables_give_the_same_verdicts(tmp_path: Path) -> None:
    """Three hosts, so far apart that every message takes 50 ms each way."""
    words = (*GATHER, "3", *FEW)
    alone(tmp_path, *words, "one")
    try:
        with hub(tmp_path, 3, processes=1, delay=0.05) as nodes:
            launched = [nodes.launch(place, 29514, *words, "many") for place in range(3)]
            outputs = [finish(process)[1] for process in launched]
    except PermissionError as error:
        pytest.skip(str(error))
    assert verdicts(tmp_path / "one") == verdicts(tmp_path / "many"), outputs
    assert json.loads((tmp_path / "many" / "report.json").read_text())["environment"]["machines"] == 3


def test_a_cut_cable_ends_the_run_with_a_report(nodes: Nodes, tmp_path: Path) -> None:
    """No test is judged by what a lost node did not say; nobody waits for it without end."""
    (tmp_path / "affected.py").write_text(
        AFFECTED.format(what='subprocess.run(["ip", "link", "set", "cable1", "down"])')
    )
    words = [
        *AFFECTED_GATHER,
        "-k",
        "gradient_is_the_sum and float64",
        "--timeout",
        "6",  # on a busy machine a first gradient alone may take three: PyTorch imports sympy for it
        "--report",
        "out",
    ]
    processes = [nodes.launch(place, 29512, *words) for place in (0, 1)]
    wait_for((tmp_path / "happened").exists)
    status, output = finish(processes[0])
    assert status
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["subjects"][0]["verdict"] == "incomplete", output
    _, tests = verdicts(tmp_path / "out")
    assert {outcome for outcome, _ in tests.values()} <= {"pass", "skip"}, output
    wait_for(lambda: not nodes.running(1, "conformance.ranks.forkserver"))  # torchrun's own agent is not ours to end


def test_a_node_that_comes_back_resumes_the_run(nodes: Nodes, tmp_path: Path) -> None:
    """Kill all processes of one node in the middle of a test; started again, the run goes on where it was."""
    (tmp_path / "affected.py").write_text(AFFECTED.format(what="HAPPENED.touch(); time.sleep(600)"))
    words = [*AFFECTED_GATHER, *FEW, "out"]
    options = ["--max-restarts=1"]
    first, other = (nodes.launch(place, 29513, *words, options=options) for place in (0, 1))
    wait_for((tmp_path / "happened").exists)
    journal = (tmp_path / "out" / "outcomes.jsonl").read_text().splitlines()
    nodes.kill(1)
    other.communicate()
    nodes.launch(1, 29513, *words, options=options)
    _, output = finish(first)
    lines = (tmp_path / "out" / "outcomes.jsonl").read_text().splitlines()
    assert lines[: len(journal)] == journal, "what was finished stays"
    finished = [json.loads(line)["nodeid"] for line in lines[1:]]
    assert len(finished) == len(set(finished)), "and is not run again"
    _, tests = verdicts(tmp_path / "out")
    assert {outcome for outcome, ranks in tests.values() if len(ranks) == 2} == {"pass"}, output
