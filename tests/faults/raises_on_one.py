"""A module that one rank of several cannot import."""

import torch.distributed as dist
from hostile import Good

if dist.is_initialized() and dist.get_rank() == 1:
    raise ImportError("not on rank 1")

Gather = Good
