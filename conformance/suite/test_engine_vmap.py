"""What PyTorch promises about vmap: which classes it accepts, what it passes to them, how it uses their results."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from conformance.kit import World, cases, clause, expect
from conformance.kit.functions import MAPPED, build, expect_values, random_numbers, tensor


def _whole_batch(info: Any, in_dims: Any, x: Any, *others: Any) -> Any:
    return x, in_dims[0]


@clause("Function.vmap.required")
@cases(in_dims=[0, 1])
def test_a_class_without_vmap_is_refused(world: World, in_dims: int) -> None:
    """torch.vmap raises for a class with neither a vmap nor generate_vmap_rule, whatever else it defines."""
    x = random_numbers(world, MAPPED, MAPPED)
    derivatives = {"backward": lambda ctx, grad: grad, "jvp": lambda ctx, tangent: tangent}
    for members in ({}, {"generate_vmap_rule": False}, derivatives):
        function = build("separate", lambda x: x * 2, **members)
        expect.equal(function.apply(x), x * 2, "result of a class without vmap, outside torch.vmap")
        mapped = torch.vmap(function.apply, in_dims=in_dims)
        what = f"PyTorch: torch.vmap of a class without a vmap rule, with {sorted(members)}, raises"
        expect.raises((RuntimeError, NotImplementedError), partial(mapped, x), what)
        nested = torch.vmap(torch.func.grad(lambda x, function=function: function.apply(x).sum()))
        expect.raises((RuntimeError, NotImplementedError), partial(nested, x), f"{what} around grad")


@clause("Function.vmap.both-refused")
@cases(in_dims=[0, 1])
def test_two_rules_are_refused(world: World, in_dims: int) -> None:
    """torch.vmap raises for a class that overrides vmap and sets generate_vmap_rule too, and calls neither."""
    x, called = random_numbers(world, MAPPED, MAPPED), []

    def vmap(info: Any, in_dims: Any, x: Any) -> Any:
        called.append(x)
        return x * 2, in_dims[0]

    function = build("separate", lambda x: x * 2, vmap=vmap, generate_vmap_rule=True)
    expect.equal(function.apply(x), x * 2, "result of a class with two vmap rules, outside torch.vmap")
    what = "PyTorch: torch.vmap of a class that has a vmap and sets generate_vmap_rule raises"
    expect.raises(RuntimeError, lambda: torch.vmap(function.apply, in_dims=in_dims)(x), what)
    expect.equal(len(called), 0, "number of times PyTorch called vmap of a class with two rules")


TRANSFORMS: dict[str, Callable[[Any, torch.Tensor], Any]] = {
    "vmap": lambda call, x: torch.vmap(call)(x),
    "grad": lambda call, x: torch.func.grad(lambda x: call(x).sum())(x),
    "vjp": lambda call, x: torch.func.vjp(call, x),
    "jvp": lambda call, x: torch.func.jvp(call, (x,), (x,)),
    "jacrev": lambda call, x: torch.func.jacrev(call)(x),
    "jacfwd": lambda call, x: torch.func.jacfwd(call)(x),
    "hessian": lambda call, x: torch.func.hessian(lambda x: call(x).sum())(x),
}


@clause("Function.vmap.separate-form")
@cases(transform=["vmap", "grad", "vjp", "jvp", "jacrev", "jacfwd", "hessian"], rule=["vmap", "generate_vmap_rule"])
def test_combined_form_is_refused(world: World, transform: str, rule: str) -> None:
    """For the combined form each transform raises an error that names setup_context, whatever is defined."""
    members: dict[str, Any] = {"backward": lambda ctx, grad: grad * 2, "jvp": lambda ctx, tangent: tangent * 2}
    members[rule] = _whole_batch if rule == "vmap" else True
    function, x = build("combined", lambda x: x * 2, **members), tensor(world, 1.0, 2.0)
    what = f"PyTorch: torch.func's {transform} raises an error for the combined form that names setup_context"
    expect.raises(Exception, lambda: TRANSFORMS[transform](function.apply, x), what, match="setup_context")
    expect.equal(function.apply(x), x * 2, "result of the combined form outside of transforms")


def _received(seen: list[Any]) -> Any:
    """A Function whose vmap writes down what it gets, and gives a batch of zeros."""

    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        seen.append((info, in_dims, args))
        device = next(one.device for one in args if isinstance(one, torch.Tensor))
        return torch.zeros(_mapped_size(args), device=device), 0

    return build("separate", lambda *args: torch.zeros(()), vmap=vmap)


def _mapped_size(args: Any) -> int:
    """The size of the mapped dimension, as the tensors of the tests have it: 1, 2, or else MAPPED."""
    sizes = {size for one in args if isinstance(one, torch.Tensor) for size in one.shape}
    return MAPPED if MAPPED in sizes else min(sizes)


@clause("Function.vmap.info")
@cases(size=[1, 2, 4], dim=[0, 1, -1])
def test_info_has_the_batch_size(world: World, size: int, dim: int) -> None:
    """info.batch_size is the size of the mapped dimension, wherever that is."""
    seen: list[Any] = []
    x = random_numbers(world, size, 9, 7).movedim(0, dim)
    torch.vmap(_received(seen).apply, in_dims=dim)(x)
    torch.vmap(lambda one, other: _received(seen).apply(other, 3, one), in_dims=(None, dim))(x, x)
    for info, _, _ in seen:
        expect.equal(info.batch_size, size, f"PyTorch's info.batch_size for shape {tuple(x.shape)}, in_dims {dim}")


@clause("Function.vmap.info")
@cases(randomness=["error", "same", "different", None])
def test_info_has_the_randomness(world: World, randomness: str | None) -> None:
    """info.randomness is the option passed to torch.vmap, or "error" by default."""
    seen: list[Any] = []
    options: dict[str, Any] = {} if randomness is None else {"randomness": randomness}
    torch.vmap(_received(seen).apply, **options)(random_numbers(world, MAPPED, 2))
    what = f"PyTorch's info.randomness for torch.vmap with {options or 'no options'}"
    expect.equal(seen[0][0].randomness, randomness or "error", what)


@clause("Function.vmap.info")
def test_info_is_of_the_right_level(world: World) -> None:
    """In nested calls of torch.vmap each level's info has that level's size and randomness, the inner one first."""
    seen: list[Any] = []

    def vmap(info: Any, in_dims: Any, x: Any) -> Any:
        seen.append((info.batch_size, info.randomness))
        return twice.apply(x), 0

    twice: Any = build("separate", lambda x: x * 2, vmap=vmap)
    inner = torch.vmap(twice.apply, randomness="same")
    torch.vmap(inner, randomness="different")(random_numbers(world, 3, 5, 2))
    expect.equal(seen, [(5, "same"), (3, "different")], "PyTorch's info of the inner and of the outer torch.vmap")


def _arguments(world: World, dims: list[Any]) -> list[Any]:
    """A tensor for each entry, of its own number of dimensions, MAPPED long along it; anything else for "n"."""
    kinds, arguments = [2.5, "text", None, [1]], []
    for place, dim in enumerate(dims):
        if dim == "n":
            arguments.append(kinds[place % len(kinds)])
        else:
            sample = random_numbers(world, *(2, 3, 5)[: place % 3 + 1])
            samples = torch.stack([sample + number for number in range(MAPPED)])
            arguments.append(sample if dim is None else samples.movedim(0, dim))
    return arguments


DIMS: list[list[Any]] = [
    [0],
    [1],
    [-1],
    [0, None],
    [None, 0],
    ["n", 1, "n"],
    [1, 2, 3],
    [0, "n", None, 1, "n", -1],
    [None, "n", 0],
]


@clause("Function.vmap.in-dims")
@cases(place=[0, 1, 2, 3, 4, 5, 6, 7, 8])
def test_in_dims_has_an_entry_for_each_argument(world: World, place: int) -> None:
    """in_dims is a tuple: the index of the mapped dimension for a mapped tensor, None for all else."""
    seen: list[Any] = []
    dims = DIMS[place]
    arguments = _arguments(world, dims)
    mapped = tuple(None if dim == "n" else dim for dim in dims)
    torch.vmap(_received(seen).apply, in_dims=mapped)(*arguments)
    (_, actual, _), what = seen[0], f"PyTorch's in_dims for {mapped}"
    expect.that(isinstance(actual, tuple), f"{what} is a tuple", actual)
    expect.equal(len(actual), len(dims), f"number of entries of {what}")
    for one, given, argument in zip(actual, mapped, arguments, strict=True):
        if given is None:
            expect.that(one is None, f"entry of {what} for what is not mapped", one, "None")
        else:
            allowed = (given, given % argument.dim())
            expect.that(type(one) is int and one in allowed, f"entry of {what} for a mapped tensor", one, given)


@clause("Function.vmap.in-dims")
def test_in_dims_of_what_a_mapped_function_holds(world: World) -> None:
    """A tensor that the mapped function brings along is not mapped, one that it computes from a mapped one is."""
    seen: list[Any] = []
    x, brought = random_numbers(world, MAPPED, 3), random_numbers(world, 3)
    torch.vmap(lambda x: _received(seen).apply(brought, 2, x * 2))(x)
    what = "PyTorch's in_dims for a tensor brought along, a number, a computed one"
    expect.equal(tuple(seen[0][1]), (None, None, 0), what)


@clause("Function.vmap.args")
@cases(place=[0, 1, 2, 3, 4, 5, 6, 7, 8])
def test_vmap_gets_the_arguments_whole(world: World, place: int) -> None:
    """After info and in_dims come the arguments in order: tensors with the mapped dimension, all else as it was."""
    seen: list[Any] = []
    dims = DIMS[place]
    arguments = _arguments(world, dims)
    function, mapped = _received(seen), [index for index, dim in enumerate(dims) if dim != "n"]

    def call(*tensors: Any) -> Any:
        given = list(arguments)
        for index, one in zip(mapped, tensors, strict=True):
            given[index] = one
        return function.apply(*given)

    torch.vmap(call, in_dims=tuple(dims[index] for index in mapped))(*[arguments[index] for index in mapped])
    _, _, actual = seen[0]
    expect_values(actual, arguments, f"arguments that PyTorch passed to vmap after info and in_dims, {dims}")
