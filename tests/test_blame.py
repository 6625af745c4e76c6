"""Who is accused of an exception: the frames decide, and `call=` is not the subject."""

from __future__ import annotations

import pytest
import torch

from conformance import ConformanceError, Subject, check

X = (torch.rand(3, 2, dtype=torch.float64, requires_grad=True),)


class Double(torch.autograd.Function):
    """Right."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class Fails(Double):
    """Its own backward raises, in a function that it calls."""

    @staticmethod
    def backward(ctx, grad):
        return _refused(grad) * 2


def _refused(grad):
    raise ValueError("no gradients")


class OneTooMany(Double):
    """PyTorch raises on its behalf, with no line of it."""

    @staticmethod
    def backward(ctx, grad):
        return grad * 2, grad


def found(subject):
    with pytest.raises(ConformanceError) as caught:
        check(subject)
    return caught.value.report.subjects[0]


@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_what_pytorch_cannot_compute_in_a_dtype_is_not_judged():
    """It has no ``equal`` for complex numbers of half precision, which the suite compares with."""
    subject = found(Subject(Double, inputs=[(torch.ones(3, dtype=torch.complex32),)]))
    assert subject.verdict == "incomplete"
    assert "give samples of another one" in subject.clause("Function.backward.count").reason


class NoMemory(Double):
    """Its backward finds less memory than there is in all, or asks for more than that."""

    asked = 1 << 20

    @staticmethod
    def backward(ctx, grad):
        raise RuntimeError(f"DefaultCPUAllocator: can't allocate memory: you tried to allocate {NoMemory.asked} bytes.")


@pytest.mark.parametrize(("asked", "verdict"), [(1 << 20, "incomplete"), (1 << 60, "fails")])
def test_a_machine_of_little_memory_accuses_nobody(monkeypatch, asked, verdict):
    monkeypatch.setattr(NoMemory, "asked", asked)
    assert found(Subject(NoMemory, inputs=[X])).verdict == verdict


@pytest.mark.parametrize(
    "said",
    [
        "CUDA error: out of memory\nSearch for `cudaErrorMemoryAllocation' in",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "NCCL error in: NCCLUtils.cpp:253, unhandled cuda error\nLast error:\nCuda failure 2 'out of memory'",
        "NCCL error in: NCCLUtils.cpp:253, unhandled cuda error\nLast error:\nFailed to CUDA calloc async 8 bytes",
    ],
)
def test_a_device_of_little_memory_accuses_nobody(said):
    class NoDeviceMemory(Double):
        @staticmethod
        def forward(ctx, *args):
            raise RuntimeError(said)

    assert found(Subject(NoDeviceMemory, inputs=[X])).verdict == "incomplete"


CUDA_ALONE = [
    AssertionError("Torch not compiled with CUDA enabled"),
    ValueError("Pointer argument (at 0) cannot be accessed from Triton (cpu tensor?)"),
    NotImplementedError("Could not run 'own::double' with arguments from the 'CPU' backend. This could be because"),
    RuntimeError("Cannot use ReduceOp.PREMUL_SUM with Gloo"),
    TypeError("x must be a tensor on a GPU"),
]


@pytest.mark.parametrize("error", CUDA_ALONE)
def test_a_run_without_the_device_that_a_kernel_needs_accuses_nobody(error):
    class NeedsADevice(Double):
        @staticmethod
        def forward(ctx, x):
            raise error

    seen = found(Subject(NeedsADevice, inputs=[X]))
    assert seen.verdict == "incomplete"
    assert f"this run lacks what it needs ({type(error).__name__}: {str(error)[:40]}" in str(seen)


class ChecksItsDevice(Double):
    """Refuses what is not on a GPU, without a word."""

    @staticmethod
    def forward(ctx, x):
        assert x.is_cuda
        return x * 2


class NeedsADeviceInBackward(Double):
    """Computes backward alone on a GPU."""

    @staticmethod
    def backward(ctx, grad):
        raise CUDA_ALONE[0]


class NamesADeviceInBackward(Double):
    """Wrong: forward was answered here, and backward raises an error that names a device."""

    @staticmethod
    def backward(ctx, grad):
        raise ValueError("no gradients, on a GPU or elsewhere")


@pytest.mark.parametrize(
    ("function", "verdict"),
    [(ChecksItsDevice, "incomplete"), (NeedsADeviceInBackward, "incomplete"), (NamesADeviceInBackward, "fails")],
)
def test_words_about_a_device_excuse_a_call_that_was_never_answered(function, verdict):
    assert found(Subject(function, inputs=[X])).verdict == verdict


def _refuses(ctx, grad):
    raise ValueError("no gradients")


class MethodFromElsewhere(Double):
    """Its own backward is a function of the module."""

    backward = staticmethod(_refuses)


def _without_source():
    made = {"Function": torch.autograd.Function}
    exec("class Made(Function):\n    forward = staticmethod(lambda ctx, x: x * 2)\n", made)
    exec("def backward(ctx, grad):\n    return grad * ctx.factor\n", made)
    made["Made"].backward = staticmethod(made["backward"])
    return made["Made"]


@pytest.mark.parametrize("function", [Fails, OneTooMany, MethodFromElsewhere, _without_source()])
def test_a_class_is_accused_of_what_it_raises_whatever_call_does(function):
    subject = Subject(function, inputs=[X], call=lambda function, x: function.apply(x + 1))
    assert found(subject).verdict == "fails"


def test_a_call_that_never_comes_back_leaves_the_subject_incomplete():
    subject = found(Subject(Double, inputs=[X], call=lambda function, x: function.apply(x.view(7))))
    assert subject.verdict == "incomplete"
    assert not [clause.id for clause in subject.clauses if clause.broken]
    (reason,) = {clause.reason for clause in subject.clauses if clause.verdict == "skipped"}
    assert reason.startswith("call= raises outside of Double: RuntimeError: shape '[7]' is invalid")
    assert "test_blame.py" in reason


class ContiguousAlone(Double):
    """Refuses gradients that are not contiguous."""

    @staticmethod
    def backward(ctx, grad):
        if not grad.is_contiguous():
            raise ValueError("the gradient has to be contiguous")
        return grad * 2


def doubled(x):
    return ContiguousAlone.apply(x)


def test_a_callable_is_accused_of_what_backward_of_its_functions_raises():
    subject = check(Subject(doubled, inputs=[X], call=lambda function, x: function(x))).subjects[0]
    assert "Function.backward.any-layout" in [clause.id for clause in subject.clauses if clause.broken]


class CallsNothing:
    """A ``call=`` that is an object and raises; it has no lines that could be found."""

    __hash__ = None

    def __call__(self, function, x):
        raise ValueError("not today")


def test_a_call_that_is_an_object_is_not_taken_for_the_callable():
    assert found(Subject(doubled, inputs=[X], call=CallsNothing())).verdict == "incomplete"
