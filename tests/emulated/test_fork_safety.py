"""The process that ranks are forked from never uses an accelerator: no driver survives a fork once it was started."""

from __future__ import annotations

from pathlib import Path

from conformance.core.options import RunOptions
from conformance.run.session import Session
from tests.emulated.plugged import install

#: Stands for the driver: writes down which process asked it for devices.
LOGGING = """
import os, torch
def asked(answer):
    def logged(*arguments):
        with open({path!r}, "a") as log:
            log.write(f"{{os.getpid()}}\\n")
        return answer
    return logged
torch.cuda.is_available = asked(False)
torch.cuda.device_count = asked(0)
torch._C._cuda_init = asked(None)
"""


def session_on(device: str) -> Session:
    inputs = "tests.emulated.mistakes:inputs"
    return Session(RunOptions(("tests.emulated.mistakes:Square",), inputs=inputs, device=device, ranks=(1,)))


def outcomes_of(session: Session) -> set[str]:
    """What comes of a few tests."""
    chosen = [test for test in session.tests if test.subject and "deterministic" in test.test.clause]
    return {outcome.outcome for outcome in session.run(chosen)}


def test_a_driver_is_asked_by_a_process_of_its_own_and_by_no_rank_on_the_cpu(tmp_path: Path, monkeypatch) -> None:
    log = tmp_path / "log"
    monkeypatch.setenv("PYTHONPATH", install(tmp_path, LOGGING.format(path=str(log))))
    with session_on("cpu") as session:
        assert "pass" in outcomes_of(session)
        asking = set(log.read_text().split())
        assert len(asking) == 1
        assert str(session.forkserver.process.pid) not in asking


def test_no_thread_of_a_device_runs_where_ranks_are_forked() -> None:
    with session_on("emulated") as session:
        assert "pass" in outcomes_of(session)
        assert len(list(Path(f"/proc/{session.forkserver.process.pid}/task").iterdir())) == 1
