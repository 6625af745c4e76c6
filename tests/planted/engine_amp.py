"""Engine bugs around custom_fwd and custom_bwd."""

from __future__ import annotations

import torch


def inputs_are_not_cast() -> None:
    """Ignores cast_inputs in custom_fwd.

    Breaks: Function.amp.custom-fwd
    """
    original = torch.amp.custom_fwd
    torch.amp.custom_fwd = lambda *, device_type, cast_inputs=None: original(device_type=device_type)


def forward_runs_without_autocast() -> None:
    """Disables autocast in custom_fwd.

    Breaks: Function.amp.custom-fwd
    """
    original = torch.amp.custom_fwd

    def custom_fwd(*, device_type, cast_inputs=None):
        def decorated(forward):
            def off(*args):
                with torch.autocast(device_type, enabled=False):
                    return forward(*args)

            return original(device_type=device_type, cast_inputs=cast_inputs)(off)

        return decorated

    torch.amp.custom_fwd = custom_fwd


def backward_runs_as_its_caller() -> None:
    """Leaves backward in its caller's autocast state in custom_bwd.

    Breaks: Function.amp.custom-bwd
    """
    torch.amp.custom_bwd = lambda *, device_type: lambda backward: backward
