class Function: ...


class NotPyTorchs(Function): ...


class Loop(Loop): ...  # noqa: F821
