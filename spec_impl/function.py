"""The contract between PyTorch and whoever writes a :class:`torch.autograd.Function`.

Five documents repeat it, each in its own words: the pages of ksuit's ``AllGatherGradAutograd`` (K), towhee's
``AllGather`` (T), torchlogix's ``GradFactor`` (L), Megatron-LM's ``MakeViewlessTensor`` (M) and PyTorch's own
``NestedIOFunction`` (N). This module says it once, member by member. A clause of party *engine* is what
PyTorch promises to the writer of a Function; a clause of party *function* is what that writer owes.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any

import torch

SPEC = "Function"


class Function(torch.autograd.Function):  # type: ignore[misc]
    """A differentiable operation with its own forward and its own derivative.

    Derive from it, write :meth:`forward` and :meth:`backward`, and call ``apply`` on the class. It behaves
    like :class:`torch.autograd.Function` in every respect: the members below are there to be read.

    .. clause:: Function.apply.returns
       :party: engine
       :level: must
       :sources: X Extending PyTorch "return either a single"

       ``apply`` hands out what ``forward`` returned: one value for one value, a tuple for a tuple, with
       everything that is no tensor as it was.

    .. clause:: Function.attributes.reflect
       :party: engine
       :level: must
       :sources: T L "to_save", T L "dirty_tensors", T L "saved_for_forward", T L "non_differentiable",
          T L "materialize_grads", L "generate_vmap_rule", T L "needs_input_grad"

       On ctx, ``to_save``, ``saved_for_forward``, ``dirty_tensors`` and ``non_differentiable`` hold what was
       last given to the method of that purpose, and None before; ``needs_input_grad`` can be read in forward
       or setup_context as well as in backward; assigning ``materialize_grads`` does what
       ``set_materialize_grads`` does; ``generate_vmap_rule`` is False on a class that does not set it.

    .. clause:: Function.attributes.node
       :party: engine
       :level: must
       :sources: T L "next_functions", T L "metadata", T L "register_hook", L "register_prehook",
          L "maybe_clear_saved_tensors"

       The ``grad_fn`` of a result is a node of the graph with ``name()``, ``next_functions``, a ``metadata``
       dict, ``register_hook``, ``register_prehook``, ``requires_grad``, ``saved_tensors`` and
       ``maybe_clear_saved_tensors``.

    .. clause:: Function.attributes.deprecated
       :party: engine
       :level: may
       :sources: T L "mark_shared_storage", T L "saved_variables", T "is_traceable"
       :versions: torch>=2.4

       Members kept for old code say so: ``mark_shared_storage`` warns that it is deprecated and does nothing,
       ``saved_variables`` warns and equals ``saved_tensors``, and ``is_traceable`` is False where it still
       exists.

    Attributes:
        saved_tensors: In backward and jvp, the tensors that were saved, in order.
        needs_input_grad: One bool for each input of forward.
        to_save: What :meth:`save_for_backward` was given, or None.
        saved_for_forward: What :meth:`save_for_forward` was given, or None.
        dirty_tensors: What :meth:`mark_dirty` was given, or None.
        non_differentiable: What :meth:`mark_non_differentiable` was given, or None.
        materialize_grads: Assigning it does what :meth:`set_materialize_grads` does; it cannot be read.
        metadata: A dict of the node for anybody's notes.
        next_functions: The nodes that this node hands gradients to, each with the index of its input there.
        requires_grad: Whether the node takes part in a backward pass.
        generate_vmap_rule: Set it to True on the class to have PyTorch derive :meth:`vmap`.

    Example:
        >>> import torch
        >>> from spec_impl.function import Function
        >>> class Exp(Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         result = x.exp()
        ...         ctx.save_for_backward(result)
        ...         return result
        ...
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         (result,) = ctx.saved_tensors
        ...         return grad * result
        >>> x = torch.zeros(2, requires_grad=True)
        >>> Exp.apply(x).sum().backward()
        >>> x.grad
        tensor([1., 1.])
    """

    saved_tensors: tuple[torch.Tensor | None, ...]
    needs_input_grad: tuple[bool, ...]
    to_save: tuple[torch.Tensor | None, ...] | None
    saved_for_forward: tuple[torch.Tensor | None, ...] | None
    dirty_tensors: tuple[torch.Tensor, ...] | None
    non_differentiable: tuple[torch.Tensor, ...] | None
    materialize_grads: bool
    metadata: dict[Any, Any]
    next_functions: tuple[tuple[Any, int], ...]
    requires_grad: bool
    generate_vmap_rule = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Warn: the class itself is what is used, not an instance of it.

        .. clause:: Function.init.instance
           :party: engine
           :level: must
           :sources: T "__call__(*args, **kwargs)", C torch 2.13.0 torch/autograd/function.py:548-563

           Making an instance gives a DeprecationWarning, and calling the instance raises RuntimeError.

        Example:
            >>> import warnings
            >>> from spec_impl.function import Function
            >>> with warnings.catch_warnings(record=True) as caught:
            ...     warnings.simplefilter("always")
            ...     instance = Function()
            >>> caught[0].category.__name__
            'DeprecationWarning'
        """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise: an instance cannot be called; use ``apply`` on the class.

        Raises:
            RuntimeError: always.
        """

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the outputs.

        In the combined form the first argument is ctx, and forward also stores there what backward will need.
        In the separate form there is no ctx here, and :meth:`setup_context` stores it. Gradients are not
        recorded while forward runs.

        Args:
            *args: ctx first in the combined form; then the inputs, tensors or anything else.
            **kwargs: Inputs given by name.

        Returns:
            A tensor, anything else, or a tuple of such values.

        Raises:
            NotImplementedError: the class does not override it.

        .. clause:: Function.forward.overridden
           :party: engine
           :level: must
           :sources: K T L M "to be overridden by all subclasses"

           ``apply`` of a class without a forward of its own raises NotImplementedError.

        .. clause:: Function.forward.combined
           :party: engine
           :level: must
           :sources: K T M "followed by any number of arguments", L "def forward(ctx: Any, *args: Any"

           A class that leaves setup_context alone has its forward called with ctx, then with every argument
           of ``apply`` as it was given: any number of them, tensors or not.

        .. clause:: Function.forward.data-on-ctx
           :party: engine
           :level: must
           :sources: K T L M "can be used to store arbitrary data", T N "to pass any value from the forward"

           An attribute set on ctx while the outputs are computed has the same value in backward and in jvp.

        .. clause:: Function.forward.no-tensor-on-ctx
           :level: should
           :sources: K T L M "Tensors should not be stored directly on"

           No attribute of ctx is a tensor or holds one, however deep in a container: tensors are saved with
           save_for_backward or save_for_forward. PyTorch does not enforce it.

        .. clause:: Function.forward.frees-memory
           :level: quality
           :sources: T "to prevent incorrect gradients and memory leaks", ours

           When the outputs of a call are gone, everything the call made is gone too, without waiting for the
           garbage collector.

        .. clause:: Function.forward.deterministic
           :level: quality
           :sources: ours

           Equal inputs give equal outputs and gradients, and a call leaves the grad mode, the default dtype,
           the random number generator and the default process group as it found them.

        .. clause:: Function.forward.calls-independent
           :level: must
           :sources: K T L M "retrieve tensors saved during the forward pass"

           Calls know nothing of one another: after two forwards, each of the two backwards gives the gradient
           of its own call.

        Example:
            >>> import torch
            >>> from spec_impl.function import Function
            >>> class Power(Function):
            ...     @staticmethod
            ...     def forward(ctx, x, exponent):
            ...         ctx.save_for_backward(x)
            ...         ctx.exponent = exponent
            ...         return x**exponent
            >>> Power.apply(torch.tensor([2.0, 3.0]), 3)
            tensor([ 8., 27.])
        """

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Store on ctx what backward and jvp will need (separate form).

        Args:
            ctx: The context of this call.
            inputs: All arguments of forward.
            output: What forward returned.

        .. clause:: Function.setup_context.separate
           :party: engine
           :level: must
           :sources: L "inputs are a Tuple of inputs to the forward",
              K L M "The forward no longer accepts a ctx argument", N "override setup_context"

           A class that overrides setup_context has its forward called without ctx; afterwards setup_context
           is called once with ctx, a tuple of all inputs, and what forward returned.

        .. clause:: Function.setup_context.defaults
           :party: engine
           :level: quality
           :sources: X Extending PyTorch "some of them being optional"

           In the separate form an argument that is left at its default stands in ``inputs`` where forward's
           signature has it.

        .. clause:: Function.setup_context.keywords
           :party: engine
           :level: quality
           :sources: K L M "def forward(*args: Any, **kwargs: Any)"
           :versions: torch>=2.13

           In the separate form apply takes arguments by name, and each of them stands in ``inputs`` where
           forward's signature has it.

        Example:
            >>> import torch
            >>> from spec_impl.function import Function
            >>> class Power(Function):
            ...     @staticmethod
            ...     def forward(x, exponent):
            ...         return x**exponent
            ...
            ...     @staticmethod
            ...     def setup_context(ctx, inputs, output):
            ...         x, ctx.exponent = inputs
            ...         ctx.save_for_backward(x)
            ...
            ...     @staticmethod
            ...     def backward(ctx, grad):
            ...         (x,) = ctx.saved_tensors
            ...         return grad * ctx.exponent * x ** (ctx.exponent - 1), None
            >>> torch.func.grad(lambda x: Power.apply(x, 3))(torch.tensor(2.0))
            tensor(12.)
        """

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Turn gradients of the outputs into gradients of the inputs.

        Args:
            ctx: The context of the call.
            *grads: One value for each output of forward: a tensor of the output's shape and dtype for a
                tensor, None for anything else.

        Returns:
            One value for each input of forward, alone where there is one input: the gradient, or None.

        Raises:
            NotImplementedError: the class overrides neither backward nor :meth:`vjp`.

        .. clause:: Function.backward.overridden
           :party: engine
           :level: must
           :sources: K T L M N "to be overridden by all subclasses"

           Differentiating the result of a class with neither backward nor vjp raises NotImplementedError.

        .. clause:: Function.backward.vjp-alias
           :party: engine
           :level: must
           :sources: K L M N "Defining this function is equivalent to defining", T "alias to the vjp function"

           A class with vjp and no backward is differentiated by vjp, as if it were backward; a class with
           both is refused when it is differentiated.

        .. clause:: Function.backward.receives
           :party: engine
           :level: must
           :sources: K T L M N "None will be passed in for non tensor outputs"

           backward is called with ctx and one value for each output of forward, in order: a gradient where
           the output is a tensor, None where it is not.

        .. clause:: Function.backward.count
           :level: must
           :sources: K T L M N "as many tensors, as there were inputs"

           backward returns one value for each input of forward.

        .. clause:: Function.backward.gradient
           :level: must
           :sources: K T L M N "each returned value should be the gradient"

           The value returned at an input's place is the gradient with respect to that input.

        .. clause:: Function.backward.none-allowed
           :party: engine
           :level: may
           :sources: K T L M N "you can just pass None as a gradient"

           backward may return None for an input that is no tensor and for one that needs no gradient.

        .. clause:: Function.backward.saved-tensors
           :party: engine
           :level: must
           :sources: K T L M "can be used to retrieve tensors saved", T "saved tensors can be accessed through the"

           In backward, ``ctx.saved_tensors`` is what the forward pass saved, in the same order.

        .. clause:: Function.backward.needs-input-grad
           :party: engine
           :level: must
           :sources: K T L M "as a tuple of booleans"

           ``ctx.needs_input_grad`` is a tuple with one bool for each input, True exactly where that input
           needs a gradient.

        .. clause:: Function.backward.needs-input-grad-honoured
           :level: must
           :sources: K T L M "representing whether each input needs gradient"

           Whichever inputs need a gradient, each of them gets it, and gets the same one as when all do.

        .. clause:: Function.backward.once-differentiable
           :party: engine
           :level: quality
           :sources: X Extending PyTorch "attempts to perform double backward"

           A backward under ``once_differentiable`` gives the gradient, and differentiating that gradient
           raises.

        .. clause:: Function.backward.grads-untouched
           :level: quality
           :sources: X Extending PyTorch "NEVER to modify these in-place"

           The gradients handed to backward hold the same values after it as before.

        .. clause:: Function.backward.any-layout
           :level: quality
           :sources: ours

           Gradients that come expanded, transposed, sliced or with stride zero give the same result as
           contiguous ones.

        .. clause:: Function.backward.any-input
           :level: quality
           :sources: ours

           What forward takes backward takes too: inputs that are transposed or sliced, and those with nothing along
           the first dimension, whose gradients are empty or zero.

        .. clause:: Function.backward.double
           :level: quality
           :sources: X Extending PyTorch "higher order derivatives will work"

           Differentiating a second time is right, or raises; it never gives a wrong number silently.

        .. clause:: Function.backward.repeatable
           :level: quality
           :sources: ours

           With ``retain_graph=True`` a second backward pass gives the gradient of the first.

        .. clause:: Function.backward.unused-output
           :level: must
           :sources: T "undefined output grad tensors will be expanded", N "undefined grad tensors will be expanded"

           When only some outputs reach the loss, the gradients are still right: for the others backward is
           handed zeros, or None where it asked not to have them made.

        Example:
            >>> import torch
            >>> from spec_impl.function import Function
            >>> class Product(Function):
            ...     @staticmethod
            ...     def forward(ctx, x, y):
            ...         ctx.save_for_backward(x, y)
            ...         return x * y
            ...
            ...     @staticmethod
            ...     def backward(ctx, grad):
            ...         x, y = ctx.saved_tensors
            ...         return (
            ...             grad * y if ctx.needs_input_grad[0] else None,
            ...             grad * x if ctx.needs_input_grad[1] else None,
            ...         )
            >>> x = torch.tensor(2.0, requires_grad=True)
            >>> Product.apply(x, torch.tensor(5.0)).backward()
            >>> x.grad
            tensor(5.)
        """

    @staticmethod
    def vjp(ctx: Any, *grads: Any) -> Any:
        """The same as :meth:`backward`, under another name: override one of the two.

        What PyTorch promises about it is the clause ``Function.backward.vjp-alias``.

        Args:
            ctx: The context of the call.
            *grads: As for :meth:`backward`.

        Returns:
            As for :meth:`backward`.

        Example:
            >>> import torch
            >>> from spec_impl.function import Function
            >>> class Negate(Function):
            ...     @staticmethod
            ...     def forward(ctx, x):
            ...         return -x
            ...
            ...     @staticmethod
            ...     def vjp(ctx, grad):
            ...         return -grad
            >>> x = torch.ones((), requires_grad=True)
            >>> Negate.apply(x).backward()
            >>> x.grad
            tensor(-1.)
        """

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        """Turn tangents of the inputs into tangents of the outputs (forward-mode differentiation).

        Args:
            ctx: The context of the call.
            *tangents: One value for each input of forward: a tensor of the input's shape and dtype for a
                tensor, None for anything else.

        Returns:
            One value for each output of forward, alone where there is one output: the tangent, or None.

        Raises:
            NotImplementedError: the class does not override it.

        .. clause:: Function.jvp.overridden
           :party: engine
           :level: must
           :sources: T N "to be overridden by all subclasses"

           Forward-mode differentiation of a class without jvp raises NotImplementedError.

        .. clause:: Function.jvp.receives
           :party: engine
           :level: must
           :sources: T N "None will be passed in for non tensor inputs"

           jvp is called with ctx and one value for each input of forward, in order: a tangent where the input
           is a tensor, None where it is not.

        .. clause:: Function.jvp.count
           :level: must
           :sources: T N "as many tensors as there were outputs"

           jvp returns one value for each output of forward.

        .. clause:: Function.jvp.tangent
           :level: must
           :sources: T N "Each argument is the gradient w.r.t the given input"

           The value returned at an output's place is the derivative of that output in the direction of the
           tangents, and agrees with backward: both are products with one Jacobian.

        .. clause:: Function.jvp.none-allowed
           :party: engine
           :level: may
           :sources: T N "not differentiable with respect to that output"

           jvp may return None for an output that is no tensor and for one that is not differentiable.

        Example:
            >>> import torch
            >>> import torch.autograd.forward_ad as fwd
            >>> from spec_impl.function import Function
            >>> class Square(Function):
            ...     @staticmethod
            ...     def forward(ctx, x):
            ...         ctx.save_for_forward(x)
            ...         return x * x
            ...
            ...     @staticmethod
            ...     def jvp(ctx, tangent):
            ...         (x,) = ctx.saved_tensors
            ...         return 2 * x * tangent
            >>> with fwd.dual_level():
            ...     y = Square.apply(fwd.make_dual(torch.tensor(3.0), torch.tensor(1.0)))
            ...     fwd.unpack_dual(y).tangent
            tensor(6.)
        """

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> Any:
        """Compute a whole batch at once under :func:`torch.vmap`.

        Override it, or set ``generate_vmap_rule = True`` on the class; not both.

        Args:
            info: ``info.batch_size`` is the size of the mapped dimension, ``info.randomness`` the option
                given to
                :func:`torch.vmap`.
            in_dims: For each argument the dimension that is mapped, or None.
            *args: The arguments of forward, tensors with the mapped dimension in them.

        Returns:
            ``(output, out_dims)``: for each output, where its mapped dimension is, or None.

        Raises:
            NotImplementedError: the class does not override it, and asked for no rule.

        .. clause:: Function.vmap.required
           :party: engine
           :level: must
           :sources: N "you must either override this static method"

           Under torch.vmap a class that neither overrides vmap nor sets generate_vmap_rule raises.

        .. clause:: Function.vmap.not-both
           :level: must
           :sources: N "(you may not do both)"

           A class overrides vmap or sets generate_vmap_rule, never both.

        .. clause:: Function.vmap.both-refused
           :party: engine
           :level: must
           :sources: N "(you may not do both)"

           A class that overrides vmap and also sets generate_vmap_rule raises under torch.vmap.

        .. clause:: Function.vmap.generated
           :party: engine
           :level: must
           :sources: N "or set generate_vmap_rule to True"

           With generate_vmap_rule set, a class made of PyTorch operations works under torch.vmap without a
           vmap of its own: its forward, its backward and its jvp.

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

           ``in_dims`` has one entry for each argument: the index of its mapped dimension, or None where it is
           not mapped or no tensor.

        .. clause:: Function.vmap.args
           :party: engine
           :level: must
           :sources: N "which is the same as the args to forward()"

           After info and in_dims, vmap gets the arguments of forward in the same order, tensors whole, with
           the mapped dimension still in them.

        .. clause:: Function.vmap.out-dims
           :level: must
           :sources: N "out_dims should be of the same structure as output"

           vmap returns a pair of the output and out_dims, and out_dims has the structure of the output.

        .. clause:: Function.vmap.out-dims-honoured
           :party: engine
           :level: must
           :sources: N "specifies if the output has the vmapped dimension"

           The result of torch.vmap is batched along the dimension that out_dims names for each output, and an
           output whose out_dim is None counts as the same for every sample.

        .. clause:: Function.vmap.batched
           :level: must
           :sources: N "Define the behavior for this autograd.Function underneath torch.vmap()"

           For every choice of in_dims the result equals calling the Function sample by sample, and it goes on
           to do so under grad, jvp and a second vmap.

        Example:
            >>> import torch
            >>> from spec_impl.function import Function
            >>> class Double(Function):
            ...     @staticmethod
            ...     def forward(x):
            ...         return 2 * x
            ...
            ...     @staticmethod
            ...     def setup_context(ctx, inputs, output):
            ...         pass
            ...
            ...     @staticmethod
            ...     def vmap(info, in_dims, x):
            ...         return Double.apply(x), in_dims[0]
            >>> torch.vmap(Double.apply)(torch.arange(3))
            tensor([0, 2, 4])
        """

    def save_for_backward(self, *tensors: torch.Tensor | None) -> None:
        """Keep tensors for :meth:`backward` (a method of ctx).

        Args:
            *tensors: Inputs, outputs or intermediate tensors; None keeps its place.

        .. clause:: Function.save_for_backward.once
           :level: should
           :sources: T "should be called at most once"

           A call of forward, with its setup_context, calls save_for_backward at most once.

        .. clause:: Function.save_for_backward.where
           :level: should
           :sources: T "only from inside the"

           save_for_backward is called from forward or setup_context and from nowhere else.

        .. clause:: Function.save_for_backward.only-tensors
           :level: must
           :sources: T "and only with tensors"

           Every argument of save_for_backward is a tensor or None.

        .. clause:: Function.save_for_backward.none
           :party: engine
           :level: may
           :sources: T "Arguments can also be None"

           None may be saved, and comes back as None at its place.

        .. clause:: Function.save_for_backward.in-place-check
           :party: engine
           :level: must
           :sources: T "in any in-place operation that modified their content"

           When a saved tensor was changed in place after it was saved, reading ``ctx.saved_tensors`` raises.

        .. clause:: Function.save_for_backward.no-leak
           :party: engine
           :level: must
           :sources: T "to prevent incorrect gradients and memory leaks"

           Saving an input, an output or an intermediate tensor makes no cycle: when the results are gone, or
           after a backward pass that does not retain the graph, what was saved is freed.

        .. clause:: Function.save_for_backward.hooks
           :party: engine
           :level: must
           :sources: T "enable the application of saved tensor hooks"

           Under ``torch.autograd.graph.saved_tensors_hooks`` pack is called with every saved tensor, and what
           unpack returns is what backward gets.

        .. clause:: Function.save_for_backward.hooks-suffice
           :level: should
           :sources: T "should be saved with save_for_backward"

           Gradients are right when saved-tensor hooks carry every saved tensor away and bring a copy back:
           nothing that backward reads was kept some other way.

        Example:
            >>> import torch
            >>> from spec_impl.function import Function
            >>> class Sine(Function):
            ...     @staticmethod
            ...     def forward(ctx, x):
            ...         ctx.save_for_backward(x, None)
            ...         return x.sin()
            >>> y = Sine.apply(torch.zeros(1, requires_grad=True))
            >>> y.grad_fn.saved_tensors
            (tensor([0.], requires_grad=True), None)
        """

    def save_for_forward(self, *tensors: torch.Tensor | None) -> None:
        """Keep tensors for :meth:`jvp` (a method of ctx).

        Args:
            *tensors: As for :meth:`save_for_backward`.

        .. clause:: Function.save_for_forward.once
           :level: should
           :sources: T "should be only called once", N "should be called at most once"

           A call of forward, with its setup_context, calls save_for_forward at most once.

        .. clause:: Function.save_for_forward.where
           :level: should
           :sources: T "only called once, from inside the", N "in either the setup_context() or forward() methods"

           save_for_forward is called from forward or setup_context and from nowhere else.

        .. clause:: Function.save_for_forward.only-tensors
           :party: engine
           :level: must
           :sources: T "only be called with tensors", N "all arguments should be tensors"

           save_for_forward refuses an argument that is neither a tensor nor None.

        .. clause:: Function.save_for_forward.none
           :party: engine
           :level: may
           :sources: T N "Arguments can also be None"

           None may be saved for jvp, and comes back as None at its place.

        .. clause:: Function.save_for_forward.saved-tensors
           :party: engine
           :level: must
           :sources: T N "saved objects can be accessed through"

           In jvp, ``ctx.saved_tensors`` is what was given to save_for_forward, in the same order.

        Example:
            >>> import torch
            >>> from spec_impl.function import Function
            >>> class Cube(Function):
            ...     @staticmethod
            ...     def forward(x):
            ...         return x**3
            ...
            ...     @staticmethod
            ...     def setup_context(ctx, inputs, output):
            ...         ctx.save_for_forward(*inputs)
            ...
            ...     @staticmethod
            ...     def jvp(ctx, tangent):
            ...         (x,) = ctx.saved_tensors
            ...         return 3 * x**2 * tangent
            >>> torch.func.jvp(Cube.apply, (torch.tensor(2.0),), (torch.tensor(1.0),))
            (tensor(8.), tensor(12.))
        """

    def mark_dirty(self, *args: torch.Tensor) -> None:
        """Say which inputs forward changes in place (a method of ctx).

        Args:
            *args: Inputs of forward; each is also returned.

        .. clause:: Function.mark_dirty.once
           :level: should
           :sources: T "should be called at most once, only from inside"

           A call calls mark_dirty at most once, from forward or setup_context.

        .. clause:: Function.mark_dirty.only-inputs
           :level: must
           :sources: T "all arguments should be inputs"

           Every argument of mark_dirty is an input of forward, and forward returns it.

        .. clause:: Function.mark_dirty.complete
           :level: must
           :sources: T "should be given to this function"

           Every input that forward changes in place is given to mark_dirty.

        .. clause:: Function.mark_dirty.before-or-after
           :party: engine
           :level: must
           :sources: T "is called before or after modification"

           Marking before the change and marking after it give the same results and gradients.

        .. clause:: Function.mark_dirty.protects
           :party: engine
           :level: must
           :sources: T "has been modified by an inplace operation"

           Where an earlier operation needs the overwritten value for its gradient, its backward raises rather
           than use the new value.

        Example:
            >>> import torch
            >>> from spec_impl.function import Function
            >>> class AddOne(Function):
            ...     @staticmethod
            ...     def forward(ctx, x):
            ...         ctx.mark_dirty(x)
            ...         return x.add_(1)
            ...
            ...     @staticmethod
            ...     def backward(ctx, grad):
            ...         return grad
            >>> a = torch.ones(1, requires_grad=True).clone()
            >>> AddOne.apply(a) is a
            True
        """

    def mark_non_differentiable(self, *args: torch.Tensor) -> None:
        """Say which outputs have no derivative (a method of ctx).

        Args:
            *args: Tensors that forward returns.

        .. clause:: Function.mark_non_differentiable.once
           :level: should
           :sources: T "should be called at most once, only from inside"

           A call calls mark_non_differentiable at most once, from forward or setup_context.

        .. clause:: Function.mark_non_differentiable.only-outputs
           :level: must
           :sources: T "all arguments should be tensor outputs"

           Every argument of mark_non_differentiable is a tensor that forward returns.

        .. clause:: Function.mark_non_differentiable.no-grad
           :party: engine
           :level: must
           :sources: T "will mark outputs as not requiring gradients"

           A marked output does not require grad, whatever the inputs do.

        .. clause:: Function.mark_non_differentiable.zero-gradient
           :party: engine
           :level: must
           :sources: T "always going to be a zero tensor"

           backward has an argument for a marked output all the same: zeros of that output's shape.

        Example:
            >>> import torch
            >>> from spec_impl.function import Function
            >>> class Sort(Function):
            ...     @staticmethod
            ...     def forward(ctx, x):
            ...         values, order = x.sort()
            ...         ctx.mark_non_differentiable(order)
            ...         ctx.save_for_backward(order)
            ...         return values, order
            ...
            ...     @staticmethod
            ...     def backward(ctx, grad, zeros):
            ...         (order,) = ctx.saved_tensors
            ...         return torch.zeros_like(grad).index_add(0, order, grad)
            >>> values, order = Sort.apply(torch.tensor([3.0, 1.0], requires_grad=True))
            >>> values.requires_grad, order.requires_grad
            (True, False)
        """

    def set_materialize_grads(self, value: bool) -> None:
        """Choose what stands for a gradient that nobody computed: zeros, or None (a method of ctx).

        Args:
            value: True for zeros, which is the default.

        .. clause:: Function.set_materialize_grads.default
           :party: engine
           :level: must
           :sources: T N "Default is True"

           A class that never calls set_materialize_grads is treated as if it had asked for True.

        .. clause:: Function.set_materialize_grads.where
           :level: should
           :sources: T "should be called only from inside the", N "should be called only from either the"

           set_materialize_grads is called from forward or setup_context and from nowhere else.

        .. clause:: Function.set_materialize_grads.zeros
           :party: engine
           :level: must
           :sources: T "will be expanded to tensors full of zeros",
              N "prior to calling the backward() and jvp() methods"

           With True, the gradient of an output that no loss used reaches backward as zeros of the output's
           shape, and the tangent of an input that has none reaches jvp as zeros of the input's shape.

        .. clause:: Function.set_materialize_grads.none
           :party: engine
           :level: must
           :sources: T N "We must check for None now"

           With False, they arrive as None.

        Example:
            >>> import torch
            >>> from spec_impl.function import Function
            >>> class Twins(Function):
            ...     @staticmethod
            ...     def forward(ctx, x):
            ...         ctx.set_materialize_grads(False)
            ...         return x.clone(), x.clone()
            ...
            ...     @staticmethod
            ...     def backward(ctx, first, second):
            ...         return first if second is None else second
            >>> x = torch.ones(1, requires_grad=True)
            >>> Twins.apply(x)[0].backward()
            >>> x.grad
            tensor([1.])
        """


def _leave_it_to_torch() -> None:
    """Take the members written above off the class again, so that what runs is PyTorch's own.

    They cannot stay: to override ``setup_context`` is to choose the separate form, and to override
    ``backward`` and ``vjp`` at once is refused.
    """
    for name, member in list(vars(Function).items()):
        if isinstance(member, FunctionType | staticmethod):
            delattr(Function, name)


_leave_it_to_torch()
