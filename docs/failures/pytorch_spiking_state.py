"""PyTorchSpiking 0.1.0, SpikingActivation: the initial state that the caller hands over has other values afterwards."""

import torch
from pytorch_spiking.functional import SpikingActivation

rates, state = torch.ones(1, 3, 2, requires_grad=True), torch.full((1, 2), 0.25)
first = SpikingActivation.apply(rates, torch.relu, 0.28, state)
print("the state was 0.25 and is", state.tolist())
second = SpikingActivation.apply(rates, torch.relu, 0.28, state)
print("the same call gave", first.tolist(), "and now gives", second.tolist())
assert state._version > 0
assert not torch.equal(state, torch.full((1, 2), 0.25))
assert first.any()
assert not second.any()
