"""Errors that a user sees as one line, and the exit statuses of the command."""

from __future__ import annotations

OK, FAILS, INTERRUPTED, BROKE, BAD_USAGE = 0, 1, 2, 3, 4


class UsageError(ValueError):
    """A request that cannot be carried out: one line says what was given and what would be right."""


class RunnerError(RuntimeError):
    """The suite's own machinery failed; no subject is at fault."""


class ForkserverDied(RunnerError):
    """The process that ranks are forked from has exited."""


class StartFailed(RunnerError):
    """Ranks did not start: the machine or the backend is at fault."""
