from .. import aliases
from ..aliases import ByFullName as Parent


class Child(Parent): ...


class Grandchild(Child): ...


class ByAttribute(aliases.Renamed): ...


def make():
    from torch.autograd import Function  # noqa: F401

    class Local(Function):
        class Inner(Function): ...

    if Local:

        class Conditional(Local): ...

    return Local
