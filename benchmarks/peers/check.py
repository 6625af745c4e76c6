"""The check that every harness runs: a gather on all ranks, its values and its gradient."""

from __future__ import annotations

import torch
import torch.distributed as dist


def one_check(rank: int, size: int) -> None:
    """Gather, compare, differentiate, compare."""
    import sys
    from pathlib import Path

    root = str(Path(__file__).parents[2])
    if root not in sys.path:
        sys.path.insert(0, root)
    from spec_impl.ksuit import AllGatherGradAutograd

    def values(source: int) -> torch.Tensor:
        return torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(source))

    x = values(rank).requires_grad_()
    outputs = AllGatherGradAutograd.apply(x)
    torch.stack(outputs).sum().backward()
    for source, output in enumerate(outputs):
        assert torch.equal(output.detach(), values(source))
    assert torch.allclose(x.grad, torch.full_like(x, size))


def join(rank: int, size: int, port: int, backend: str = "gloo") -> None:
    """Set up a group on loopback."""
    store = dist.TCPStore("127.0.0.1", port, size, is_master=rank == 0)
    dist.init_process_group(backend, store=store, rank=rank, world_size=size)


def free_port() -> int:
    """A port that nobody listens on at the moment."""
    import socket

    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])
