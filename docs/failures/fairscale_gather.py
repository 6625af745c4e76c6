"""FairScale 0.4.13, _GatherFromModelParallelRegion: no gradient for a tensor whose last dimension is empty."""

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def main(rank: int, store: str) -> None:
    from fairscale.nn.model_parallel import initialize
    from fairscale.nn.model_parallel.mappings import _GatherFromModelParallelRegion

    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    initialize._MODEL_PARALLEL_GROUP = dist.group.WORLD
    x = torch.zeros(3, 0, requires_grad=True)
    y = _GatherFromModelParallelRegion.apply(x)
    try:
        y.sum().backward()
    except IndexError as error:
        print(f"rank {rank}: forward gave {tuple(y.shape)}, backward raised IndexError: {error}")
    else:
        print(f"rank {rank}: forward gave {tuple(y.shape)}, backward {tuple(x.grad.shape)}")
    dist.destroy_process_group()


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(main, args=(f"{folder}/store",), nprocs=2)
