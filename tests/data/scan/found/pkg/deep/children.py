from .. import aliases
from ..aliases import ByFullName as Parent


class Child(Parent): ...


class Grandchild(Child): ...


class ByAttribute(aliases.Renamed): ...


def make():
    from torch.autograd import Function

    class Local(Function):
        class Inner(Function): ...

    if Local:

        class Conditional(Local): ...

    return Local
