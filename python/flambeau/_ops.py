"""torch.ops.aten: every entry of the table as an object, as modes below the tape see it."""

import math
import re

import flambeau
from flambeau import _C

# Torch's Python calls these with the number in the tensor's place; a mode sees the same.
_NUMBERS_AS_TENSORS = {"add", "sub", "mul", "div", "floor_divide"}


class Argument:
    """One parameter of a schema: name, type, default_value, kwarg_only, is_write."""

    def __init__(self, text: str, kwarg_only: bool):
        pattern = r"(\w+)(\([^)]*\))?(\S*)\s+(\w+)(?:=(.+))?"
        base, alias, marks, self.name, default = re.fullmatch(pattern, text).groups()
        self.type = base + marks
        self.kwarg_only = kwarg_only
        self.is_write = "!" in (alias or "")
        self.is_alias = alias is not None
        self._default = default

    def has_default_value(self) -> bool:
        return self._default is not None

    @property
    def default_value(self):
        """The default as Python; text of the schema where it names a constant."""
        constants = {"None": None, "True": True, "False": False}
        text = self._default
        if text is None or text in constants:
            return constants.get(text)
        if text.startswith("["):
            return [int(item) for item in text[1:-1].split(",") if item.strip()]
        for number in (int, float):
            try:
                return number(text)
            except ValueError:
                pass
        return text.strip("\"'")

    def __repr__(self):
        default = f"={self._default}" if self._default is not None else ""
        return f"{self.type} {self.name}{default}"


class FunctionSchema:
    """A schema taken apart: name, overload_name, arguments, returns."""

    def __init__(self, namespace: str, text: str):
        self._text = f"{namespace}::{text}"
        head, rest = text.split("(", 1)
        inside, results = rest.rsplit(") -> ", 1)
        self.name = f"{namespace}::{head.split('.')[0]}"
        self.overload_name = head.partition(".")[2]
        pieces = re.split(r",\s*(?![^\[(]*[\])])", inside) if inside else []
        star = pieces.index("*") if "*" in pieces else len(pieces)
        self.arguments = [Argument(p, i > star) for i, p in enumerate(pieces) if p != "*"]
        self.returns = re.split(r",\s*", results.strip("()"))
        self.is_mutable = any(a.is_write for a in self.arguments)

    def __str__(self):
        return self._text

    __repr__ = __str__


class OpOverload:
    """One overload of an op: what `__torch_dispatch__` gets as `func`.

    Example:
        >>> add = flambeau.ops.aten.add.Tensor
        >>> str(add), add.__name__
        ('aten.add.Tensor', 'add.Tensor')
        >>> add(flambeau.ones(2), 1)
        tensor([2., 2.])
    """

    def __init__(self, packet, overload: str, schema: str, call):
        self.overloadpacket = packet
        self.namespace = "aten"
        self._overloadname = overload
        self._schema = FunctionSchema(self.namespace, schema)
        self._call = call
        self.__name__ = f"{packet.__name__}.{overload}"
        self.__qualname__ = self.__name__
        self.__module__ = "flambeau._ops.aten"

    def __call__(self, /, *args, **kwargs):
        return self._call(*args, **kwargs)

    def name(self) -> str:
        """The name in schemas: "aten::add.Tensor"."""
        dot = self._schema.overload_name and "."
        return f"{self._schema.name}{dot}{self._schema.overload_name}"

    @property
    def is_view(self) -> bool:
        """Does the result share memory with an argument that is not written?"""
        marks = [a for a in self._schema.arguments if a.is_alias]
        return bool(marks) and not self._schema.is_mutable

    def __str__(self):
        return f"{self.namespace}.{self.__name__}"

    def __repr__(self):
        op = f"{self.namespace}.{self.overloadpacket.__name__}"
        return f"<OpOverload(op={op!r}, overload={self._overloadname!r})>"

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return _find, (self.overloadpacket.__name__, self._overloadname)


class OpOverloadPacket:
    """All overloads of a name; a call takes the first that fits."""

    def __init__(self, name: str):
        self.__name__ = name
        self._qualified_op_name = f"aten::{name}"
        self._overloads = {}
        if name == "_local_scalar_dense":
            item = OpOverload(self, "default", f"{name}(Tensor self) -> Scalar", _C.Tensor.item)
            self._overloads["default"] = item
            return
        number, entries = _C._op_entries(name)
        for i, (schema, has_out) in enumerate(entries):
            overload = schema.partition("(")[0].partition(".")[2]
            self._add(overload or "default", schema, _caller(number, i))
            if has_out:
                out = "out" if overload in ("", "Tensor") else f"{overload}_out"
                self._add(out, _schema_with_out(schema, out), _caller(number, i))

    def _add(self, overload: str, schema: str, call) -> None:
        self._overloads.setdefault(overload, OpOverload(self, overload, schema, call))

    def overloads(self) -> list[str]:
        return list(self._overloads)

    def __getattr__(self, name):
        overloads = self.__dict__.get("_overloads", {})
        if name in overloads:
            return overloads[name]
        raise AttributeError(
            f"aten.{self.__dict__.get('__name__')}: the overloads are {', '.join(overloads)}, got {name!r}"
        )

    def __call__(self, /, *args, **kwargs):
        function = getattr(_C._VariableFunctions, self.__name__, None)
        function = function or getattr(_C._nn, self.__name__, None)
        if function is None:
            function = next(iter(self._overloads.values()))
        return function(*args, **kwargs)

    def __str__(self):
        return f"aten.{self.__name__}"

    def __repr__(self):
        return f"<OpOverloadPacket(op='aten.{self.__name__}')>"

    def __reduce__(self):
        return getattr, (aten, self.__name__)


def _caller(number: int, overload: int):
    def call(*args, **kwargs):
        return _C._call_overload(number, overload, *args, **kwargs)

    return call


def _schema_with_out(schema: str, overload: str) -> str:
    head, rest = schema.split("(", 1)
    inside, result = rest.rsplit(") -> ", 1)
    star = "" if "*" in inside.split(", ") else "*, "
    return f"{head.split('.')[0]}.{overload}({inside}, {star}Tensor(a!) out) -> {result}"


class _Namespace:
    """torch.ops.aten: packets are made when first asked for."""

    def __init__(self, name: str):
        self.name = name

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            packet = OpOverloadPacket(name)
        except LookupError:
            raise AttributeError(f"ops.{self.name}: there is no op {name!r}") from None
        setattr(self, name, packet)
        return packet

    def __repr__(self):
        return f"<ops.{self.name}>"


class _Ops:
    """torch.ops: one namespace, `aten`, with what the table has."""

    def __init__(self):
        self.aten = aten

    def __repr__(self):
        return "<ops: aten>"


aten = _Namespace("aten")
ops = _Ops()


def _linear(input, weight, bias=None):
    if bias is None:
        return flambeau.matmul(input, weight.t())
    if input.dim() == 2:
        return flambeau.addmm(bias, input, weight.t())
    rows = input.reshape(-1, weight.size(1))
    return flambeau.addmm(bias, rows, weight.t()).view(*input.shape[:-1], weight.size(0))


def _layer_norm(input, normalized_shape, weight, bias, eps, centered):
    if not centered:  # rms_norm
        return NotImplemented
    return aten.native_layer_norm(input, normalized_shape, weight, bias, eps)


def _group_norm(input, weight, bias, groups, eps):
    n, c = input.shape[:2]
    return aten.native_group_norm(
        input, weight, bias, n, c, math.prod(input.shape[2:]), groups, eps
    )


def _max_pool(input, kernel_size, *options):
    if len(kernel_size) == 1:
        return NotImplemented
    return getattr(aten, f"max_pool{len(kernel_size)}d_with_indices")(input, kernel_size, *options)


# Ops of ours that torch has not as one: a mode sees what torch does instead. NotImplemented: the op itself.
AS_TORCH = {
    "linear": _linear,
    "square": lambda input: flambeau.pow(input, 2),
    "_layer_norm": _layer_norm,
    "_group_norm": _group_norm,
    "_max_pool": _max_pool,
}


def _find(name: str, overload: str) -> OpOverload:
    return getattr(getattr(aten, name), overload)


def shown_overload(name: str, overload: str, out: int) -> OpOverload:
    """The object that stands for an entry of the table."""
    packet = getattr(aten, name)
    if out:
        return getattr(packet, "out" if overload in ("", "Tensor") else f"{overload}_out")
    as_tensor = overload.replace("Scalar", "Tensor")
    if name.rstrip("_") in _NUMBERS_AS_TENSORS and as_tensor in packet.overloads():
        overload = as_tensor
    return getattr(packet, overload or "default")
