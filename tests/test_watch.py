"""``conformance watch``: tests again whenever a file of the subject is saved, what failed first."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

from conformance.run.watch import stamps, wait_for_change
from tests.faults.command import Running
from tests.modules import module


def read_until(out, words: str) -> str:
    said = ""
    while words not in said:
        line = out.readline().decode()
        assert line, f"it ended after: {said}"
        said += line
    return said


def test_a_saved_file_is_tested_again_and_an_interrupt_ends_it(tmp_path):
    file = tmp_path / "layers.py"
    file.write_text(module(backward="return grad * 4"))
    with Running("watch", "layers:Twice", "--inputs", "layers:inputs", cwd=tmp_path) as running:
        hurry = threading.Timer(120, running.process.kill)
        hurry.start()
        out = running.process.stdout
        said = read_until(out, "watching for changes")
        assert "fails" in said
        assert "looks like the right value times 2" in said
        file.write_text(module())
        said = read_until(out, "watching for changes")
        assert "conforms" in said
        running.send(signal.SIGINT)
        status, _, err = running.end()
        hurry.cancel()
        assert (status, err) == (0, "")
        assert not running.gone()


def test_a_change_is_seen_once_the_file_has_settled(tmp_path):
    file = tmp_path / "a.py"
    file.write_text("1")
    seen, before = threading.Event(), stamps([str(file)])

    def watch() -> None:
        wait_for_change(before)
        seen.set()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    assert not seen.wait(0.2)
    Path(file).write_text("22")
    os.utime(file)
    assert seen.wait(5)
    thread.join()
