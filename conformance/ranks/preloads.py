"""Import modules once, before ranks are forked, so that no rank has to."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import warnings
from collections.abc import Iterator, Sequence

PRELOAD = (
    "torch",
    "torch.distributed",
    "torch.distributed._functional_collectives",
    "torch.fx.experimental.symbolic_shapes",  # by torch.autograd.grad, once it is given gradients
    "conformance.ranks.worker",
    "conformance.kit.samples",
    "conformance.kit.expect",
    "conformance.kit.specs",
)
#: Libraries whose seeds are set if installed: their import takes longer than many tests.
OPTIONAL = ("numpy.random",)
#: What torch.func imports at its first gradient: this takes as long as torch, so only if tests need it.
TRANSFORMS = (
    "torch._dynamo.compiled_autograd",
    "torch._functorch.eager_transforms",
    "torch._decomp.decompositions_for_jvp",
)


def preload(modules: Sequence[str]) -> None:
    """Import what each rank would import, and remove the empty cache folder that torch.func makes."""
    cache = "TORCHINDUCTOR_CACHE_DIR"
    given = cache in os.environ
    with importing():
        for name in modules:
            with contextlib.suppress(ImportError):  # a rank may find it elsewhere, and reports it if not
                importlib.import_module(name)
    if not given and cache in os.environ:
        with contextlib.suppress(OSError):
            os.rmdir(os.environ.pop(cache))


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Wrap imports that every fork shares.

    Warnings of torch's import do not concern the user, and the user's filters, such as PYTHONWARNINGS=error, are not
    meant for torch. The garbage collector is off, which saves a fifth of the time; afterwards it ignores what was
    imported, so that forks share that memory.
    """
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        gc.freeze()
        gc.enable()
