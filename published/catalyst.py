"""Catalyst: a loss that draws wrong labels until one is ranked too high."""

from __future__ import annotations

import torch

from conformance.kit.inputs import drawn
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("catalyst"), "catalyst.contrib.losses")

warp = Subject("catalyst.contrib.losses.recsys:WARP", inputs=drawn((3, 5), torch.eye(3, 5), dtype=torch.float32))
