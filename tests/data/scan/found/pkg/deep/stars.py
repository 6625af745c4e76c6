"""What comes along with a star."""

from torch.autograd.function import *  # noqa: F403

from ..aliases import *  # noqa: F403


class ByStar(torch.autograd.Function):  # noqa: F405
    pass


class ByStarOfTorch(InplaceFunction):  # noqa: F405
    pass


class ByStarOfPackage(Renamed):  # noqa: F405
    pass


class FromNowhere(Elsewhere.Function):  # noqa: F405
    pass
