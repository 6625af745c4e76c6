"""Track what a call borrows from its caller (arguments, containers, gradients, hooks), and its changes of that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from conformance.kit.calls import SampleCall
from conformance.kit.tensors import freed, same_values, share_memory


class Lent:
    """What a call borrowed from its caller, and how it changed that."""

    def __init__(self, sample: SampleCall, args: Sequence[Any]) -> None:
        self.sample, self.args = sample, list(args)
        self.changed: list[tuple[str, str]] = []
        self.tensors = {at: arg for at, arg in enumerate(args) if isinstance(arg, torch.Tensor)}
        self.hooks = {at: _hooks(arg) for at, arg in self.tensors.items()}
        self._note()

    def _note(self) -> None:
        self.before = {at: arg.detach().clone() for at, arg in self.tensors.items() if not freed(arg)}
        self.versions = {at: arg._version for at, arg in self.tensors.items()}

    def after_forward(self, given: tuple[Any, ...], tensors: Sequence[torch.Tensor]) -> None:
        """Record arguments that are changed and not returned, replaced containers, and hooks."""
        self.given = given
        self._look_at_containers(given, "forward")
        results = {id(tensor) for tensor in tensors}
        for at, before in self.before.items():
            arg = self.tensors[at]
            is_written = arg._version != self.versions[at] or not same_values(before, arg)
            if is_written and id(arg) not in results and at not in self.sample.of_modules:
                self.changed.append(("argument", f"{self.sample.name(at)} is changed in place by forward"))
        self._note()

    def _look_at_containers(self, given: tuple[Any, ...], when: str) -> None:
        """Record a list or dictionary that has lost entries or has another order; a call may add entries."""
        values = pytree.tree_leaves(given)
        now, before = (
            [id(one) for one in leaves if isinstance(one, torch.Tensor | float)] for leaves in (values, self.args)
        )
        if len(values) < len(self.args) or (now != before and sorted(now) == sorted(before)):
            words = f"a list or dictionary of the caller's has lost entries, or has another order, after {when}"
            self.changed.append(("container", words))

    def after_backward(self, tensors: Sequence[torch.Tensor], found: Sequence[torch.Tensor | None]) -> None:
        """Record arguments that have other values or hooks, and results that share their memory."""
        if not self.changed:
            self._look_at_containers(self.given, "backward")
        for at, before in self.before.items():
            arg = self.tensors[at]
            if any(one._base is None and one is not arg and share_memory(one, arg) for one in tensors):
                words = f"a result shares memory with {self.sample.name(at)}, and autograd does not know"
                self.changed.append(("result", words))
            if not same_values(before, arg):
                self.changed.append(("values", f"{self.sample.name(at)} has other values after backward"))
            if _hooks(arg) > self.hooks[at]:
                self.changed.append(("hook", f"{self.sample.name(at)} has one more hook than before"))
            if any(one is not None and one.numel() and share_memory(one, arg) for one in found):
                words = f"a gradient shares memory with {self.sample.name(at)}: writing to one changes the other"
                self.changed.append(("memory", words))

    def incoming(self, before: Mapping[int, torch.Tensor], after: Mapping[int, torch.Tensor]) -> None:
        """Record the incoming gradients that backward changed."""
        changed = [at for at, one in after.items() if not same_values(before[at], one)]
        words = [f"the gradient of output {at} has other values after backward" for at in changed]
        self.changed += [("gradient", each) for each in words]


def _hooks(value: Any) -> int:
    if not isinstance(value, torch.Tensor):
        return 0
    return sum(len(getattr(value, name, None) or ()) for name in ("_backward_hooks", "_post_accumulate_grad_hooks"))
