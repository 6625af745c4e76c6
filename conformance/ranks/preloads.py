"""What is imported once, before ranks are forked, so that no rank has to."""

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
#: What seeds are set in where it is installed: its import takes longer than many a test.
OPTIONAL = ("numpy.random",)
#: What torch.func imports when it first computes a gradient: as long again as torch itself, so only where tests do.
TRANSFORMS = (
    "torch._dynamo.compiled_autograd",
    "torch._functorch.eager_transforms",
    "torch._decomp.decompositions_for_jvp",
)


def preload(modules: Sequence[str]) -> None:
    """Import what ranks would import one by one, and take away the empty cache folder that torch.func makes."""
    cache = "TORCHINDUCTOR_CACHE_DIR"
    given = cache in os.environ
    with importing():
        for name in modules:
            with contextlib.suppress(ImportError):  # a rank, which may find it elsewhere, says so if it cannot
                importlib.import_module(name)
    if not given and cache in os.environ:
        with contextlib.suppress(OSError):
            os.rmdir(os.environ.pop(cache))


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Around imports that every fork is to share.

    What torch warns of while it is imported is not the user's, nor are the user's filters, such as
    PYTHONWARNINGS=error, for torch. The garbage collector would go through all that is imported again and again, a
    fifth of the time; afterwards it is to leave that alone, so that forks share the memory.
    """
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        gc.freeze()
        gc.enable()
