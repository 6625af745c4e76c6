"""Run under unusual global settings, so that a Function which resets one to its usual value is noticed."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator

import torch

from conformance.kit.process.restoration import restored, use_deterministic_algorithms


@contextlib.contextmanager
def unusual_settings() -> Iterator[None]:
    """Run with unusual settings: another default dtype, several threads, anomaly mode, deterministic.

    >>> with unusual_settings():
    ...     torch.is_anomaly_enabled(), torch.are_deterministic_algorithms_enabled(), torch.get_num_threads() == 1
    (True, True, False)
    >>> torch.is_anomaly_enabled()
    False
    """
    with restored(), warnings.catch_warnings():
        # On top of the filters, so that one that sweeps all warnings away is not the one that is there already.
        warnings.simplefilter("ignore", BytesWarning)
        torch.set_default_dtype(torch.float32 if torch.get_default_dtype() == torch.float64 else torch.float64)
        torch.set_num_threads(5 if torch.get_num_threads() == 3 else 3)  # one is what others set it to
        torch.set_anomaly_enabled(True, False)
        # Not for warnings alone: whoever saves and restores the one flag would lose the other.
        use_deterministic_algorithms(True)
        yield
