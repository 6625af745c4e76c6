"""Register the emulated device, and its process groups, with PyTorch."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from pathlib import Path

DEVICE = "emulated"
BACKEND = "emulated_ccl"

_EXTENSION = "conformance.emulated._emulated"


def load(library: Path, devices: int = 2) -> None:
    """Register the device with the PyTorch of this process; a second call changes nothing.

    Starts no thread, and leaves the process fit for forking until something is computed on the device.

    Args:
        library: What :func:`conformance.emulated.build` returned.
        devices: How many devices there are.
    """
    if _EXTENSION in sys.modules:
        return
    import torch
    import torch.distributed  # the library's process group is derived from a class of it

    loader = ExtensionFileLoader(_EXTENSION, str(library))
    extension = importlib.util.module_from_spec(ModuleSpec(_EXTENSION, loader, origin=str(library)))
    loader.exec_module(extension)
    sys.modules[_EXTENSION] = extension
    extension.set_device_count(devices)
    extension.register_device()
    torch.utils.rename_privateuse1_backend(DEVICE)
    torch._register_device_module(DEVICE, importlib.import_module("conformance.emulated.device"))
    torch.utils.generate_methods_for_privateuse1_backend()
    importlib.import_module("conformance.emulated.autocast")
    if torch.distributed.is_available():
        from conformance.emulated.backend import make_group

        torch.distributed.Backend.register_backend(BACKEND, make_group, devices=[DEVICE])
