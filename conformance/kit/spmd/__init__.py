"""Check SPMD types: what a Function that communicates claims, and whether its gradients follow from its types.

The words are those of PyTorch's SPMD type system. All ranks together are one function from all inputs to all results,
and one loss. :mod:`conformance.core.signatures` says what a signature means, :mod:`conformance.kit.typed_values` makes
inputs and cotangents of each type, :mod:`.owed` finds out by differences how the loss answers when an argument moves,
and :mod:`.keeps` says which signatures a Function keeps; these know nothing of processes, and are given what a rank
needs to know of the others as :class:`conformance.kit.typed_values.Ranks`. :mod:`.claims` asks all this of a subject,
whose call :mod:`.tensor_calls` turns into a function of its tensors alone.
"""
