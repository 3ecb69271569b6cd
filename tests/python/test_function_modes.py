"""__torch_function__: the names that modes and overriding classes see, which are torch 2.13's for the same calls."""

import inspect

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import overrides
from flambeau.overrides import TorchFunctionMode, resolve_name

X = torch.tensor([[1.0, -2.0], [3.0, 4.0]])
Y = torch.tensor([[2.0, 0.5], [1.0, 2.0]])
S, IDX, IMAGE = torch.tensor(2.0), torch.tensor([0, 1]), torch.ones(1, 2, 4, 4)


class Names(TorchFunctionMode):
    def __init__(self):
        self.log = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.log.append(resolve_name(func).removeprefix("torch."))
        return func(*args, **(kwargs or {}))


# Logged by torch 2.13.
SEEN = """
x.shape                            Tensor.shape.__get__
x.grad                             Tensor.grad.__get__
x.dtype                            Tensor.dtype.__get__
x.device                           Tensor.device.__get__
x.requires_grad                    Tensor.requires_grad.__get__
x.is_leaf                          Tensor.is_leaf.__get__
x.grad_fn                          Tensor.grad_fn.__get__
x.T                                Tensor.T.__get__
x.real                             Tensor.real.__get__
x.data                             Tensor.data.__get__
x.ndim                             Tensor.ndim.__get__
x.is_cuda                          Tensor.is_cuda.__get__
x._version                         Tensor._version.__get__
x._base                            Tensor._base.__get__
setattr(z, "grad", None)           Tensor.grad.__set__
setattr(z, "requires_grad", False)  Tensor.requires_grad.__set__
setattr(z, "data", Y)              Tensor.data.__set__
x.size()                           Tensor.size
x.size(0)                          Tensor.size
x.dim()                            Tensor.dim
x.numel()                          Tensor.numel
x.stride()                         Tensor.stride
x.is_contiguous()                  Tensor.is_contiguous
x.data_ptr()                       Tensor.data_ptr
x.tolist()                         Tensor.tolist
S.item()                           Tensor.item
z.requires_grad_()                 Tensor.requires_grad_
z.detach_()                        Tensor.detach_
x.register_hook(None.__class__)    Tensor.register_hook
x[0]                               Tensor.__getitem__
x[IDX]                             Tensor.__getitem__
z.__setitem__(0, 1.0)              Tensor.__setitem__
len(x)                             Tensor.__len__
bool(S)                            Tensor.__bool__
float(S)                           Tensor.__float__
int(S)                             Tensor.__int__
complex(S)                         Tensor.__complex__
1.0 in Y                           Tensor.__contains__
repr(S)                            Tensor.__repr__
format(S, ".2f")                   Tensor.__format__
x + 1                              Tensor.add
1 + x                              Tensor.add
1 - x                              Tensor.__rsub__
2 / x                              Tensor.__rtruediv__
x // 2                             Tensor.__floordiv__
2 // Y                             Tensor.__rfloordiv__
x**2                               Tensor.__pow__
2**x                               Tensor.__rpow__
x @ Y                              Tensor.matmul
-x                                 Tensor.neg
+x                                 Tensor.positive
abs(x)                             Tensor.abs
~IDX                               Tensor.__invert__
x == Y                             Tensor.__eq__
x != 1                             Tensor.ne
1 < x                              Tensor.gt
IDX & 1                            Tensor.__and__
IDX << 1                           Tensor.__lshift__
z.__iadd__(1)                      Tensor.add_
torch.add(x, Y)                    add
torch.cat([x, Y])                  cat
torch.ones(3)                      ones
torch.tensor([1.0])                tensor
torch.as_tensor([1])               as_tensor
torch.result_type(x, Y)            result_type
torch.einsum("ij,jk->ik", x, Y)    functional.einsum
torch.split(x, 2)                  functional.split
torch.norm(x)                      functional.norm
torch.unique(IDX)                  functional.unique
torch.fft.fft(Y)                   fft.fft
torch.linalg.svd(Y)                linalg.svd
F.relu(x)                          nn.functional.relu
F.linear(x, Y)                     nn.functional.linear
F.dropout(x, 0.5)                  nn.functional.dropout
F.softmax(x, 1)                    nn.functional.softmax
F.cross_entropy(x, IDX)            nn.functional.cross_entropy
F.mse_loss(x, Y)                   nn.functional.mse_loss
F.layer_norm(x, (2,))              nn.functional.layer_norm
F.conv2d(IMAGE, IMAGE)             nn.functional.conv2d
F.max_pool2d(IMAGE, 2)             nn.functional.max_pool2d
F.gelu(x)                          nn.functional.gelu
F.pad(x, (1, 1))                   nn.functional.pad
F.interpolate(IMAGE, scale_factor=2)  nn.functional.interpolate
F.normalize(x)                     nn.functional.normalize
F.sigmoid(x)                       Tensor.sigmoid
F.upsample(IMAGE, scale_factor=2)  nn.functional.interpolate
torch.nn.init.constant_(z, 1.0)    nn.init.constant_
torch.broadcast_shapes((1,), (2,))
torch.is_grad_enabled()
hash(x)
x.as_subclass(torch.Tensor)
x.norm()                           Tensor.norm
x.split(1)                         Tensor.split
x.view_as(Y)                       Tensor.view_as
x.sum().backward()                 Tensor.sum Tensor.backward
torch.autograd.grad(x.sum(), x)    Tensor.sum autograd.grad
layer(Y)                           nn.functional.linear
"""


def cases():
    lines = [line.partition("  ") for line in SEEN.strip().splitlines()]
    return [pytest.param(call, names.split(), id=call) for call, _, names in lines]


@pytest.mark.filterwarnings("ignore:.*upsample")
@pytest.mark.parametrize("call, names", cases())
def test_names_are_torchs(call, names):
    layer = torch.nn.Linear(2, 2)
    values = {"x": X.clone().requires_grad_(), "z": Y.clone(), "layer": layer}
    f = eval(f"lambda x, z, layer: {call}")
    with Names() as mode:
        f(**values)
    assert mode.log == names


class Answers:
    """No tensor, but what is asked of it is noted."""

    def __init__(self):
        self.log = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        found = [a for a in args if isinstance(a, cls)]
        found[0].log.append(resolve_name(func).removeprefix("torch."))
        return "answer"


def test_classes_see_functions_written_in_python():
    a = Answers()
    F.gelu(a)  # the first override of a process wakes the others
    assert F.relu(a) == F.dropout(a, p=0.5) == F.cross_entropy(a, IDX) == "answer"
    assert torch.einsum("i->i", a) == torch.fft.fft(a) == torch.add(X, a) == X + a == "answer"
    assert a.log[1:] == (
        "nn.functional.relu nn.functional.dropout nn.functional.cross_entropy functional.einsum "
        "fft.fft add Tensor.add".split()
    )


class Noted(torch.Tensor):
    log = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.log.append(resolve_name(func).removeprefix("torch."))
        return super().__torch_function__(func, types, args, kwargs or {})


def test_subclasses_see_attributes_methods_and_operators():
    t = X.as_subclass(Noted)
    Noted.log.clear()
    assert t.shape == (2, 2) and len(t) == 2 and t.dim() == 2 and t.dtype is torch.float32
    assert type(F.relu(t)) is Noted and type(t // 2) is Noted and t[0, 0].item() == 1.0
    t.grad = None
    assert 1.0 in t and bool(t[0, 0])
    assert Noted.log == (
        "Tensor.shape.__get__ Tensor.__len__ Tensor.dim Tensor.dtype.__get__ nn.functional.relu "
        "Tensor.__floordiv__ Tensor.__getitem__ Tensor.item Tensor.grad.__set__ "
        "Tensor.__contains__ Tensor.__getitem__ Tensor.__bool__".split()
    )


def test_handlers_change_what_attributes_say():
    class Other(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return "other" if func == torch.Tensor.shape.__get__ else func(*args, **(kwargs or {}))

    with Other():
        assert X.shape == "other" and X.dtype is torch.float32
    assert X.shape == (2, 2)


def test_functions_stay_the_objects_they_are():
    relu, seen = F.relu, []

    class Compare(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append((func is relu, args, kwargs))
            return func(*args, **(kwargs or {}))

    with Compare():
        out = F.relu(X, inplace=False)
    assert out.tolist() == [[1.0, 0.0], [3.0, 4.0]] and F.relu is relu
    assert seen[0][0] and seen[0][1][0] is X and seen[0][2] == {"inplace": False}
    assert str(inspect.signature(F.relu)).startswith("(input")
    with pytest.raises(TypeError, match="wrong"):
        F.relu(X, wrong=1)
    with pytest.raises(ValueError, match="min_val"):
        F.hardtanh(X, 2.0, 1.0)


def test_errors_of_handlers_pass():
    class Refuse(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            raise KeyError("refused")

    for call in (
        lambda: X.shape,
        lambda: len(X),
        lambda: bool(S),
        lambda: X.size(0),
        lambda: F.relu(X),
        lambda: setattr(X, "grad", None),
        lambda: X.__setitem__(0, 1),
        lambda: torch.tensor([1]),
    ):
        with pytest.raises(KeyError, match="refused"), Refuse():
            call()
    assert len(X) == 2 and overrides._get_current_function_mode() is None


def test_stack_of_modes():
    with Names() as outer, Names() as inner:
        assert overrides._get_current_function_mode() is inner
        assert overrides._get_current_function_mode_stack() == [outer, inner]
        with overrides._pop_mode_temporarily() as popped:
            assert popped is inner
            X.dim()
        X.size()
    assert outer.log == ["Tensor.dim", "Tensor.size"] and inner.log == ["Tensor.size"]


def test_functions_of_users():
    @overrides.wrap_torch_function(lambda x, y=None: (x, y))
    def twice(x, y=None):
        """Docs stay."""
        return x + x

    def thrice(x):
        if overrides.has_torch_function_unary(x):
            return overrides.handle_torch_function(thrice, (x,), x)
        return x + x + x

    assert twice(S).item() == 4.0 and twice(Answers()) == "answer" and twice.__doc__ == "Docs stay."
    assert thrice(S).item() == 6.0
    with Names() as mode:
        thrice(S), twice(S)
    assert mode.log == ["thrice", "twice"]


def test_what_can_be_overridden():
    functions = overrides.get_overridable_functions()
    assert F.relu in functions[F] and torch.add in functions[torch]
    assert torch.Tensor.shape.__get__ in functions[torch.Tensor]
    assert torch.Tensor.add in functions[torch.Tensor]
    ignored = overrides.get_ignored_functions()
    assert torch.is_tensor in ignored and torch.manual_seed in ignored and F.relu not in ignored
    assert not ignored & {f for room in functions.values() for f in room}
    assert torch.Tensor.grad.__get__ in overrides.get_default_nowrap_functions()
    assert overrides.is_tensor_method_or_property(torch.Tensor.add)
    assert overrides.is_tensor_method_or_property(torch.Tensor.grad.__get__)
    assert not overrides.is_tensor_method_or_property(torch.add)
    assert resolve_name(torch.Tensor.grad.__set__) == "torch.Tensor.grad.__set__"
    assert (
        resolve_name(torch.add) == "torch.add"
        and resolve_name(F.relu) == "torch.nn.functional.relu"
    )
