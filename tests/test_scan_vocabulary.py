"""The words that a scan knows, held against the torch that is installed: do they exist, and do what is said of them."""

from __future__ import annotations

import collections
import pathlib
import warnings

import numpy
import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F

from conformance.scan import vocabulary as known
from conformance.scan.study import TENSOR_METHODS

#: Words that are no attributes of a tensor: functions alone, or what other things than tensors have.
NO_METHODS = {
    "VIEW_METHODS": {"view_as_real", "view_as_complex"},
    "FRESH_METHODS": {"rsub"},
    "PLAIN_METHODS": {"format", "keys", "startswith", "endswith", "has_names"},
    "SHARED_METHODS": {"copy"},
    "PLAIN_ATTRIBUTES": {"names", "needs_input_grad"},
    "NOT_IN_PLACE": {"rename_", "names_", "retain_grad_", "pin_memory_"},
}
METHODS = ("VIEW_METHODS", "MAYBE_METHODS", "FRESH_METHODS", "SPLITTERS", "SHARED_METHODS", "PLAIN_METHODS")
ATTRIBUTES = ("PLAIN_ATTRIBUTES", "VIEW_ATTRIBUTES", "NOT_IN_PLACE")
REFUSALS = (TypeError, RuntimeError, IndexError, ValueError, AttributeError, AssertionError)
#: What to call an operation with after the tensor itself; the first that it takes.
OTHERS = [
    (), (0,), (1,), (0, 1), ((4, 4),), (4, 4), (-1, (2, 2)), (0, 0, 1), (0, (2, 2)), (0, 1, 1), ((4, 4), (4, 1)),
    ("x",), (torch.float32,), ("torch.FloatTensor",), ([1, 3],), (0, 1.0), (2, 2),
]  # fmt: skip


def tensor() -> torch.Tensor:
    return torch.arange(16.0).reshape(4, 4) / 16


def others():
    x, mask, index = tensor(), tensor() > 0.5, torch.zeros(4, 4, dtype=torch.int64)
    rows = torch.tensor([0, 1, 2, 3])
    return [
        *OTHERS, (x,), (x, x), (x, 0.5), (mask,), (mask, 1.0), (mask, x), (index,), (0, index), (0, index, x),
        (0, rows), (0, rows, x), (0, rows, 1.0), (2, 0, 1.0), (x[0],), (x[0], x[0]), (1, [0, 1]), (x[None], x[None]),
        ((1, 0),),
    ]  # fmt: skip


def results(operation, *first):
    """What an operation gives, with the first of all arguments that it takes and more; nothing where it takes none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for more in others():
            try:
                result = operation(*first, *more)
            except (
                TypeError,
                RuntimeError,
                IndexError,
                ValueError,
                NotImplementedError,
                AttributeError,
                AssertionError,
            ):
                continue
            found = result if isinstance(result, (tuple, list)) else [result]
            if any(isinstance(one, torch.Tensor) for one in found):
                yield [one for one in found if isinstance(one, torch.Tensor)]


def within(result: torch.Tensor, x: torch.Tensor) -> bool:
    return result.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


def shared(operation, x):
    """For every way to call an operation that works and changes nothing, whether it gives the memory of ``x`` alone."""
    ways, version = [], x._version
    for found in results(operation, x):
        ways += [all(within(one, x) for one in found)] if x._version == version else []
        version = x._version
    return ways


@pytest.mark.parametrize("name", METHODS + ATTRIBUTES)
def test_tensors_have_what_is_said_to_be_theirs(name):
    absent = {word for word in getattr(known, name) if not hasattr(torch.Tensor, word)}
    assert absent <= NO_METHODS.get(name, set())


def test_functions_exist():
    makers = known.MAKERS | known.OF_TENSORS | known.OF_EITHER | known.MAYBE_FUNCTIONS | known.VIEWS_OF_EACH
    assert {word for word in makers if not hasattr(torch, word) and not hasattr(F, word)} == set()


def test_collectives_exist():
    assert {word for word in known.COLLECTIVES | known.REDUCTIONS if not hasattr(dist, word)} == set()


@pytest.mark.parametrize("word", sorted(known.VIEW_METHODS | known.SPLITTERS))
def test_a_view_is_one(word):
    operations = [getattr(owner, word) for owner in (torch.Tensor, torch) if hasattr(owner, word)]
    x = torch.view_as_complex(tensor().reshape(2, 4, 2)) if word == "view_as_real" else tensor()
    x = tensor().reshape(2, 4, 2) if word in {"view_as_complex", "dsplit"} else x
    for operation in operations:
        assert set(shared(operation, x)) == {True}


@pytest.mark.parametrize("word", sorted(known.VIEW_METHODS | known.SPLITTERS | known.MAYBE_METHODS))
def test_a_namesake_in_functional_is_no_view(word):
    assert not any(shared(getattr(F, word), tensor()[None, None])) if hasattr(F, word) else True


@pytest.mark.parametrize("word", sorted(known.FRESH_METHODS - NO_METHODS["FRESH_METHODS"]))
def test_a_new_tensor_is_in_memory_of_its_own(word):
    x = tensor()
    ways = shared(getattr(torch.Tensor, word), x)
    assert True not in ways


@pytest.mark.parametrize("word", sorted(known.MAKERS - {"einsum", "from_numpy"}))
def test_a_function_gives_memory_of_its_own(word):
    for owner in (torch, F):
        if hasattr(owner, word):
            assert True not in shared(getattr(owner, word), tensor())


@pytest.mark.parametrize("word", sorted(known.MAYBE_METHODS - {"cuda"}))
def test_what_may_be_in_the_same_memory_is_so_at_times(word):
    x = {"bfloat16": tensor().bfloat16(), "double": tensor().double(), "half": tensor().half()}.get(word, tensor())
    x = {"long": tensor().long(), "int": tensor().int(), "bool": tensor().bool()}.get(word, x)
    assert True in shared(getattr(torch.Tensor, word), x)


def test_einsum_gives_a_view_of_one_operand_and_a_new_tensor_of_two():
    x = tensor()
    assert within(torch.einsum("ij->ji", x), x)
    assert not within(torch.einsum("ij,ij->ij", x, x), x)


def test_each_of_broadcast_tensors_is_a_view_of_its_own_argument():
    x, y = tensor(), torch.ones(4)
    assert [within(*pair) for pair in zip(torch.broadcast_tensors(x, y), (x, y), strict=True)] == [True, True]


@pytest.mark.parametrize("word", sorted(TENSOR_METHODS))
def test_what_proves_a_tensor_is_a_method_of_nothing_else(word):
    kinds = (str, bytes, list, tuple, dict, set, frozenset, int, float, complex, range, slice, torch.Size, torch.device)
    kinds += (torch.dtype, torch.Generator, torch.nn.Module, torch.UntypedStorage, torch.nn.utils.rnn.PackedSequence)
    kinds += (numpy.ndarray, numpy.generic, pathlib.Path, dist.ProcessGroup, dist.Work, collections.deque)
    assert [kind.__name__ for kind in kinds if hasattr(kind, word)] == []


@pytest.mark.parametrize("word", sorted(known.OF_TENSORS | known.VIEW_METHODS))
def test_what_proves_a_tensor_takes_nothing_else_first(word):
    for owner in (torch, F):
        for first in (2.0, 2, "ij,ij", [1, 2], [tensor(), tensor()], numpy.ones((4, 4))):
            if hasattr(owner, word):
                assert list(results(getattr(owner, word), first)) == []
