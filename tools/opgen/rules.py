"""What rows say of dtypes, shapes and kernels, as C++ expressions."""

from tools.opgen.op import Op
from tools.opgen.template import addresses

# Rules of ops/runtime.h; others are hand-written functions of all arguments.
DTYPES = "same float bool int64 accumulate real promote".split()


def dtype(op: Op, out: str) -> str:
    """The dtype of an output of a reduce or structured row."""
    rule = op.row.dtype_of(out)
    if rule not in DTYPES:
        return f"{rule}({op.call})"
    found = f"{rule}_dtype({addresses(op.tensors)})"
    return f"dtype.value_or({found})" if op.arg("dtype") else found


def shape(op: Op, out: str) -> str:
    rule = op.row.shape[out] if isinstance(op.row.shape, dict) else op.row.shape
    if rule.startswith("same("):
        return f"{rule[5:-1]}.sizes()"
    if rule == "broadcast":
        return f'broadcast_sizes("{op.name}", {addresses(op.tensors)})'
    return f"{rule}({op.call})"


def reduction(op: Op) -> str:
    dims = "dim_list(dim)" if op.arg("dim") else "std::nullopt"
    keepdim = "keepdim" if op.arg("keepdim") else "false"
    dtypes = ", ".join(dtype(op, o) for o in op.outs)
    function = "reduce_two" if len(op.outs) == 2 else "reduce_one"
    body = f"ReduceOp::{op.row.body}"
    return f'{function}("{op.name}", {body}, self, {dims}, {keepdim}, {dtypes})'


def device_check(op: Op) -> str:
    """The statement that finds the device of a structured row's outputs."""
    found = f'one_device("{op.name}", {addresses(op.tensors)})'
    if all(a.optional for a in op.args if a.is_tensor):
        found = f'list_device("{op.name}", {next(a.name for a in op.args if a.is_list)})'
    return f"{found};" if op.row.base else f"Device device = {found};"


def structured(op: Op) -> str:
    """Outputs by shape rule, which the kernel only fills."""
    made = [f"new_tensor({shape(op, o)}, {dtype(op, o)}, device)" for o in op.outs]
    if op.row.base:
        made = [f"base_copy({op.row.base}, {shape(op, o)})" for o in op.outs]
    outputs = made[0] if len(made) == 1 else "std::tuple{\n      " + ",\n      ".join(made) + "}"
    params = ", ".join(f"Tensor& {o}" for o in op.targets)
    return f"filled({outputs}, [&]({params}) {{ {kernel_call(op, op.targets)}; }})"


def kernel_call(op: Op, outs: list[str]) -> str:
    dense = (op.row.layout or "contiguous") == "contiguous"
    args = [a for a in op.args if a.name != op.row.base]
    given = [f"dense({a.name})" if a.is_tensor and dense else a.name for a in args]
    return f"{op.row.kernel}({', '.join(outs + given)})"


def hand_written(op: Op) -> list[str]:
    """What the functions that a row names must look like."""
    row, params = op.row, op.params()
    if row.kind == "view":
        kind = "std::vector<Geometry>" if op.is_list else "Geometry"
        return [f"{kind} {row.impl}({params});"]
    if row.kind != "structured":
        result = "Tensor&" if op.mutates else op.result
        return [f"{result} {row.impl}({params});"] if row.impl else []
    given = [f"Tensor& {o}" for o in op.targets]
    given += [f"{a.cpp} {a.name}" for a in op.args if a.name != row.base]
    lines = [f"void {row.kernel}({', '.join(given)});"]
    for out in op.outs:
        for kind, use in (("Ints", shape(op, out)), ("DType", dtype(op, out))):
            if use.endswith(f"({op.call})"):
                lines.append(f"{kind} {use.removesuffix(f'({op.call})')}({params});")
    return lines
