"""What a run ends of the processes that a subject left: those, and no other thread's."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from conformance.ranks import client
from conformance.ranks.client import Forkserver
from conformance.ranks.strays import Strays


def test_a_forkserver_that_another_thread_starts_is_no_stray(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread sweeps at the moment when a forkserver has been started and is not known yet."""
    sweeping = []
    real = client.subprocess.Popen

    def started(*words: Any, **options: Any) -> Any:
        process = real(*words, **options)
        swept = threading.Thread(target=other.sweep)
        swept.start()
        swept.join(0.5)
        sweeping.append(swept)
        return process

    other = Strays()
    monkeypatch.setattr(client.subprocess, "Popen", started)
    forkserver = Forkserver()
    try:
        forkserver.wait()
        sweeping[0].join(10)
        assert forkserver.process.poll() is None
    finally:
        forkserver.close()
        other.close()
