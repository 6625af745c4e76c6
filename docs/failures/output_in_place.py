"""torch.distributed.nn.functional writes into the output it is given and does not say so: wrong gradients, no error."""

import warnings

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.nn.functional import all_to_all_single, reduce_scatter


def gradients(write) -> tuple[bool, bool]:
    """Whether x and the data that are sent get a gradient of the output, which holds nothing of x any more."""
    x, data = (torch.full((2,), 5.0, requires_grad=True) for _ in range(2))
    output = 2 * x
    write(output, data)
    output.sum().backward()
    return x.grad is not None and bool(x.grad.any()), data.grad is not None


def main(rank: int, store: str) -> None:
    warnings.simplefilter("ignore")  # they are deprecated
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    for name, write in (
        ("all_to_all_single", all_to_all_single),
        ("reduce_scatter", lambda output, data: reduce_scatter(output, [data, data])),
    ):
        by_x, by_data = gradients(write)
        if rank == 0:
            print(f"{name}: a gradient for what the output was: {by_x}; for what it is now: {by_data}")
            assert (by_x, by_data) == (True, False), "PyTorch has mended it"
    dist.destroy_process_group()


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(main, args=(f"{folder}/store",), nprocs=2)
