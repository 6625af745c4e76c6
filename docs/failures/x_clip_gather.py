"""x-clip 0.14.4, AllGather: without sizes, which it is first called without, forward raises a NameError."""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def main(rank: int, store: str) -> None:
    from x_clip.distributed import AllGather

    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    try:
        AllGather.apply(torch.zeros(1, 2), 0, None)
    except NameError as error:
        print(f"rank {rank}: {error}", flush=True)
    else:
        raise AssertionError("mended")
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(main, args=(f"{folder}/store",), nprocs=2)
