"""What PyTorch promises about save_for_backward."""

from __future__ import annotations

from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from conformance.core.garbage import collector_paused
from conformance.kit import World, cases, clause, expect
from conformance.kit.functions import build, expect_values, leaf, tensor


def _saver(form: str, names: list[str], seen: list[Any] | None = None, look: Any = None) -> Any:
    """A Function of (x, w) that saves these of its tensors: input, other, middle (an intermediate value), output, none.

    Backward adds what it reads from ctx.saved_tensors to ``seen``; ``look`` gets all the tensors by name before they
    are saved.
    """
    middle: list[torch.Tensor] = []

    def compute(x: Any, w: Any) -> Any:
        middle[:] = [x + 1]
        return middle[0] * w

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        named = {"input": inputs[0], "other": inputs[1], "middle": middle.pop(), "output": output, "none": None}
        if look is not None:
            look(named)
        ctx.save_for_backward(*[named[name] for name in names])

    def backward(ctx: Any, grad: Any) -> Any:
        actual = ctx.saved_tensors
        if seen is not None:
            seen.append(actual)
        return grad, None

    return build(form, compute, keep, backward=backward)


@clause("Function.save_for_backward.none")
@cases(form=["combined", "separate"], names=[["none"], ["none", "input", "none"], ["output", "none"], ["none", "none"]])
def test_none_keeps_its_place(world: World, form: str, names: list[str]) -> None:
    """None may be saved, by itself or among tensors, and is returned as None at its place."""
    seen: list[Any] = []
    x, w = leaf(world, 1.0, 2.0), tensor(world, 3.0, 4.0)
    function = _saver(form, names, seen)
    with expect.no_error(f"PyTorch saves None for backward, among {names}", "no exception"):
        output = function.apply(x, w)
        output.sum().backward()
    saved = {"input": x, "output": output, "none": None}
    expect_values(seen[0], [saved[name] for name in names], f"values that PyTorch returns for {names}")


@clause("Function.save_for_backward.in-place-check")
@cases(form=["combined", "separate"], name=["other", "middle", "output"], through_view=[False, True])
def test_a_changed_tensor_is_refused(world: World, form: str, name: str, through_view: bool) -> None:
    """Reading ctx.saved_tensors raises when a saved tensor, or a view of it, was changed in place in the meantime."""
    seen: list[Any] = []
    held: dict[str, Any] = {}
    function = _saver(form, ["input", name], seen, held.update)
    result = function.apply(leaf(world, 1.0, 2.0), tensor(world, 3.0, 4.0))
    loss = result.sum()
    saved = result if name == "output" else held[name]
    target = saved[:1] if through_view else saved
    with torch.no_grad():
        target.add_(1)
    what = f"PyTorch: reading ctx.saved_tensors raises after the saved {name} tensor was changed in place"
    expect.raises(RuntimeError, loss.backward, what)
    expect.equal(len(seen), 0, f"number of times ctx.saved_tensors gave the changed {name} tensor to backward")


@clause("Function.save_for_backward.in-place-check")
@cases(form=["combined", "separate"])
def test_tensors_that_did_not_change_are_given(world: World, form: str) -> None:
    """A change before saving, or of a tensor that was not saved, raises no error."""
    seen: list[Any] = []
    function = _saver(form, ["input", "middle"], seen, lambda named: named["middle"].mul_(2))
    w = tensor(world, 3.0, 4.0)
    result = function.apply(leaf(world, 1.0, 2.0), w)
    w.add_(1)
    with expect.no_error("PyTorch returns saved tensors that were not changed since", "no exception"):
        result.sum().backward()
    expect.equal(seen[0][1], tensor(world, 4.0, 6.0), "tensor changed before it was saved")


def _watched(world: World, form: str, names: list[str], watched: dict[str, StorageWeakRef]) -> Any:
    """The result of a call that saved the tensors of these names, whose memory is watched; the inputs are gone."""

    def look(named: dict[str, Any]) -> None:
        watched.update({name: StorageWeakRef(named[name].untyped_storage()) for name in names})

    return _saver(form, names, None, look).apply(leaf(world, 1.0, 2.0) * 1, tensor(world, 3.0, 4.0))


SAVED = ["input", "other", "middle", "output"]


@clause("Function.save_for_backward.no-leak")
@cases(form=["combined", "separate"])
def test_saved_tensors_go_with_the_results(world: World, form: str) -> None:
    """When the result is gone so is everything that was saved, without help of the garbage collector."""
    for names in ([], ["input"], ["other"], ["middle"], ["output"], SAVED):
        watched: dict[str, StorageWeakRef] = {}
        with collector_paused():
            result = _watched(world, form, names, watched)
            kept = [name for name, memory in watched.items() if memory.expired()]
            expect.equal(kept, [], "saved tensors that PyTorch freed while the result was there")
            del result
            leaked = [name for name, memory in watched.items() if not memory.expired()]
            expect.equal(leaked, [], "saved tensors that PyTorch kept in memory when the result was gone")


@clause("Function.save_for_backward.no-leak")
@cases(form=["combined", "separate"], retain=[False, True])
def test_saved_tensors_go_with_the_graph(world: World, form: str, retain: bool) -> None:
    """After a backward pass what was saved is freed though the result lives on; with retain_graph it is kept."""
    for names in (["input"], ["middle"], ["input", "other", "middle"]):
        watched: dict[str, StorageWeakRef] = {}
        with collector_paused():
            result = _watched(world, form, names, watched)
            result.sum().backward(retain_graph=retain)
            freed = [name for name, memory in watched.items() if memory.expired()]
            what = f"saved tensors that PyTorch freed in a backward pass with retain_graph={retain}"
            expect.equal(freed, names if not retain else [], what)


@clause("Function.save_for_backward.hooks")
@cases(form=["combined", "separate"], names=[[], ["input"], ["output", "other"], ["middle", "input", "output"]])
def test_hooks_see_every_saved_tensor(world: World, form: str, names: list[str]) -> None:
    """Every saved tensor goes to pack once, in order; what pack returned to unpack; its result to backward."""
    packed: list[torch.Tensor] = []
    unpacked: list[int] = []
    seen: list[Any] = []

    def pack(value: torch.Tensor) -> int:
        packed.append(value.detach().clone())
        return len(packed) - 1

    def unpack(place: int) -> torch.Tensor:
        unpacked.append(place)
        return packed[place] * 10

    offered: dict[str, Any] = {}
    function = _saver(form, names, seen, offered.update)
    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        result = function.apply(leaf(world, 1.0, 2.0), tensor(world, 3.0, 4.0))
    tensors = [offered[name].detach() for name in names]
    expect_values(packed, tensors, "tensors that PyTorch passed to the pack hook")
    result.sum().backward()
    expect.equal(unpacked, list(range(len(tensors))), "what PyTorch passed to the unpack hook")
    expect_values(seen[0], [saved * 10 for saved in tensors], f"ctx.saved_tensors ({names}), by the unpack hook")
