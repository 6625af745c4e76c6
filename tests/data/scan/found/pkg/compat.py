from torch.autograd import Function  # noqa: F401
