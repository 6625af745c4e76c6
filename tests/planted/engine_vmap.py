"""Engine bugs around vmap."""

from __future__ import annotations

import torch

from tests.planted._engine_vmap import around_rule


def batch_size_off_by_one() -> None:
    """info.batch_size is one too many.

    Breaks: Function.vmap.info
    """
    around_rule(lambda info, in_dims, args: (info._replace(batch_size=info.batch_size + 1), in_dims, args))


def batch_size_of_the_first_dimension() -> None:
    """info.batch_size is the size of the first dimension of the first tensor.

    Breaks: Function.vmap.info
    """

    def change(info, in_dims, args):
        first = next(arg for arg in args if isinstance(arg, torch.Tensor))
        return info._replace(batch_size=first.shape[0]), in_dims, args

    around_rule(change)


def randomness_always_error() -> None:
    """info.randomness is "error" whatever was passed.

    Breaks: Function.vmap.info
    """
    around_rule(lambda info, in_dims, args: (info._replace(randomness="error"), in_dims, args))


def info_of_the_first_level() -> None:
    """In nested calls of torch.vmap info is always that of the level seen first.

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
    """in_dims has no entry for a non-tensor.

    Breaks: Function.vmap.in-dims
    """

    def change(info, in_dims, args):
        dims = [dim for dim, arg in zip(in_dims, args, strict=True) if isinstance(arg, torch.Tensor)]
        return info, tuple(dims), args

    around_rule(change)


def in_dims_always_zero() -> None:
    """in_dims is 0 for every mapped tensor, which is as it was given.

    Breaks: Function.vmap.in-dims
    """
    around_rule(lambda info, in_dims, args: (info, tuple(None if dim is None else 0 for dim in in_dims), args))


def in_dims_without_none() -> None:
    """in_dims is -1 in place of None.

    Breaks: Function.vmap.in-dims
    """
    around_rule(lambda info, in_dims, args: (info, tuple(-1 if dim is None else dim for dim in in_dims), args))


def in_dims_say_mapped_for_all_tensors() -> None:
    """in_dims is 0 for a tensor that is not mapped.

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
    """in_dims is a list.

    Breaks: Function.vmap.in-dims
    """
    around_rule(lambda info, in_dims, args: (info, list(in_dims), args))


def samples_come_first() -> None:
    """The mapped dimension is moved to the front of the arguments, and in_dims says where it was.

    Breaks: Function.vmap.args
    """

    def change(info, in_dims, args):
        pairs = zip(in_dims, args, strict=True)
        return info, in_dims, [arg if dim is None else arg.movedim(dim, 0) for dim, arg in pairs]

    around_rule(change)


def tensors_come_first() -> None:
    """The arguments of vmap are sorted, tensors in front.

    Breaks: Function.vmap.args
    """

    def change(info, in_dims, args):
        return info, in_dims, sorted(args, key=lambda arg: not isinstance(arg, torch.Tensor))

    around_rule(change)


def others_left_out() -> None:
    """vmap does not get the arguments that are not tensors.

    Breaks: Function.vmap.args
    """
    around_rule(lambda info, in_dims, args: (info, in_dims, [arg for arg in args if isinstance(arg, torch.Tensor)]))


def unmapped_tensors_expanded() -> None:
    """A tensor that is not mapped arrives with a dimension more.

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
