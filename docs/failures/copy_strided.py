"""A copy that sums the incoming gradient in place: where that lies transposed, it is not summed, and nothing warns."""

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


class Copy(torch.autograd.Function):
    """Backward as in the _CopyToModelParallelRegion of Megatron-core 0.16.1."""

    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, grad):
        dist.all_reduce(grad.contiguous())  # where grad is not contiguous, it is a copy that is summed, and forgotten
        return grad


def gradient(transposed: bool) -> float:
    x = torch.zeros(2, 3, requires_grad=True)
    y = Copy.apply(x)
    loss = (y.t() * torch.ones(3, 2)).sum() if transposed else (y * torch.ones(2, 3)).sum()
    loss.backward()
    return x.grad[0, 0].item()


def main(rank: int, store: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    right, wrong = gradient(False), gradient(True)
    if rank == 0:
        print(f"loss y.sum(), gradient {right}; the same of y.t(), gradient {wrong}")
        assert right != wrong, "the strides make no difference"
    dist.destroy_process_group()


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(main, args=(f"{folder}/store",), nprocs=2)
