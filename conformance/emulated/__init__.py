"""An accelerator without hardware: it finds, on any Linux machine with a compiler, mistakes that only show on a device.

The device is called ``emulated``, and there are several of them: ``emulated:0``, ``emulated:1``. Operators are those of
the CPU, but everything around them is as on CUDA: the host cannot read device memory, results are late until somebody
waits for them, tensors of two devices do not mix, gradients are computed in a thread of the device. Its process groups,
``emulated_ccl``, take what NCCL takes and refuse what NCCL refuses.

The C++ sources in ``csrc`` are compiled on the first use: :func:`build` does that. :func:`load` registers the device
with PyTorch. Importing this package does neither, and does not import torch.
"""

from conformance.emulated.library import BuildError, build
from conformance.emulated.registration import BACKEND, DEVICE, load

__all__ = ["BACKEND", "DEVICE", "BuildError", "build", "load"]
