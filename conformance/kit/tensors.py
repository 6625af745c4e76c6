"""Tensors whose memory has been given back: to read one is to read what belongs to others, or to crash."""

from __future__ import annotations

import torch


def freed(tensor: torch.Tensor) -> bool:
    """Whether a tensor's storage no longer holds its elements, as where a Function frees its input.

    >>> x = torch.ones(3)
    >>> x.untyped_storage().resize_(0)  # doctest: +SKIP
    >>> freed(torch.ones(3))
    False
    """
    if tensor.layout is not torch.strided or tensor.numel() == 0:
        return False
    try:
        held = tensor.untyped_storage().nbytes()
        places = zip(tensor.shape, tensor.stride(), strict=True)
    except (RuntimeError, NotImplementedError):
        return False  # a subclass or a tensor of torch.func, which owns no storage
    last = tensor.storage_offset() + sum((size - 1) * stride for size, stride in places)
    return bool(held < (last + 1) * tensor.element_size())
