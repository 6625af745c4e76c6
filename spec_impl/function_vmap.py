"""What vmap receives and must return.

Continues :mod:`spec_impl.function`.
"""

from __future__ import annotations

from typing import Any

from spec_impl.function import Function

SPEC = "Function"


class FunctionVmap(Function):
    """Compute a whole batch of samples at once.

    Documentation only; do not subclass: in PyTorch these are members of
    :class:`spec_impl.function.Function`.
    """

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> Any:
        """Compute a whole batch at once under :func:`torch.vmap`.

        Override it, or set ``generate_vmap_rule = True`` on the class; not both.

        Args:
            info: ``info.batch_size`` is the size of the mapped dimension, ``info.randomness`` the option
                given to :func:`torch.vmap`.
            in_dims: For each argument, the index of its mapped dimension, or None.
            *args: The arguments of forward; tensors still have their mapped dimension.

        Returns:
            ``(output, out_dims)``: for each output, the index of its mapped dimension, or None.

        Raises:
            NotImplementedError: the class neither overrides it nor sets ``generate_vmap_rule``.

        .. clause:: Function.vmap.required
           :party: engine
           :level: must
           :sources: N "you must either override this static method"

           Under torch.vmap a class that neither overrides vmap nor sets generate_vmap_rule raises an error.

        .. clause:: Function.vmap.not-both
           :level: must
           :sources: N "(you may not do both)"

           A class overrides vmap or sets generate_vmap_rule, never both.

        .. clause:: Function.vmap.both-refused
           :party: engine
           :level: must
           :sources: N "(you may not do both)"

           Under torch.vmap a class that overrides vmap and also sets generate_vmap_rule raises an error.

        .. clause:: Function.vmap.generated
           :party: engine
           :level: must
           :sources: N "or set generate_vmap_rule to True"

           With generate_vmap_rule set, a class made of PyTorch operations works under torch.vmap without its own
           vmap: its forward, its backward and its jvp.

        .. clause:: Function.vmap.separate-form
           :party: engine
           :level: must
           :sources: X Extending torch.func "Only the latter is supported with function transforms"

           Under a transform of torch.func a class in the combined form raises an error that names
           setup_context.

        .. clause:: Function.vmap.info
           :party: engine
           :level: must
           :sources: N "specifies the size of the dimension being vmapped over"

           ``info.batch_size`` is the size of the mapped dimension and ``info.randomness`` the option given to
           torch.vmap.

        .. clause:: Function.vmap.in-dims
           :party: engine
           :level: must
           :sources: N "in_dims has a corresponding Optional[int]"

           ``in_dims`` has one entry for each argument: the index of its mapped dimension, or None if it is not
           mapped or not a tensor.

        .. clause:: Function.vmap.accepts
           :level: must
           :sources: N "which is the same as the args to forward()"

           vmap can be called with info, in_dims and the arguments of forward.

        .. clause:: Function.vmap.args
           :party: engine
           :level: must
           :sources: N "which is the same as the args to forward()"

           After info and in_dims, vmap receives the arguments of forward in the same order. Tensors still have
           their mapped dimension.

        .. clause:: Function.vmap.out-dims
           :level: must
           :sources: N "out_dims should be of the same structure as output"

           vmap returns the pair of the output and out_dims. out_dims has the structure of the output.

        .. clause:: Function.vmap.out-dims-honoured
           :party: engine
           :level: must
           :sources: N "specifies if the output has the vmapped dimension"

           The result of torch.vmap is batched along the dimension that out_dims names for each output. An output
           whose out_dim is None is the same for every sample.

        .. clause:: Function.vmap.batched
           :level: must
           :sources: N "Define the behavior for this autograd.Function underneath torch.vmap()",
              X torch.vmap "any calls to random functions will error"

           For every choice of in_dims the result equals calling the Function sample by sample, also under grad, jvp
           and a second vmap. As ``info.randomness`` says, random numbers are the same for all samples, different
           for each, or an error.

        .. clause:: Function.vmap.inputs-untouched
           :level: should
           :sources: X Extending torch.func "should aim to preserve the semantics"

           If a call of the Function changes no tensor, vmap changes no tensor of a batch.

        .. clause:: Function.vmap.refused
           :party: engine
           :level: must
           :sources: N "The return of the vmap staticmethod is a tuple"

           A vmap that does not return a pair, or returns out_dims that do not fit the structure of its output,
           raises an error.

        .. clause:: Function.vmap.transforms
           :party: engine
           :level: must
           :sources: X Extending torch.func "to support compositions of transforms"

           The class's own vmap rule is used wherever a batch is computed: in a vmap of a vmap, in a gradient of a
           vmap, in a vmap of a gradient, and in the batches of ``torch.func.jacfwd``.

        Example:
            >>> import torch
            >>> from spec_impl.function import Function
            >>> class Outer(Function):
            ...     @staticmethod
            ...     def forward(x, y):
            ...         return x.unsqueeze(-1) * y.unsqueeze(-2)
            ...
            ...     @staticmethod
            ...     def setup_context(ctx, inputs, output):
            ...         pass
            ...
            ...     @staticmethod
            ...     def vmap(info, in_dims, x, y):
            ...         # Put the mapped dimension first; an argument that is not mapped is the same for all samples.
            ...         x, y = (
            ...             part.expand(info.batch_size, *part.shape) if dim is None else part.movedim(dim, 0)
            ...             for part, dim in zip((x, y), in_dims)
            ...         )
            ...         return Outer.apply(x, y), 0
            >>> batch, single = torch.ones(5, 2), torch.ones(3)
            >>> torch.vmap(Outer.apply, in_dims=(0, None))(batch, single).shape
            torch.Size([5, 2, 3])
        """
