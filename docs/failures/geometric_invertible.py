"""PyTorch Geometric 2.8.1, InvertibleFunction: with no weights to differentiate, one gradient too many."""

import torch
from torch_geometric.nn.models.rev_gnn import GroupAddRev


class Conv(torch.nn.Module):
    """A layer without parameters, as GroupAddRev wants it."""

    def reset_parameters(self) -> None:
        pass

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        return x * 2


layer = GroupAddRev(Conv(), num_groups=2)
x = torch.randn(3, 4, requires_grad=True)
try:
    layer(x * 1, torch.empty(2, 0, dtype=torch.long)).sum().backward()
except RuntimeError as error:
    print(error)
else:
    raise AssertionError("mended")
