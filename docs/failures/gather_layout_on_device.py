"""lightly 1.5.2, GatherLayer: a sliced tensor is gathered on Gloo, and refused where NCCL's rules hold.

A rank that is refused leaves the others waiting: where one rank alone has such a tensor, the run hangs.
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

DEVICES = {"cpu": "gloo", "emulated": "emulated_ccl"}


def main(rank: int, folder: str) -> None:
    from lightly.utils.dist import GatherLayer

    from conformance.emulated import build, load

    load(build())
    for device, backend in DEVICES.items():
        dist.init_process_group(backend, init_method=f"file://{folder}/{device}", rank=rank, world_size=2)
        columns = torch.zeros(4, 6, device=device)[:, ::2]
        try:
            GatherLayer.apply(columns)
            said = "gathered"
        except RuntimeError as error:
            said = str(error).splitlines()[0]
        print(f"rank {rank}, {device}: {said}", flush=True)
        assert ("contiguous" in said) == (device == "emulated")
        dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(main, args=(folder,), nprocs=2)
