"""Share PyTorch's one forward-mode level among simulated ranks."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

from torch.autograd import forward_ad


@contextlib.contextmanager
def shared() -> Iterator[None]:
    """Begin the level when the first rank enters it, and end it when the last rank leaves."""
    module: Any = importlib.import_module("torch._functorch.predispatch")
    enter, leave = module._enter_dual_level_impl, module._exit_dual_level_impl
    inside = 0

    def entering() -> int:
        nonlocal inside
        if inside and forward_ad._current_level < 0:  # which is each rank's own
            inside += 1
            return 0
        level: int = enter()
        inside += 1
        return level

    def leaving(*, level: int) -> None:
        nonlocal inside
        inside -= 1
        if not inside:
            leave(level=level)

    with patch.multiple(module, _enter_dual_level_impl=entering, _exit_dual_level_impl=leaving):
        yield
