"""A reduce that sums its argument in place and does not say so: a wrong gradient elsewhere, and no error."""

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


class Reduce(torch.autograd.Function):
    """Sums in place, as those of Megatron-core, neuraloperator, SwissArmyTransformer, nanotron and Colossal-AI."""

    @staticmethod
    def forward(ctx, x):
        dist.all_reduce(x.contiguous())
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad


def gradient(reduced: bool) -> float:
    x = torch.ones(1, requires_grad=True)
    h = 2 * x
    square = h * h  # its backward needs h as it is now
    if reduced:
        Reduce.apply(h)
    square.sum().backward()
    return x.grad.item()


def main(rank: int, store: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    right, wrong = gradient(False), gradient(True)
    if rank == 0:
        print(f"gradient of (2 * x)**2 at 1: {right}; with 2 * x reduced beside it: {wrong}")
        assert right != wrong, "Reduce left its argument alone"
    dist.destroy_process_group()


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(main, args=(f"{folder}/store",), nprocs=2)
