"""Lets tox keep an environment for another name: without this it would install torch anew at every change of names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tox.plugin import impl
from tox.tox_env.api import ToxEnv
from tox.tox_env.info import Info
from tox.tox_env.python.virtual_env.runner import VirtualEnvRunner
from tox.tox_env.register import ToxEnvRegister


class SharedInfo(Info):
    """What tox remembers of an environment, without the name: what is installed is still compared."""

    @contextmanager
    def compare(self, value: Any, section: str, sub_section: str | None = None) -> Iterator[tuple[bool, Any]]:
        """Compare as tox does, every environment under one name."""
        if section == ToxEnv.__name__:
            value = {**value, "name": "shared"}
        with super().compare(value, section, sub_section) as found:
            yield found


class SharedRunner(VirtualEnvRunner):
    """A virtual environment whose folder several environments of tox.ini name as theirs."""

    @staticmethod
    def id() -> str:
        """What ``runner`` in tox.ini says."""
        return "shared"

    @property
    def cache(self) -> Info:
        """Read anew each time, as tox does."""
        return SharedInfo(self.env_dir)


@impl
def tox_register_tox_env(register: ToxEnvRegister) -> None:
    """Offer the runner to tox.ini."""
    register.add_run_env(SharedRunner)
