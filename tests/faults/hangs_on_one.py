"""A module that one rank of several never finishes importing."""

import time

import torch.distributed as dist
from hostile import Good

if dist.is_initialized() and dist.get_rank() == 1:
    time.sleep(3600)

Gather = Good
