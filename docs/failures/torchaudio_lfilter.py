"""TorchAudio 2.11.1, DifferentiableIIR: without the compiled extension, forward writes into its input."""

import sys
import types

import torch

# As on a machine for which no extension was built; the package decides so when it is imported.
torchaudio = types.ModuleType("torchaudio")
torchaudio.__path__ = [f"{folder}/torchaudio" for folder in sys.path]
extension = types.ModuleType("torchaudio._extension")
extension._IS_TORCHAUDIO_EXT_AVAILABLE = False
functional = types.ModuleType("torchaudio.functional")
functional.__path__ = [f"{folder}/torchaudio/functional" for folder in sys.path]
sys.modules |= {module.__name__: module for module in (torchaudio, extension, functional)}
from torchaudio.functional.filtering import DifferentiableIIR, lfilter  # noqa: E402

feedback = torch.tensor([1.0, 0.5])
given = torch.ones(1, 1, 4)
result = DifferentiableIIR.apply(given, feedback[None])
print("the waveform was all ones and is", given.tolist(), "after the call")
assert torch.equal(given, result)

waveform = torch.ones(1, 4, requires_grad=True)
try:
    lfilter(waveform, feedback, torch.tensor([1.0, 0.3])).sum().backward()
except RuntimeError as error:
    print("backward of lfilter:", error)
else:
    raise AssertionError("lfilter has a gradient")
