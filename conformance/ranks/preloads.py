"""What is imported once, before ranks are forked, so that no rank has to."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import warnings
from collections.abc import Sequence

PRELOAD = (
    "torch",
    "torch.distributed",
    "torch.distributed._functional_collectives",
    "conformance.ranks.worker",
    "conformance.kit.samples",
    "conformance.kit.expect",
    "conformance.kit.specs",
)
#: What seeds are set in where it is installed: its import takes longer than many a test.
OPTIONAL = ("numpy.random",)
#: What torch.func imports when it is first used: as long again as torch itself, so only where tests need it.
TRANSFORMS = (
    "torch._dynamo.compiled_autograd",
    "torch._functorch.eager_transforms",
    "torch._decomp.decompositions_for_jvp",
)


def preload(modules: Sequence[str]) -> None:
    """Import what ranks would import one by one, and take away the empty cache folder that torch.func makes."""
    cache = "TORCHINDUCTOR_CACHE_DIR"
    given = cache in os.environ
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what torch warns of while it is imported is not the user's
        for name in modules:
            with contextlib.suppress(ImportError):  # a rank, which may find it elsewhere, says so if it cannot
                importlib.import_module(name)
    if not given and cache in os.environ:
        with contextlib.suppress(OSError):
            os.rmdir(os.environ.pop(cache))
    gc.freeze()
