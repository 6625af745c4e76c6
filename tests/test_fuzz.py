"""Arguments, journals, frames and docstrings that nobody would write: a clear error or a result, never a traceback."""

from __future__ import annotations

import contextlib
import io
import json
import os
import socket
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conformance.cli.commands import main
from conformance.cli.parser import parser
from conformance.core.clauses import digest
from conformance.core.errors import UsageError
from conformance.core.options import RunOptions
from conformance.core.outcomes import OUTCOMES, TestOutcome
from conformance.ranks.channel import FRAME_LIMIT, HEAD, Frames, Garbled, pack
from conformance.ranks.process import RankProcess
from conformance.run.journal import JOURNAL, Journal, signed

KEY = b"the key of this test"

few = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
texts = st.text(max_size=40)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
words = st.one_of(
    st.sampled_from(["run", "list", "explain", "scan", "verify", "compare", "--json", "--spec", "--ranks", "-k", "-n"]),
    st.sampled_from(
        ["--resume", "--report", "--expect", "--timeout", "--", "--backend", "--inputs", "0", "1,2", "a:b"]
    ),
    texts,
)


@few
@given(st.lists(words, max_size=6))
def test_no_command_line_gives_a_traceback(arguments: list[str]) -> None:
    """Only what starts no run: what comes after that has tests of its own."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        if arguments[:1] == ["run"] and not refused(arguments):
            return
        if arguments[:1] == ["watch"]:
            return
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = main(arguments)
    assert status in range(5)
    assert "Traceback" not in err.getvalue()
    if status == 4:
        assert err.getvalue().startswith("conformance")


def refused(arguments: list[str]) -> bool:
    """Whether these arguments are refused before anything is started."""
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments  # the rest is for pytest
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        try:
            given = parser().parse_args(own)
            RunOptions.from_text(vars(given)).checked()
        except (SystemExit, UsageError):
            return True
    return False


@few
@given(st.lists(texts, max_size=3), texts, texts, texts, texts)
def test_options_are_taken_or_refused_in_one_line(
    subjects: list[str], spec: str, inputs: str, ranks: str, timeout: str
) -> None:
    try:
        given = {"subjects": subjects, "spec": spec, "inputs": inputs, "ranks": ranks, "timeout": timeout}
        RunOptions.from_text(given).checked()
    except UsageError as error:
        assert len(str(error).splitlines()) == 1


@few
@given(st.binary(max_size=400) | values.map(lambda value: json.dumps(value).encode()))
def test_a_journal_is_gone_on_with_or_refused(content: bytes) -> None:
    head = signed(json.dumps({"asked": {"spec": None}, "clauses_sha256": digest(), "own": ""}), KEY).encode()
    for data in (content, head + b"\n" + content):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, JOURNAL).write_bytes(data)
            try:
                journal, asked = Journal.resume(Path(folder), KEY)
            except UsageError as error:
                assert len(str(error).splitlines()) == 1
            else:
                journal.close()
                assert isinstance(asked, RunOptions)
                assert all(isinstance(outcome, TestOutcome) for outcome in journal.outcomes)


@few
@given(st.lists(st.binary(max_size=200), max_size=6))
def test_bytes_that_are_no_frames_are_refused(parts: list[bytes]) -> None:
    frames = Frames()
    with contextlib.suppress(Garbled):
        for part in parts:
            assert all(isinstance(message, dict) for message in frames.feed(part))


@pytest.mark.parametrize(
    "body", [b"[" * 100_000, b'{"a": ' * 50_000, b"\xff\xfe", b"1" * 10_000, b"[]", b"null", b"{}x", b'"\\ud800"']
)
def test_json_that_is_hard_to_read_is_refused(body: bytes) -> None:
    with pytest.raises(Garbled):
        Frames().feed(HEAD.pack(len(body)) + body)


def test_a_frame_that_is_too_long_is_refused_before_it_is_read() -> None:
    with pytest.raises(Garbled, match="a frame of"):
        Frames().feed(HEAD.pack(FRAME_LIMIT + 1))


@few
@given(st.dictionaries(texts, values, max_size=5), st.integers(1, 40))
def test_frames_come_whole_however_they_are_cut(message: dict[str, object], size: int) -> None:
    data = pack(message) * 2
    frames = Frames()
    actual = [found for start in range(0, len(data), size) for found in frames.feed(data[start : start + size])]
    assert actual == [message, message]


@few
@given(
    st.dictionaries(
        st.sampled_from(["event", "outcome", "serial", "message", "changed", "files", "likely", "spec", "value"]),
        values,
    )
    | st.fixed_dictionaries(
        {"event": st.sampled_from(["done", "collective", "exchange", "ready"])},
        optional={"serial": st.just(0), "outcome": st.just("pass") | values, "message": values, "changed": values},
    ),
    st.booleans(),
)
def test_whatever_a_rank_says_is_an_outcome_or_a_crash(message: dict[str, object], loading: bool) -> None:
    """In answer to a test, and to an order to load a subject."""
    ours, theirs = socket.socketpair()
    process = RankProcess(
        0, os.getpid(), ours, os.open(os.devnull, os.O_RDONLY), *(os.memfd_create(name) for name in ("stack", "log"))
    )
    process.loading = loading
    with ours, theirs:
        theirs.sendall(pack(message))
        process.hear()
        if process.gone:
            assert process.ended(1).outcome == "crash"
        elif process.reply is not None:
            json.dumps(process.said().to_json())
            assert process.reply["outcome"] in {*OUTCOMES, *(["bad-subject"] if loading else [])}
            assert all(isinstance(file, str) for file in process.reply.get("files", ()))
            assert isinstance(process.reply.get("spec", ""), str)
        process.close()
