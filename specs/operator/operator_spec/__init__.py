"""The specification of an operator that is registered with ``torch.library``."""
