"""lightly 1.5.2, GatherLayer: a rank's gradient lacks what the other ranks' losses contribute (mended in 1.6)."""

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def main(rank: int, store: str) -> None:
    from lightly.utils.dist import GatherLayer

    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    x = torch.zeros(1, requires_grad=True)
    loss = sum((rank + 1) * y.sum() for y in GatherLayer.apply(x))
    loss.backward()
    print(f"rank {rank}: gradient {x.grad.item()}; that of both ranks' losses together is 3.0", flush=True)
    assert x.grad.item() == rank + 1
    dist.destroy_process_group()


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(main, args=(f"{folder}/store",), nprocs=2)
