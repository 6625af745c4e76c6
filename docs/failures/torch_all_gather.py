"""torch.distributed.nn.functional.all_gather on Gloo: a wrong gradient where the loss uses the result transposed."""

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.nn.functional import all_gather


def gradient(rank: int, transposed: bool) -> torch.Tensor:
    x = torch.zeros(2, 3, requires_grad=True)
    weight = torch.arange(6.0).view(3, 2)
    # Twice the same loss: the gradient of every entry is the transposed weight.
    loss = sum((y.t() * weight).sum() if transposed else (y * weight.t().contiguous()).sum() for y in all_gather(x))
    loss.backward()
    return x.grad


def main(rank: int, store: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    right, wrong = gradient(rank, False), gradient(rank, True)
    if rank == 0:
        print("loss (y * w.t()).sum(), gradient:", right.tolist())
        print("loss (y.t() * w).sum(), gradient:", wrong.tolist())
        assert not torch.equal(right, wrong), "PyTorch has mended it"
    dist.destroy_process_group()


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(main, args=(f"{folder}/store",), nprocs=2)
