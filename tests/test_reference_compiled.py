"""The reference under torch.compile: it goes on compiled where a second shape makes sizes symbolic."""

from __future__ import annotations

import importlib

import pytest
import torch
import torch.distributed as dist

from conformance.run.references import reference_subjects

GATHERS = [subject.reference for subject in reference_subjects() if subject.spec == "Collective"]
GATHERS += ["spec_impl.ksuit:AllGatherGradAutograd", "spec_impl.ksuit:AllGatherGradAutogradSeparate"]


@pytest.fixture(autouse=True)
def one_rank():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize("reference", GATHERS)
def test_no_shape_is_refused(reference):
    # Imports all of the compiler, which takes seconds: not in every process that collects this file.
    from conformance.kit.observation.compiled import BACKEND, compiling

    module, _, name = reference.partition(":")
    function = getattr(importlib.import_module(module), name)
    rest = (0,) if "collectives_source" in module else ()
    with compiling():
        call = torch.compile(lambda x: function.apply(x, *rest), backend=BACKEND)
        for rows in (2, 4, 6):
            x = torch.arange(2.0 * rows, dtype=torch.float64).view(rows, 2).requires_grad_()
            result = call(x)
            result = result[0] if isinstance(result, tuple) else result
            (gradient,) = torch.autograd.grad(result.square().sum(), x)
            assert torch.equal(result, x)
            assert torch.equal(gradient, 2 * x)
