"""How small an error of a gradient the suite finds, by kind of kernel and dtype, beside gradcheck.

Each kernel takes one dtype alone, so that nothing can be judged in a wider one. Its right gradient must not be accused;
errors of the whole gradient, from large to small, tell the smallest one that is found together with all larger ones.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from conformance.emulated import load
from conformance.kit import tolerances
from conformance.kit.judgement import Judgement
from conformance.kit.oracles import gradient
from conformance.kit.oracles.inputs import function_of
from conformance.kit.sample_calls import every_sample
from conformance.kit.subject import Subject
from conformance.kit.world import World
from conformance.run.emulation import emulated_library
from tests.proof.on_device import run_on

DTYPES = ("float64", "float32", "float16", "bfloat16")
#: Errors of the whole gradient, next to it, from large to small.
FACTORS = (1.0, 0.3, 0.1, 3e-2, 1e-2, 3e-3, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
#: The errors that must be found, in kernels that are linear in their first argument and in others, by dtype.
LINEAR, SMOOTH = (1e-8, 1e-6, 1e-3, 1e-2), (1e-8, 1e-4, 1e-2, 3e-2)
#: The same of what subtracts numbers that are nearly equal, and so loses digits.
CANCELLING = (1e-8, 1e-4, 3e-2, 0.1)
SMALL, LARGE = (3, 4), (64, 128)
#: What a gradient is made into; the first dimension has the rows.
Wrong = Callable[[torch.Tensor], torch.Tensor]


def _without_last_row(gradient: torch.Tensor) -> torch.Tensor:
    return torch.cat([gradient[:-1], torch.zeros_like(gradient[-1:])])


#: Errors of another shape than one factor for the whole; the table names those that are not found.
SHAPES: dict[str, Wrong] = {
    "the last row lost": _without_last_row,
    "the last column lost": lambda gradient: _without_last_row(gradient.transpose(0, -1)).transpose(0, -1),
    "rows in reverse order": lambda gradient: gradient.flip(0),
    "the sign of the last row": lambda gradient: torch.cat([gradient[:-1], -gradient[-1:]]),
    "the opposite sign": torch.neg,
}


@dataclass(frozen=True)
class Kind:
    """A kernel, the shapes of its arguments by the sizes of a sample, and the errors that must be found."""

    name: str
    forward: Callable[..., torch.Tensor]
    shapes: Callable[[int, int], tuple[tuple[int, ...], ...]]
    goals: tuple[float, ...]


def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v


KINDS = (
    Kind("matmul", torch.matmul, lambda n, m: ((n, m), (m, n)), LINEAR),
    Kind("convolution", lambda x, w: F.conv1d(x[None], w), lambda n, m: ((2, m), (3, 2, 3)), LINEAR),
    Kind("scaled sum", lambda x, s: (x * s).sum(-1), lambda n, m: ((n, m), (m,)), LINEAR),
    Kind("attention, in v", lambda v, q, k: _attention(q, k, v), lambda n, m: ((n, m),) * 3, LINEAR),
    Kind("layer norm", lambda x, w: F.layer_norm(x, x.shape[-1:], w), lambda n, m: ((n, m), (m,)), CANCELLING),
    Kind("softmax", lambda x: F.softmax(x, -1), lambda n, m: ((n, m),), SMOOTH),
    Kind("attention, in q", _attention, lambda n, m: ((n, m),) * 3, CANCELLING),
    Kind("logsumexp", lambda x: torch.logsumexp(x, -1), lambda n, m: ((n, m),), CANCELLING),
    Kind("gated unit", lambda x, w: F.silu(x) * w, lambda n, m: ((n, m), (n, m)), SMOOTH),
    Kind("tanh of a matmul", lambda x, w: torch.tanh(x @ w / w.shape[0] ** 0.5), lambda n, m: ((n, m), (m, n)), SMOOTH),
)


@dataclass(frozen=True)
class Cell:
    """One kind, size and dtype: the resolution that is stated, the smallest error found, and what gradcheck finds."""

    kind: str
    size: tuple[int, int]
    dtype: str
    goal: float
    stated: float
    found: float | None
    missed: tuple[str, ...]
    accused: int
    doubled_passes: bool
    gradcheck: float | None

    @property
    def problems(self) -> list[str]:
        """What is wrong with it."""
        name = f"{self.kind} of {self.size[0]} by {self.size[1]} in {self.dtype}"
        wrong = [f"{name}: a right gradient is accused"] * bool(self.accused)
        wrong += [f"{name}: a doubled gradient passes"] * self.doubled_passes
        if self.found and self.found > self.goal:
            wrong.append(f"{name}: found {self.found:g}, not {self.goal:g}")
        return wrong


def cells(runs: int, only: str = "", device: str = "cpu") -> Iterator[Cell]:
    """Compute every cell, with so many runs of each right gradient; kernels go side by side."""
    library = emulated_library(device)
    jobs = [(place, size) for size in (SMALL, LARGE) for place, kind in enumerate(KINDS) if only in kind.name]
    # Processes that begin anew: CUDA does not survive a fork.
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn"), _start, (library,)) as pool:
        for found in pool.map(partial(_cells, runs=runs, device=device), jobs):
            yield from found


def _start(library: Path | None) -> None:
    torch.set_num_threads(1)  # kernels this small only wait for one another
    if library:
        load(library)


def _cells(job: tuple[int, tuple[int, int]], runs: int, device: str) -> list[Cell]:
    place, size = job
    kind = KINDS[place]
    return [_cell(kind, size, dtype, goal, runs, device) for dtype, goal in zip(DTYPES, kind.goals, strict=True)]


def _cell(kind: Kind, size: tuple[int, int], dtype: str, goal: float, runs: int, device: str) -> Cell:
    def differs(wrong: Wrong) -> bool:
        return judged(kind, size, dtype, wrong, device=device).verdict == "differs"

    def refuses(wrong: Wrong) -> bool:
        return _gradcheck(kind, dtype, wrong, device)

    right = [judged(kind, size, dtype, times(1.0), seed, device) for seed in range(runs)]
    return Cell(
        kind.name,
        size,
        dtype,
        goal,
        stated=max(one.resolution for one in right),
        found=_smallest(differs),
        missed=tuple(name for name, wrong in SHAPES.items() if not differs(wrong)),
        accused=sum(one.verdict == "differs" for one in right),
        doubled_passes=judged(kind, size, dtype, times(2.0), device=device).is_finer_than(
            tolerances.RESOLUTION_IN_HALF
        ),
        gradcheck=None if size != SMALL or refuses(times(1.0)) else _smallest(refuses),
    )


def _smallest(finds: Callable[[Wrong], bool]) -> float | None:
    """The smallest error of the whole gradient that is found together with all larger ones."""
    smallest = None
    for factor in FACTORS:
        if not finds(times(1 + factor)):
            break
        smallest = factor
    return smallest


def times(factor: float) -> Wrong:
    """Make a gradient so many times as large."""
    return lambda gradient: gradient * factor


def _kernel(kind: Kind, dtype: str, wrong: Wrong) -> type[torch.autograd.Function]:
    """A Function that takes one dtype alone, with something done to the gradient of its first argument."""

    class Kernel(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *args: torch.Tensor) -> torch.Tensor:
            if args[0].dtype != getattr(torch, dtype):
                raise TypeError(f"the kernel takes {dtype}, not {args[0].dtype}")
            ctx.save_for_backward(*args)
            return kind.forward(*args)

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, ...]:
            args = [one.detach().requires_grad_() for one in ctx.saved_tensors]
            with torch.enable_grad():
                first, *others = torch.autograd.grad(kind.forward(*args), args, grad)
            return (wrong(first), *others)

    return Kernel


def _args(kind: Kind, size: tuple[int, int], dtype: str, seed: int = 0) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    shapes = kind.shapes(*size)
    first, *others = [torch.randn(shape, generator=generator).to(getattr(torch, dtype)) for shape in shapes]
    return (first.requires_grad_(), *others)


def judged(
    kind: Kind, size: tuple[int, int], dtype: str, wrong: Wrong, seed: int = 0, device: str = "cpu"
) -> Judgement:
    """Judge a kernel with something done to the gradient of its first argument."""
    world = World(device=device)
    subject = Subject(_kernel(kind, dtype, wrong), inputs=[_args(kind, size, dtype, seed)])
    (sample,) = every_sample(subject, world)
    run = sample.run()
    (found,) = run.gradients(run.cotangents(world))
    return gradient.judge(function_of(world, run, sample.active[0], found), seed)


def _gradcheck(kind: Kind, dtype: str, wrong: Wrong, device: str) -> bool:
    """Whether gradcheck refuses the kernel, with its own tolerances."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of any dtype but double precision
        try:
            args = [arg.detach().to(device).requires_grad_(arg.requires_grad) for arg in _args(kind, SMALL, dtype)]
            return not torch.autograd.gradcheck(_kernel(kind, dtype, wrong).apply, args)
        except RuntimeError:
            return True


def page(found: Sequence[Cell], device: str = "cpu") -> str:
    """The table of the site, with the day it was made, the release of PyTorch, and the device."""
    lines = [
        run_on(device),
        "",
        "| kernel | size | dtype | resolution stated | smallest error found | not found | gradcheck |",
        "|---|---|---|---|---|---|---|",
    ]
    for cell in found:
        gradcheck = (
            "" if cell.size != SMALL else "refuses right ones" if cell.gradcheck is None else _told(cell.gradcheck)
        )
        size = " by ".join(map(str, cell.size))
        columns = [
            cell.kind,
            size,
            cell.dtype,
            _told(cell.stated),
            _told(cell.found),
            ", ".join(cell.missed),
            gradcheck,
        ]
        lines.append(f"| {' | '.join(columns)} |")
    return "\n".join(lines) + "\n"


def _told(error: float | None) -> str:
    return "none" if error is None else f"{error:.0e}" if error < 0.1 else f"{error:g}"
