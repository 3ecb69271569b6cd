"""torch.einsum: sums of products in Einstein's notation, as permutations and batched products."""

from flambeau import _C

_VF = _C._VariableFunctions
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def _from_sublists(args):
    """einsum(a, [0, 1], b, [1, 2], [0, 2]) as an equation."""
    operands, terms = list(args[0::2]), list(args[1::2])
    output = None
    if len(args) % 2:
        output = operands.pop()

    def text(sublist):
        return "".join("..." if s is Ellipsis else _LETTERS[s] for s in sublist)

    equation = ",".join(map(text, terms))
    return equation + ("" if output is None else "->" + text(output)), operands


def _fail(message):
    raise RuntimeError("einsum: " + message)


def _labels(term, operand, index):
    """One label a dim; the dims of an ellipsis are numbered from the right: -1 is the last."""
    head, dots, tail = term.partition("...")
    names = len(head) + len(tail)
    for c in head + tail:
        if c not in _LETTERS:
            _fail(f"labels must be letters, got {c!r} in {term!r}")
    if not dots and names != operand.dim() or names > operand.dim():
        _fail(f"operand {index} has {operand.dim()} dims, its term {term!r} names {names}")
    return list(head) + list(range(names - operand.dim(), 0)) + list(tail)


def _diagonals(operand, labels):
    """Repeated labels of one operand: their diagonal."""
    for label in sorted(set(labels), key=str):
        while labels.count(label) > 1:
            i = labels.index(label)
            j = labels.index(label, i + 1)
            if operand.shape[i] != operand.shape[j]:
                _fail(
                    f"sizes of the repeated label {label!r} must match, got {tuple(operand.shape)}"
                )
            operand = operand.diagonal(0, i, j)
            del labels[j], labels[i]
            labels.append(label)
    return operand, labels


def _output(equation, terms):
    """The labels of the result: given, or those that occur once, in order of the alphabet."""
    ellipsis = sorted({label for labels in terms for label in labels if isinstance(label, int)})
    if "->" in equation:
        head, dots, tail = equation.split("->", 1)[1].partition("...")
        output = list(head) + (ellipsis if dots else []) + list(tail)
    else:
        every = [label for labels in terms for label in labels if isinstance(label, str)]
        output = ellipsis + sorted(label for label in set(every) if every.count(label) == 1)
    known = {label for labels in terms for label in labels}
    for label in output:
        if label not in known:
            _fail(f"output label {label!r} is in no operand")
        if output.count(label) > 1:
            _fail(f"output label {label!r} occurs twice")
    return output


def _sum_out(operand, labels, keep):
    dims = [i for i, label in enumerate(labels) if label not in keep]
    if dims:
        operand = operand.sum(dims)
    return operand, [label for label in labels if label in keep]


def _arranged(operand, labels, order, sizes):
    """The operand with its dims in `order`, of the full sizes where it has one element."""
    operand = operand.permute([labels.index(label) for label in order])
    return operand.expand([sizes[label] for label in order])


def _pair(a, a_labels, b, b_labels, keep, sizes):
    """Contracts two operands; labels in `keep` are still needed."""
    a, a_labels = _sum_out(a, a_labels, keep | set(b_labels))
    b, b_labels = _sum_out(b, b_labels, keep | set(a_labels))
    shared = [label for label in a_labels if label in b_labels]
    batch = [label for label in shared if label in keep]
    inner = [label for label in shared if label not in keep]
    left = [label for label in a_labels if label not in shared]
    right = [label for label in b_labels if label not in shared]
    if not inner:  # nothing to sum: a broadcast product
        order = batch + left + right
        a = a.permute([a_labels.index(x) for x in batch + left]).reshape(
            [a.shape[a_labels.index(x)] for x in batch + left] + [1] * len(right)
        )
        b = b.permute([b_labels.index(x) for x in batch + right]).reshape(
            [b.shape[b_labels.index(x)] for x in batch]
            + [1] * len(left)
            + [b.shape[b_labels.index(x)] for x in right]
        )
        return a * b, order
    a = _arranged(a, a_labels, batch + left + inner, sizes)
    b = _arranged(b, b_labels, batch + inner + right, sizes)
    count = {"batch": batch, "left": left, "inner": inner, "right": right}
    n = {name: _total(labels, sizes) for name, labels in count.items()}
    product = _VF.bmm(
        a.reshape(n["batch"], n["left"], n["inner"]), b.reshape(n["batch"], n["inner"], n["right"])
    )
    order = batch + left + right
    return product.reshape([sizes[label] for label in order]), order


def _total(labels, sizes):
    total = 1
    for label in labels:
        total *= sizes[label]
    return total


def _sizes(operands, terms):
    sizes = {}
    for operand, labels in zip(operands, terms):
        for size, label in zip(operand.shape, labels):
            known = sizes.setdefault(label, size)
            if size != 1 and known not in (1, size):
                _fail(f"sizes of label {label!r} must match or be 1, got {known} and {size}")
            if known == 1:
                sizes[label] = size
    return sizes


def einsum(*args):
    """Sums of products in Einstein's notation: einsum("ij,jk->ik", a, b) is a @ b.

    Labels that the output does not name are summed; "..." stands for any leading dims.
    """
    if not args:
        raise ValueError("einsum: needs an equation and its operands")
    if not isinstance(args[0], str):
        equation, operands = _from_sublists(args)
    else:
        equation, operands = args[0], list(args[1:])
        if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
            operands = list(operands[0])
    equation = equation.replace(" ", "")
    names = equation.split("->", 1)[0].split(",")
    if not operands:
        raise ValueError("einsum: needs at least one operand")
    if len(names) != len(operands):
        _fail(f"the equation has {len(names)} terms for {len(operands)} operands")
    terms = [_labels(n, t, i) for i, (n, t) in enumerate(zip(names, operands))]
    output = _output(equation, terms)
    for i, (operand, labels) in enumerate(zip(operands, terms)):
        operands[i], terms[i] = _diagonals(operand, labels)
    sizes = _sizes(operands, terms)
    result, labels = operands[0], terms[0]
    for i in range(1, len(operands)):
        keep = set(output).union(*terms[i + 1 :])
        result, labels = _pair(result, labels, operands[i], terms[i], keep, sizes)
    result, labels = _sum_out(result, labels, set(output))
    return result.permute([labels.index(label) for label in output])
