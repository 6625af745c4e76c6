"""What PyTorch promises about Functions in compiled code, and which releases are known to break it."""

from __future__ import annotations

from conformance.kit import Deviation, NotApplicable, World, cases, clause, expect
from conformance.kit.observation.compiled_engine import compiled_result, eager_result, excused


@clause("Function.compile.methods")
@cases(
    call=[
        "result",
        "gradient",
        "gradient of a class with an unused jvp",
        "gradient of one tensor given twice",
        "gradient in place",
        "gradient in place of a result that is dropped",
        "gradient in place of a tensor from outside",
    ],
    backend=["eager", "aot_eager"],
)
def test_compiled_code_uses_the_methods(world: World, call: str, backend: str) -> None:
    """Compiled, the number is that of eager mode."""
    expected = eager_result(world, call)
    with expect.no_error(f"compiling: {call}", "no exception"):
        actual = compiled_result(world, call, backend)
    _like_eager(actual, expected, call)


@clause("Function.compile.transforms")
@cases(
    call=[
        "second derivative around",
        "second derivative inside",
        "torch.func.grad around",
        "torch.func.grad inside",
        "torch.func.grad twice around",
        "torch.func.grad twice inside",
        "torch.func.vjp around",
        "torch.func.vjp inside",
        "torch.func.jvp around",
        "torch.func.jvp inside",
        "torch.vmap around",
        "torch.vmap inside",
        "forward mode around",
        "forward mode inside",
    ],
    backend=["eager", "aot_eager"],
)
def test_compiled_code_keeps_the_rules_among_transforms(world: World, call: str, backend: str) -> None:
    """Compiled, the number is that of eager mode, or an exception is raised."""
    expected = eager_result(world, call)
    try:
        actual = compiled_result(world, call, backend)
    except NotApplicable:
        raise
    except Exception:  # not supported, which PyTorch says: no wrong number
        return
    _like_eager(actual, expected, call)


def _like_eager(actual: object, expected: object, call: str) -> None:
    try:
        expect.equal(actual, expected, f"{call}, compiled, compared with eager mode,")
    except Deviation as error:
        if why := excused(call):
            raise NotApplicable(f"{error.what}: {why}") from error
        raise
