"""List what PyTorch's names do to tensors, as far as a scan needs it; torch is never imported here.

A missing name costs a finding, a wrong name makes a false accusation: the lists have only the clear cases.
"""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ELEMENTWISE = _words(
    "abs acos acosh add addcdiv addcmul angle asin asinh atan atan2 atanh baddbmm bernoulli bitwise_and "
    "bitwise_not bitwise_or bitwise_xor bmm addmm addmv addbmm ceil clamp clip clone cos cosh cross "
    "cumprod cumsum deg2rad digamma div divide dot eq erf erfc erfinv exp exp2 expm1 floor floor_divide "
    "fmod frac gather ge gt heaviside index_add index_copy index_fill index_select inverse isfinite "
    "isinf isnan kron le lerp lgamma log log10 log1p log2 log_softmax logaddexp logical_and logical_not "
    "logical_or logical_xor logsumexp lt masked_fill masked_scatter masked_select matmul maximum "
    "minimum mm mul multinomial multiply mv nan_to_num ne neg negative nonzero norm outer pow prod "
    "reciprocal relu remainder repeat_interleave roll round rsqrt scatter scatter_add sigmoid sign sin "
    "sinc sinh softmax sqrt square std sub subtract sum take tan tanh trace tril triu trunc var mean "
    "argmax argmin argsort flip rot90 renorm rsub true_divide hypot"
)

#: ``torch.X(...)`` gives one new tensor.
MAKERS = _ELEMENTWISE | _words(
    "arange bincount cat concat concatenate diag diag_embed einsum empty empty_like "
    "empty_strided eye from_numpy full full_like hstack vstack dstack linspace logspace normal ones "
    "ones_like polar complex rand rand_like randint randint_like randn randn_like randperm stack tensor "
    "tensordot where zeros zeros_like cdist bucketize searchsorted one_hot gelu silu leaky_relu elu "
    "softplus normalize linear conv1d conv2d conv3d layer_norm pad"
)

#: ``torch.X(x, y)``, of which one may be a number: seldom the first, or by its documentation either.
SELDOM_NUMBERS = _words("add addmm div divide floor_divide mul multiply sub subtract true_divide")
OF_EITHER = SELDOM_NUMBERS | _words("pow remainder bitwise_and bitwise_or bitwise_xor bucketize")

#: ``torch.X(x, ...)``, whose ``x`` must be a tensor.
OF_TENSORS = (_ELEMENTWISE - OF_EITHER) | _words(
    "bincount cdist complex conv1d conv2d conv3d diag diag_embed elu empty_like full_like gelu layer_norm leaky_relu "
    "linear normalize one_hot ones_like pad polar rand_like randint_like randn_like searchsorted silu softplus "
    "tensordot where zeros_like"
)

#: These take a tensor's shape, or give masks, indices and steps: no gradient flows through them.
FLAT = _words(
    "zeros_like ones_like empty_like full_like rand_like randn_like randint_like new_empty new_zeros new_ones "
    "new_full new_tensor eq ne gt ge lt le isnan isinf isfinite argmax argmin argsort nonzero sign floor ceil "
    "round logical_and logical_or logical_not logical_xor bincount bucketize searchsorted one_hot bernoulli multinomial"
)

#: ``x.m(...)`` gives one new tensor, and only tensors have it.
FRESH_METHODS = (_ELEMENTWISE - _words("add index_add take round index_fill trace")) | _words(
    "new_empty new_zeros new_ones new_full new_tensor repeat add amax amin"
)

#: ``x.m(...)`` (and ``torch.m(x, ...)``) gives a tensor in the same memory.
VIEW_METHODS = _words(
    "view view_as t transpose permute squeeze unsqueeze expand expand_as narrow select diagonal movedim "
    "swapaxes swapdims unfold as_strided unflatten view_as_real view_as_complex adjoint moveaxis broadcast_to"
)

#: Gives a tensor that may or may not be in the same memory.
MAYBE_METHODS = _words(
    "contiguous reshape reshape_as flatten ravel to float half double bfloat16 type_as cuda cpu long "
    "int bool type conj resolve_conj"
)

#: The same for functions ``torch.m(x, ...)`` that are not methods of a tensor.
MAYBE_FUNCTIONS = _words("as_tensor asarray")

#: Methods that other objects have too, so that they prove no tensor. Of strings, containers, arrays, sizes:
SHARED_METHODS = _words(
    "add sum mean max min round index_fill to type view select pow prod std var clone norm cpu cuda copy int bool "
    "split transpose reshape ravel flatten repeat squeeze dot clip conj argmax argmin argsort cumsum cumprod diagonal "
    "nonzero swapaxes numel trace take "
    # and of modules, storages and process groups.
    "half float double bfloat16 long element_size gather scatter"
)
#: The largest or smallest values of a tensor.
EXTREMES = _words("amax amin max min")
#: Only tensors' methods take these.
TENSOR_KEYWORDS = _words("dim keepdim")

#: Gives a tuple or list of tensors in the same memory.
SPLITTERS = _words("split chunk unbind tensor_split hsplit vsplit dsplit split_with_sizes")

#: ``torch.m(x, y, ...)`` gives a tuple with a view of each.
VIEWS_OF_EACH = _words("broadcast_tensors")

#: Gives no tensor, and nothing that a gradient flows through.
PLAIN_METHODS = _words(
    "size dim numel nelement ndimension stride storage_offset item tolist is_contiguous "
    "is_floating_point is_complex get_device element_size data_ptr has_names is_signed is_shared "
    "is_pinned format keys startswith endswith untyped_storage storage"
)

PLAIN_ATTRIBUTES = _words(
    "shape dtype device layout ndim is_cuda is_sparse is_quantized requires_grad is_leaf grad_fn "
    "itemsize nbytes _version names needs_input_grad _base is_meta is_cpu"
)

VIEW_ATTRIBUTES = _words("T mT H mH real imag")

#: These end with an underscore and leave the values alone: they change a tensor object, not shared memory.
NOT_IN_PLACE = _words(
    "requires_grad_ share_memory_ rename_ names_ retain_grad_ pin_memory_ _coalesced_ set_ resize_ "
    "resize_as_ detach_ t_ transpose_ squeeze_ unsqueeze_ swapaxes_ swapdims_ as_strided_ "
    "sparse_resize_"
)

#: Classes of which no tensor is an instance.
NO_TENSORS = _words(
    "int float complex bool str bytes list tuple dict set frozenset range slice Number Real Integral ndarray Size "
    "dtype device Module ProcessGroup Generator Enum Path Callable"
)

PLAIN_BUILTINS = _words("len int float bool str isinstance hasattr callable id type repr range issubclass hash print")

#: ``torch.distributed.X`` changes its first argument on at least one rank.
COLLECTIVES_IN_PLACE = _words(
    "all_reduce broadcast reduce recv all_gather all_gather_into_tensor _all_gather_base reduce_scatter "
    "reduce_scatter_tensor _reduce_scatter_base all_to_all all_to_all_single scatter irecv "
    "all_reduce_coalesced"
)
#: These take a list there, and a list is not an input of forward that could be marked.
INTO_LISTS = _words("all_gather all_to_all")
#: These receive from another rank what was never part of this rank's graph.
RECEIVERS = _words("recv irecv")
COLLECTIVE_KEYWORDS = _words("tensor output_tensor output tensor_list output_list output_tensor_list")

#: These add up, so that handing the gradient through may be all that backward has to do.
REDUCTIONS = _words("all_reduce reduce all_reduce_coalesced")

#: Functions of torch.distributed that exchange tensors' values between ranks.
COLLECTIVES = COLLECTIVES_IN_PLACE | _words("gather all_gather_coalesced send isend batch_isend_irecv")
