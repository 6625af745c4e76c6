"""Engine bugs around vmap."""

from __future__ import annotations

import torch

from tests.planted._engine_vmap import around_rule


def batch_size_off_by_one() -> None:
    """Passes an info.batch_size that is one too large.

    Breaks: Function.vmap.info
    """
    around_rule(lambda info, in_dims, args: (info._replace(batch_size=info.batch_size + 1), in_dims, args))


def batch_size_of_the_first_dimension() -> None:
    """Passes the size of the first dimension as info.batch_size.

    Breaks: Function.vmap.info
    """

    def change(info, in_dims, args):
        first = next(arg for arg in args if isinstance(arg, torch.Tensor))
        return info._replace(batch_size=first.shape[0]), in_dims, args

    around_rule(change)


def randomness_always_error() -> None:
    """Passes "error" as info.randomness, whatever the option.

    Breaks: Function.vmap.info
    """
    around_rule(lambda info, in_dims, args: (info._replace(randomness="error"), in_dims, args))


def info_of_the_first_level() -> None:
    """Passes the info of the first level to all levels of nested torch.vmap calls.

    Breaks: Function.vmap.info
    """
    first = {}

    def change(info, in_dims, args):
        depth = len(torch._C._functorch.get_interpreter_stack() or ())
        if depth == 0 and first:
            info = first.pop("info")
        elif depth:
            first["info"] = info
        return info, in_dims, args

    around_rule(change)


def in_dims_of_tensors_alone() -> None:
    """Omits non-tensors from in_dims.

    Breaks: Function.vmap.in-dims
    """

    def change(info, in_dims, args):
        dims = [dim for dim, arg in zip(in_dims, args, strict=True) if isinstance(arg, torch.Tensor)]
        return info, tuple(dims), args

    around_rule(change)


def in_dims_always_zero() -> None:
    """Passes 0 as in_dim of every batched tensor, without moving the dimension.

    Breaks: Function.vmap.in-dims
    """
    around_rule(lambda info, in_dims, args: (info, tuple(None if dim is None else 0 for dim in in_dims), args))


def in_dims_without_none() -> None:
    """Passes -1 in in_dims instead of None.

    Breaks: Function.vmap.in-dims
    """
    around_rule(lambda info, in_dims, args: (info, tuple(-1 if dim is None else dim for dim in in_dims), args))


def in_dims_say_mapped_for_all_tensors() -> None:
    """Passes 0 as in_dim of a tensor that is not batched.

    Breaks: Function.vmap.in-dims
    """

    def change(info, in_dims, args):
        pairs = zip(in_dims, args, strict=True)
        return (
            info,
            tuple(0 if dim is None and isinstance(arg, torch.Tensor) else dim for dim, arg in pairs),
            args,
        )

    around_rule(change)


def in_dims_are_a_list() -> None:
    """Passes in_dims as a list.

    Breaks: Function.vmap.in-dims
    """
    around_rule(lambda info, in_dims, args: (info, list(in_dims), args))


def samples_come_first() -> None:
    """Moves the batch dimension to the front, but leaves in_dims as they were.

    Breaks: Function.vmap.args
    """

    def change(info, in_dims, args):
        pairs = zip(in_dims, args, strict=True)
        return info, in_dims, [arg if dim is None else arg.movedim(dim, 0) for dim, arg in pairs]

    around_rule(change)


def tensors_come_first() -> None:
    """Sorts the arguments of vmap, tensors first.

    Breaks: Function.vmap.args
    """

    def change(info, in_dims, args):
        return info, in_dims, sorted(args, key=lambda arg: not isinstance(arg, torch.Tensor))

    around_rule(change)


def others_left_out() -> None:
    """Omits arguments of vmap that are not tensors.

    Breaks: Function.vmap.args
    """
    around_rule(lambda info, in_dims, args: (info, in_dims, [arg for arg in args if isinstance(arg, torch.Tensor)]))


def unmapped_tensors_expanded() -> None:
    """Expands tensors that are not batched by a dimension.

    Breaks: Function.vmap.args
    """

    def change(info, in_dims, args):
        pairs = zip(in_dims, args, strict=True)
        return (
            info,
            in_dims,
            [
                arg.expand(info.batch_size, *arg.shape) if dim is None and isinstance(arg, torch.Tensor) else arg
                for dim, arg in pairs
            ],
        )

    around_rule(change)
