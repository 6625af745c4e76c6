"""The suite under torchrun: the same verdicts as on one machine, and runs that survive what happens to a rank."""

from __future__ import annotations

import base64
import json
import os
import pickle
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from conformance.core.errors import UsageError
from conformance.core.key import pop_key
from conformance.core.outcomes import RankOutcome
from conformance.ranks.cluster.group import blamed
from conformance.ranks.cluster.leader import world_sizes
from conformance.ranks.cluster.store import SIGNATURE, LeaderSilent, Post, launch_in, pop_launch
from tests.cluster_nodes import LIMIT, ROOT, alone, launched, verdicts, wait_for
from tests.faults.command import reported

GATHER = ("spec_impl.ksuit:AllGatherGradAutograd", "--spec", "AllGatherGradAutograd")
FEW = "gradient_is_the_sum or exchange or own_memory"


def test_verdicts_are_those_of_a_run_on_one_machine(tmp_path: Path) -> None:
    """The same tests, outcomes and ranks, whoever starts the ranks; subsets of the world among them."""
    words = [*GATHER, "--ranks", "2,3", "-k", FEW, "--report"]
    alone(tmp_path, *words, "one")
    status, output = launched(tmp_path, 3, *words, "many")
    assert verdicts(tmp_path / "one") == verdicts(tmp_path / "many"), output
    passed = [ranks for outcome, ranks in verdicts(tmp_path / "many")[1].values() if outcome == "pass"]
    assert {len(ranks) for ranks in passed} >= {2, 3}
    environment = json.loads((tmp_path / "many" / "report.json").read_text())["environment"]
    assert (environment["launched"], environment["machines"]) == (3, 1)
    assert status == 1  # -k leaves the verdict incomplete
    assert output.count("Not selected") == 1, "one process alone reports"


STOPS, KILLS, FORGES = ("hostile:forward_stops_parent", "hostile:forward_kills_parent", "hostile:forward_forges_list")
#: One rank dies, one hangs; a forkserver is stopped, one is killed, and an outcome comes that no rank gives.
HARMED, ATTACKED = ("odd:Dies", "odd:Hangs"), (STOPS, KILLS, FORGES)
HURRIED = (*GATHER, "--ranks", "2,3", "--timeout", "5", "-k", "gradient_is_the_sum and float64", "--report")


@pytest.fixture(scope="module")
def harmed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The report of a run under torchrun in which all of that happens, and what the run printed."""
    folder = tmp_path_factory.mktemp("harmed")
    _, output = launched(folder, 3, *HARMED, *ATTACKED, *HURRIED, "many")
    return folder / "many", output


def test_a_rank_that_dies_or_hangs_costs_no_other_test(tmp_path: Path, harmed: tuple[Path, str]) -> None:
    """After a crash and after a hang all processes form a new world; the outcomes are those of one machine."""
    report, output = harmed
    alone(tmp_path, *HARMED, *HURRIED, "one")
    one, many = verdicts(tmp_path / "one"), verdicts(report)
    clauses, tests = ({name: value for name, value in part.items() if "hostile:" not in name} for part in many)
    assert one == (clauses, tests), output
    outcomes = {outcome for outcome, _ in tests.values()}
    assert {"crash", "timeout", "pass"} <= outcomes


def test_attacks_on_a_launched_process_cost_no_other_test(harmed: tuple[Path, str]) -> None:
    """A forkserver that is stopped, one that is killed, and an outcome that no rank gives: under torchrun, too."""
    report, output = harmed
    tests = {word: [test for test in reported(report / "report.json", word) if test["ranks"]]
             for word in (*ATTACKED, GATHER[0])}  # fmt: skip
    assert [len(found) for found in tests.values()] == [2] * 4, output
    assert {test["outcome"] for test in tests[GATHER[0]]} == {"pass"}, output
    assert {test["outcome"] for test in tests[FORGES]} == {"crash"}, output
    assert {test["outcome"] for test in tests[KILLS]} == {"crash"}, output
    assert {test["outcome"] for test in tests[STOPS]} == {"pass"}, output
    assert all("signal stopped" in str(test["ranks"][-1]["changed"]) for test in tests[STOPS])


def test_nccl_without_gpus_is_incomplete(tmp_path: Path) -> None:
    """What is missing is said, nothing crashes, and the verdict never is that it conforms."""
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("this machine has GPUs")
    words = ["spec_impl.torchlogix:GradFactor", "--spec", "GradFactor", "--backend", "nccl", "-k", "grad_factor"]
    status, output = alone(tmp_path, *words, "--report", "out")
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert status == 1
    assert report["subjects"][0]["verdict"] == "incomplete"
    assert "needs 1 GPU, found 0" in output
    assert "Traceback" not in output


def test_the_launcher_is_read_once_and_hidden_from_ranks() -> None:
    """Ranks do not see the launcher's variables, which tell of another world than theirs."""
    given = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "node0", "MASTER_PORT": "29500", "LOCAL_RANK": "0"}
    environment = {**given, "HOME": "/", "CONFORMANCE_KEY": "a key for this test"}
    launch = pop_launch(environment)
    assert launch is not None
    assert (launch.rank, launch.size, launch.local_rank) == (1, 2, 0)
    assert environment == {"HOME": "/"}
    assert launch.key == b"a key for this test"
    for wrong in ({"RANK": "x"}, {"RANK": "2"}, {"MASTER_PORT": ""}, {"WORLD_SIZE": "1"}):
        assert launch_in({**given, **wrong}) is None


def test_worlds_are_those_that_fit_unless_others_are_asked_for() -> None:
    """The usual worlds as far as they fit, and the whole; what was asked for is never changed."""
    assert world_sizes((1, 2, 3, 4), 2) == (1, 2)
    assert world_sizes((1, 2, 3, 4), 16) == (1, 2, 3, 4, 16)
    assert world_sizes((2, 64), 4) == (2, 64)


def test_the_rank_that_is_behind_is_to_blame() -> None:
    """Of several late ranks, those that have entered more collectives wait for the one that has not."""
    late = [RankOutcome(0, "timeout", collectives=("a", "b")), RankOutcome(1, "timeout", collectives=("a",))]
    assert [outcome.bystander for outcome in blamed(late)] == [True, False]
    finished = [RankOutcome(0, "pass"), RankOutcome(1, "timeout", collectives=("a",))]
    assert not any(outcome.bystander for outcome in blamed(finished))


class Attack:
    """Runs a command on whoever unpickles it."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {self.mark}",)


@pytest.mark.parametrize("key", ["a key that was guessed", "the key of this test"], ids=["without", "with"])
def test_an_order_from_a_stranger_runs_nothing(tmp_path: Path, key: str) -> None:
    """Somebody who reaches the launcher's store plays the leader. Not even with the right key is a pickle taken."""
    import torch.distributed as dist

    mark = tmp_path / "owned"
    server = dist.TCPStore("127.0.0.1", 0, None, is_master=True, wait_for_workers=False)
    store = dist.PrefixStore("conformance", server)
    public, post = (Post(store, key.encode(), prefix) for prefix in ("", "run/"))
    launch = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(server.port)}
    environment = {**os.environ, **launch, "CONFORMANCE_KEY": "the key of this test", "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-m", "conformance", "run", *GATHER]
    with subprocess.Popen(words, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as victim:
        public.put("leader", "run")
        try:
            wait_for(lambda: post.count("there") or victim.poll() is not None)
            if victim.poll() is None:
                nonce = json.loads(store.get("run/hello/1")[SIGNATURE:])["nonce"]
                post.put("welcome", ["", nonce])
                where = {"host": "127.0.0.1", "port": 1, "transforms": False, "epoch": 1}
                group = {"size": 2, "backend": "gloo", "device": "cpu", "group": False, "debug": False}
                post.put("world/1", {**where, **group})
                post.put("order/1/1", {"message": None, "deadline": 20})
                pickled = base64.b64encode(pickle.dumps(Attack(mark))).decode()
                load = {"op": "load", "path": [str(tmp_path)], "setup": ["os:abort"], "payload": pickled}
                post.put(
                    "order/1/2", {"message": {**load, "subject": None, "spec": None, "inputs": None}, "deadline": 20}
                )
                post.put("order/1/3", None)
                post.put("world/2", {"end": 0})
            _, said = victim.communicate(timeout=LIMIT)
        finally:
            victim.kill()
    assert not mark.exists()
    assert ("is not signed with our key" in said) == key.startswith("a key"), said
    if not key.startswith("a key"):
        outcome = post.read("outcome/1")[1]
        assert outcome["outcome"] == "pass", (
            outcome
        )  # of an order that loads nothing: neither pickle nor set-up was heard


def test_a_counter_that_somebody_else_wrote_ends_the_run_with_a_line(tmp_path: Path) -> None:
    """Counters cannot be signed: the store itself adds them up."""
    import torch.distributed as dist

    server = dist.TCPStore("127.0.0.1", 0, None, is_master=True, wait_for_workers=False)
    store = dist.PrefixStore("conformance", server)
    launch = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(server.port)}
    agent = {"TORCHELASTIC_USE_AGENT_STORE": "True", "CONFORMANCE_KEY": "the key of this test", "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-m", "conformance", "run", *GATHER]
    environment = {**os.environ, **launch, **agent}
    with subprocess.Popen(words, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as leader:
        try:
            wait_for(lambda: store.check(["leader"]) or leader.poll() is not None)
            token = json.loads(store.get("leader")[SIGNATURE:])
            store.set(f"{token}/there", "many")
            _, said = leader.communicate(timeout=LIMIT)
        finally:
            leader.kill()
    assert "Traceback" not in said
    assert "somebody else writes there" in said
    assert leader.returncode == 3


def test_the_key_is_one_that_nobody_else_can_read(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("0123456789abcdef")
    file.chmod(0o644)
    with pytest.raises(UsageError, match="others may read it"):
        pop_key({"CONFORMANCE_KEY_FILE": str(file)})
    file.chmod(0o600)
    assert pop_key({"CONFORMANCE_KEY_FILE": str(file)}) == b"0123456789abcdef"
    with pytest.raises(UsageError, match="can be guessed"):
        pop_key({"CONFORMANCE_KEY": "short"})
    environment = {"CONFORMANCE_KEY": "long enough to be a key"}
    assert pop_key(environment) == b"long enough to be a key"
    assert not environment, "ranks do not inherit it"


def test_a_key_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    home = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert pop_key(home) == pop_key(home)
    (made,) = (tmp_path / "conformance").iterdir()
    assert made.stat().st_mode & 0o077 == 0


@pytest.fixture
def posts() -> tuple[Post, Post]:
    """Two processes' ways to one store: while one waits, its connection does nothing else."""
    import torch.distributed as dist

    server = dist.TCPStore("127.0.0.1", 0, None, is_master=True, wait_for_workers=False)
    client = dist.TCPStore("127.0.0.1", server.port, None, is_master=False, wait_for_workers=False)
    return Post(server, b"the key of this test"), Post(client, b"the key of this test")


def test_a_process_waits_for_orders_while_the_first_one_gives_signs_of_life(
    posts: tuple[Post, Post], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long that is: here for several times as long as one that is silent is waited for."""
    monkeypatch.setattr("conformance.ranks.cluster.store.SILENCE", 0.3)
    post, other = posts

    def lead() -> None:
        for _ in range(12):
            post.count("beat", 1)
            time.sleep(0.1)
        post.put("order/1/1", {"message": None})

    thread = threading.Thread(target=lead)
    thread.start()
    try:
        assert other.await_order("order/1/1") == {"message": None}
    finally:
        thread.join()


def test_a_first_process_that_gives_no_sign_of_life_is_waited_for_no_longer(
    posts: tuple[Post, Post], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conformance.ranks.cluster.store.SILENCE", 0.3)
    with pytest.raises(LeaderSilent, match=r"no sign of life for 0\.3 s"):
        posts[1].await_order("order/1/1")
