"""Short scripts that show one broken clause with torch alone, for clauses that a few lines can show."""

from __future__ import annotations

COMMON = '''

def fresh(args):
    """Copies of the arguments; where no tensor requires grad, all floating-point ones do."""
    smooth = [arg for arg in args if isinstance(arg, torch.Tensor) and (arg.is_floating_point() or arg.is_complex())]
    wanted = [arg for arg in smooth if arg.requires_grad] or smooth
    return tuple(
        arg.detach().clone().requires_grad_(any(arg is one for one in wanted)) if isinstance(arg, torch.Tensor) else arg
        for arg in args
    )


def call(*args):
    """Call it with copies, since it may change its arguments in place."""
    return Function.apply(*(arg.clone() if isinstance(arg, torch.Tensor) else arg for arg in args))


def results(output):
    """The tensors of the result that can be differentiated."""
    every = output if isinstance(output, (tuple, list)) else [output]
    return [one for one in every if isinstance(one, torch.Tensor) and one.requires_grad]


'''
TRY = """wrong = False
for args in samples():
    args = fresh(args)
"""
LEAVES = "    leaves = [arg for arg in args if isinstance(arg, torch.Tensor) and arg.requires_grad]\n"
OUTPUTS = """    outputs = results(call(*args))
    if not outputs:
        continue
"""
DONE = "sys.exit(wrong)\n"

CHECK = (
    TRY
    + """    try:
        {call}
    except (GradcheckError, {also}) as error:
        print(error)
        wrong = True
"""
)

#: By clause: the body of the script, from its samples to its end.
SINGLE = {
    "Function.backward.gradient": CHECK.format(
        call="torch.autograd.gradcheck(call, args, check_undefined_grad=False)", also="RuntimeError"
    ),
    "Function.backward.double": TRY
    + """    try:
        torch.autograd.gradgradcheck(call, args)
    except GradcheckError as error:
        print(error)
        wrong = True
    except RuntimeError as error:
        print(f"differentiating twice is refused, which is in order: {error}")
""",
    "Function.jvp.tangent": CHECK.format(
        call="torch.autograd.gradcheck(call, args, check_forward_ad=True, check_backward_ad=False)", also="RuntimeError"
    ),
    "Function.backward.count": '''original = Function.backward
returned = []


def watched(ctx, *grads):
    """Take down what backward returns."""
    values = original(ctx, *grads)
    returned.append(values if isinstance(values, tuple) else (values,))
    return values


Function.backward = staticmethod(watched)
'''
    + TRY
    + LEAVES
    + OUTPUTS
    + """    try:
        torch.autograd.grad(outputs, leaves, [torch.ones_like(output) for output in outputs], allow_unused=True)
    except RuntimeError as error:
        print(error)
    for values in returned:
        while len(values) > len(args) and values[-1] is None:
            values = values[:-1]  # None too many is ignored
        if len(values) != len(args):
            print(f"backward returned {len(values)} values; forward had {len(args)} inputs")
            wrong = True
    returned.clear()
""",
    "Function.backward.grads-untouched": TRY
    + LEAVES
    + OUTPUTS
    + """    grads = [torch.randn_like(output) for output in outputs]
    before = [grad.clone() for grad in grads]
    torch.autograd.grad(outputs, leaves, grads, allow_unused=True)
    for index, (grad, old) in enumerate(zip(grads, before)):
        if not torch.equal(grad, old):
            print(f"gradient of output {index}: handed in as {old.tolist()}, after backward it is {grad.tolist()}")
            wrong = True
""",
    "Function.backward.any-layout": TRY
    + LEAVES
    + """    for name, laid_out in LAYOUTS.items():
        outputs = results(call(*args))
        if not outputs:
            continue
        grads = [laid_out(torch.randn_like(output)) for output in outputs]
        plain = [grad.clone(memory_format=torch.contiguous_format) for grad in grads]
        right = torch.autograd.grad(outputs, leaves, plain, allow_unused=True)
        try:
            actual = torch.autograd.grad(results(call(*args)), leaves, grads, allow_unused=True)
        except RuntimeError as error:
            print(f"with a gradient that is {name}: {error}")
            wrong = True
            continue
        for index, (one, other) in enumerate(zip(actual, right)):
            if one is not None and not torch.allclose(one, other):
                print(f"input {index}, with a gradient that is {name}: {one.tolist()}; contiguous: {other.tolist()}")
                wrong = True
""",
    "Function.forward.no-tensor-on-ctx": TRY
    + OUTPUTS
    + """    for name, value in vars(outputs[0].grad_fn).items():
        held = value if isinstance(value, (tuple, list)) else value.values() if isinstance(value, dict) else [value]
        if any(isinstance(one, torch.Tensor) for one in held):
            print(f"ctx.{name} holds a tensor: it belongs into ctx.save_for_backward")
            wrong = True
""",
    "Function.vmap.batched": TRY
    + """    mapped = [isinstance(arg, torch.Tensor) for arg in args]
    pairs = zip(args, mapped)
    batch = [torch.stack([arg.detach(), 2 * arg.detach()]) if is_tensor else arg for arg, is_tensor in pairs]
    single = [[arg[row] if is_tensor else arg for arg, is_tensor in zip(batch, mapped)] for row in range(2)]
    right = [call(*one) for one in single]
    actual = torch.vmap(call, in_dims=tuple(0 if is_tensor else None for is_tensor in mapped))(*batch)
    pairs = zip(*right) if isinstance(actual, tuple) else [right]
    for index, (one, rows) in enumerate(zip(actual if isinstance(actual, tuple) else (actual,), pairs)):
        if one.shape != torch.stack(list(rows)).shape or not torch.allclose(one, torch.stack(list(rows))):
            print(f"output {index} under vmap: {one.tolist()}; sample by sample: {torch.stack(list(rows)).tolist()}")
            wrong = True
""",
}
LAYOUTS = """LAYOUTS = {
    "expanded": lambda grad: torch.ones((), dtype=grad.dtype).expand(grad.shape),
    "transposed": lambda grad: grad.clone().transpose(0, -1).contiguous().transpose(0, -1) if grad.dim() else grad,
    "every other element of a larger one": lambda grad: torch.stack([grad, grad], -1)[..., 0],
}
"""

_GATHER = '''SIZE = {size}


def main(rank, folder, wrong):
    """One rank: its loss weighs the entry of rank s with 10 * rank + s + 1."""
    dist.init_process_group("gloo", init_method=f"file://{{folder}}/store", rank=rank, world_size=SIZE)
    x = (torch.arange(3.0, dtype=torch.float64) + rank).requires_grad_()
    {call}
    loss = sum((10 * rank + s + 1) * entry.sum() for s, entry in enumerate(entries))
    (gradient,) = torch.autograd.grad(loss, x)
    right = torch.full_like(x, {right})
    print(f"rank {{rank}} of {{SIZE}}: gradient {{gradient.tolist()}}, {what} {{right.tolist()}}", flush=True)
    wrong[rank] = int(not torch.allclose(gradient, right))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo" if sys.platform == "linux" else "lo0")
    wrong = mp.get_context("spawn").Array("i", SIZE)
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(main, args=(folder, wrong), nprocs=SIZE)
    sys.exit(any(wrong))
'''


def gather(clause: str, size: int) -> str:
    """A script's body for the gradient of a gather on several ranks; empty for other clauses."""
    if clause == "AllGatherGradAutograd.backward.sum":
        return _GATHER.format(
            size=size,
            call="entries = Function.apply(x)",
            right="float(sum(10 * r + rank + 1 for r in range(SIZE)))",
            what="the sum over all ranks is",
        )
    if clause == "AllGather.backward.local-slice":
        return _GATHER.format(
            size=size,
            call="entries = Function.apply(x, types.SimpleNamespace(world_size=SIZE, local_rank=rank)).chunk(SIZE)",
            right="float(10 * rank + rank + 1)",
            what="this rank's own rows have",
        )
    return ""


def single(clause: str) -> str:
    """A script's body for a clause of the contract on one rank; empty for those that take more than a few lines."""
    body = SINGLE.get(clause, "")
    if not body:
        return ""
    layouts = LAYOUTS + "\n" if "LAYOUTS" in body else ""
    return f"{COMMON}{layouts}torch.manual_seed(0)\n{body}{DONE}"
