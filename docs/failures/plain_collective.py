"""A backward that calls dist.all_reduce has no right second derivative: lightly 1.6, SSLSV, VISSL, AllGather2."""

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


class Gather(torch.autograd.Function):
    """Backward word for word as in the GatherLayer of SSLSV and VISSL."""

    @staticmethod
    def forward(ctx, x):
        output = [torch.zeros_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(output, x)
        return tuple(output)

    @staticmethod
    def backward(ctx, *grads):
        all_gradients = torch.stack(grads)
        dist.all_reduce(all_gradients)
        return all_gradients[dist.get_rank()]


def main(rank: int, store: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    x = torch.ones(1, requires_grad=True)
    # Each rank's loss is the sum of all cubes; of the two losses together, 2 * (x0**3 + x1**3), the gradient is 6 x**2.
    loss = sum((y**3).sum() for y in Gather.apply(x))
    (first,) = torch.autograd.grad(loss, x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    if rank == 0:
        print(f"first {first.item()} (6.0 is right); second {second.item()} (12.0 is right)")
        assert (first.item(), second.item()) != (6.0, 12.0)
    dist.destroy_process_group()


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(main, args=(f"{folder}/store",), nprocs=2)
