"""TorchDispatchMode and classes with __torch_dispatch__: what they see, change and leave to the tape."""

import copy
import pickle

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.overrides import enable_reentrant_dispatch
from flambeau.utils._mode_utils import all_same_mode, no_dispatch
from flambeau.utils._python_dispatch import (
    BaseTorchDispatchMode,
    TorchDispatchMode,
    _get_current_dispatch_mode,
    _pop_mode_temporarily,
    is_traceable_wrapper_subclass,
)


class Log(TorchDispatchMode):
    def __init__(self, log=None, name=""):
        super().__init__()
        self.log = [] if log is None else log
        self.name = name

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.log.append(self.name + str(func).removeprefix("aten."))
        return func(*args, **(kwargs or {}))


X = torch.tensor([[1.0, -2.0], [3.0, 4.0]])
Y = torch.tensor([[2.0, 0.5], [1.0, 2.0]])
IMAGE, KERNEL = torch.ones(1, 1, 3, 3), torch.ones(1, 1, 2, 2)

# What torch 2.13 logs for the same calls, but for the detach() with which it reads saved results.
SEEN = [
    (lambda x: x + 1, "add.Tensor"),
    (lambda x: 1 - x, "rsub.Scalar"),
    (lambda x: 2 / x, "reciprocal.default mul.Tensor"),
    (lambda x: x * Y, "mul.Tensor"),
    (lambda x: x - 2, "sub.Tensor"),
    (lambda x: x / 2, "div.Tensor"),
    (lambda x: x > 1, "gt.Scalar"),
    (lambda x: x == Y, "eq.Tensor"),
    (lambda x: x**2, "pow.Tensor_Scalar"),
    (lambda x: x % 2, "remainder.Scalar"),
    (lambda x: x.clone().add_(2), "clone.default add_.Tensor"),
    (lambda x: x[0], "select.int"),
    (lambda x: x[0, 1], "select.int select.int"),
    (lambda x: x[:, 1:], "slice.Tensor"),
    (lambda x: x[None], "unsqueeze.default"),
    (lambda x: x[Y > 1], "gt.Scalar index.Tensor"),
    (lambda x: torch.cat([x, Y]), "cat.default"),
    (lambda x: torch.stack([x, Y]), "stack.default"),
    (lambda x: x @ Y, "mm.default"),
    (lambda x: F.linear(x, Y, Y[0]), "select.int t.default addmm.default"),
    (lambda x: F.linear(x, Y), "t.default mm.default"),
    (
        lambda x: F.linear(x[None], Y, Y[0]).mean(),
        "unsqueeze.default select.int view.default t.default addmm.default view.default mean.default",
    ),
    (lambda x: x.square(), "pow.Tensor_Scalar"),
    (lambda x: F.layer_norm(x, (2,)), "native_layer_norm.default"),
    (lambda x: F.group_norm(IMAGE, 1), "native_group_norm.default"),
    (lambda x: F.max_pool2d(IMAGE, 2), "max_pool2d_with_indices.default"),
    (lambda x: x @ Y[0], "select.int mv.default"),
    (lambda x: x[0] @ Y[0], "select.int select.int dot.default"),
    (lambda x: torch.bmm(x[None], Y[None]), "unsqueeze.default unsqueeze.default bmm.default"),
    (lambda x: x.reshape(4), "view.default"),
    (lambda x: x.flatten(), "view.default"),
    (lambda x: x.transpose(0, 1), "transpose.int"),
    (lambda x: x.t(), "t.default"),
    (lambda x: x.expand(2, 2, 2), "expand.default"),
    (lambda x: x.chunk(2), "split.Tensor"),
    (lambda x: x.unbind(), "unbind.int"),
    (lambda x: F.dropout(x, 0.5, False), ""),
    (lambda x: F.relu(x), "relu.default"),
    (lambda x: F.gelu(x), "gelu.default"),
    (lambda x: F.mse_loss(x, Y), "mse_loss.default"),
    (lambda x: F.conv2d(IMAGE, KERNEL), "convolution.default"),
    (lambda x: F.avg_pool2d(IMAGE, 2), "avg_pool2d.default"),
    (lambda x: x.sum(), "sum.default"),
    (lambda x: x.sum(1), "sum.dim_IntList"),
    (lambda x: x.mean(1), "mean.dim"),
    (lambda x: x.max(1), "max.dim"),
    (lambda x: x.std(), "std.correction"),
    (lambda x: Y[0, 0].item(), "select.int select.int _local_scalar_dense.default"),
    (lambda x: bool(Y.sum() > 1), "sum.default gt.Scalar _local_scalar_dense.default"),
    (lambda x: x.detach(), "detach.default"),
    (lambda x: x.to(torch.float64), "_to_copy.default"),
    (lambda x: x.t().contiguous(), "t.default clone.default"),
    (lambda x: torch.ones(3), "ones.default"),
    (lambda x: torch.arange(3), "arange.default"),
    (lambda x: torch.add(Y, Y, out=torch.empty(2, 2)), "empty.memory_format add.out"),
    (lambda x: x.masked_fill(Y > 1, 0.0), "gt.Scalar masked_fill.Scalar"),
    (lambda x: x.clamp(0, 1), "clamp.default"),
    (lambda x: torch.equal(x, Y), "equal.default"),
    (lambda x: torch.allclose(x, Y), "allclose.default"),
    (lambda x: x.type_as(Y), ""),
]


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("call, names", SEEN, ids=[names or "nothing" for _, names in SEEN])
def test_names_are_torchs(call, names, grad):
    x = X.clone().requires_grad_(grad)
    with Log() as mode:
        call(x)
    assert mode.log == names.split()


def test_a_backward_pass_comes_by():
    x = X.clone().requires_grad_()
    with Log() as mode:
        (x * Y).sum().backward()
    assert mode.log == (
        "mul.Tensor sum.default ones_like.default expand.default mul.Tensor".split()
    )
    assert torch.equal(x.grad, Y)


def test_arguments_leave_defaults_out():
    calls = []

    class Arguments(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            calls.append((str(func), args[1:], kwargs, types))
            return func(*args, **kwargs)

    with Arguments():
        X + 1
        X.sub(Y, alpha=2)
        X.sum(1)
        X.var(0, correction=0)
        X.to(torch.float64)
        X.softmax(1)
    assert calls[0] == ("aten.add.Tensor", (1,), {}, ())
    assert calls[1][1][0] is Y and calls[1][2] == {"alpha": 2}
    assert calls[2] == ("aten.sum.dim_IntList", ([1],), {}, ())
    assert calls[3] == ("aten.var.correction", ([0],), {"correction": 0}, ())
    assert calls[4][2]["dtype"] == torch.float64
    assert calls[5][1] == (1,)


def test_results_can_be_changed_and_the_tape_goes_around():
    class Double(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            return out * 2 if func is torch.ops.aten.exp.default else out

    x = torch.zeros(2, requires_grad=True)
    with Double():
        y = x.exp()
    assert y.tolist() == [2.0, 2.0] and type(y.grad_fn).__name__ == "ExpBackward0"
    y.sum().backward()  # exp's derivative is its result
    assert x.grad.tolist() == [2.0, 2.0]


def test_an_argument_may_be_the_answer():
    class Identity(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return args[0]

    x = X.clone().requires_grad_()
    with Identity():
        y = x * 3
    assert y is not x and x.grad_fn is None and y.data_ptr() == x.data_ptr()
    y.sum().backward()
    assert torch.equal(x.grad, torch.full((2, 2), 3.0))


def test_a_handler_is_below_the_tape():
    class Below(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            assert args[0] is x and x.requires_grad and _get_current_dispatch_mode() is None
            out = func(*args, **kwargs)
            assert not out.requires_grad
            return out

    x = X.clone().requires_grad_()
    with Below():
        y = x.sigmoid()
    assert type(y.grad_fn).__name__ == "SigmoidBackward0"


def test_a_handler_can_turn_the_tape_on_again():
    class Inside(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            with enable_reentrant_dispatch():
                x = torch.ones(2, requires_grad=True)
                (x * 2).sum().backward()
            return x.grad

    with Inside():
        assert X.exp().tolist() == [2.0, 2.0]
        with torch.no_grad(), pytest.raises(RuntimeError, match="grad"):
            X.exp()


def test_modes_nest():
    log = []
    with Log(log, "outer ") as outer, Log(log, "inner ") as inner:
        assert _get_current_dispatch_mode() is inner
        with _pop_mode_temporarily():
            assert _get_current_dispatch_mode() is outer
            X.exp()
        with no_dispatch() as hidden:
            assert hidden == [outer, inner] and all_same_mode([inner, inner])
            X.log()
        X.sin()
    assert log == ["outer exp.default", "inner sin.default", "outer sin.default"]
    assert _get_current_dispatch_mode() is None


def test_a_mode_can_be_entered_by_its_own_handler():
    class Deeper(TorchDispatchMode):
        depth = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.depth += 1
            if self.depth > 3:
                return func(*args, **kwargs)
            with self:
                return func(*args, **kwargs)

    with Deeper() as mode:
        X.exp()
    assert mode.depth == 4


def test_exceptions_pass_and_leave_nothing_behind():
    class Refuse(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            raise KeyError(str(func))

    x = X.clone().requires_grad_()
    for call in (lambda: x + 1, lambda: x.detach().add_(1), lambda: F.gelu(x)):
        with pytest.raises(KeyError, match="aten"), Refuse():
            call()
    total = x.exp().sum()
    with pytest.raises(KeyError, match="aten.ones_like"), Refuse():
        total.backward()
    assert (x + 1).tolist() == (X + 1).tolist()
    assert _get_current_dispatch_mode() is None


@pytest.mark.parametrize(
    "answer, match",
    [
        (NotImplemented, "does not implement"),
        (3, "must return Tensor"),
        ("a", "must return Tensor"),
    ],
)
def test_wrong_answers(answer, match):
    class Wrong(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return answer

    with pytest.raises(TypeError, match=match), Wrong():
        X.exp()
    if answer is not NotImplemented:
        with pytest.raises(TypeError, match="must return a tuple of 2 tensors"), Wrong():
            X.max(1)
        with pytest.raises(TypeError, match="must return a tuple of tensors"), Wrong():
            X.unbind()


def test_a_handler_cannot_leave_its_own_mode():
    class Leaves(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.__exit__(None, None, None)

    with pytest.raises(RuntimeError, match="cannot leave"), Leaves():
        X.exp()
    assert _get_current_dispatch_mode() is None


def test_a_mode_without_a_handler():
    with pytest.raises(NotImplementedError, match="TorchDispatchMode: must define"):
        with TorchDispatchMode():
            X.exp()
    with BaseTorchDispatchMode():
        assert torch.equal(X.neg(), -X)


def test_in_place_ops_keep_their_history():
    x, scale = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor(2.0, requires_grad=True)
    with Log() as mode:
        y = x * 3
        y.mul_(scale)  # saves a clone of what it was
        assert y._version == 1
    assert mode.log == ["mul.Tensor", "clone.default", "mul_.Tensor"]
    y.sum().backward()
    assert x.grad.tolist() == [6.0, 6.0] and scale.grad.item() == 9.0
    with pytest.raises(RuntimeError, match="leaf tensor"), Log():
        x.add_(1)


def test_views_keep_their_base():
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    with Log():
        y = x * 1
        y[0].mul_(5)
        y.t()[1].add_(1)
        rows = y.unbind()
        assert y.t()._base is y
        with pytest.raises(RuntimeError, match="one of several views"):
            rows[0].add_(1)
    assert y.tolist() == [[5.0, 11.0], [3.0, 5.0]]
    y.sum().backward()
    assert x.grad.tolist() == [[5.0, 5.0], [1.0, 1.0]]


def test_a_view_made_under_a_mode_passes_in_place_gradients_on():
    x, scale = torch.ones(4), torch.tensor(2.0, requires_grad=True)
    with Log():
        part = x[1:3]
        part.mul_(scale)
    assert x.requires_grad
    x.sum().backward()
    assert scale.grad.item() == 2.0


def test_composites_without_a_node_get_the_history_of_their_parts():
    class Negative(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **kwargs)
            return -out if func is torch.ops.aten.gelu.default else out

    x = torch.tensor([0.5, -1.0], requires_grad=True)
    expected = F.gelu(x)
    grad = torch.autograd.grad(expected.sum(), x)[0]
    with Negative():
        y = F.gelu(x)
    assert torch.equal(y, -expected) and type(y.grad_fn).__name__ == type(expected.grad_fn).__name__
    assert torch.equal(torch.autograd.grad(y.sum(), x)[0], grad)


def test_gradients_of_gradients_come_by():
    x = torch.tensor([2.0], requires_grad=True)
    with Log() as mode:
        (g,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        g.sum().backward()
    assert x.grad.item() == 12.0 and mode.log.count("pow.Tensor_Scalar") == 3


def test_inside_of_vmap_and_jvp_the_values_of_all_examples_come_by():
    with Log() as mode:
        out = torch.vmap(lambda row: row.exp())(X)
        _, tangent = torch.func.jvp(torch.sin, (X,), (Y,))
    assert torch.equal(out, X.exp()) and torch.allclose(tangent, X.cos() * Y)
    assert "exp.default" in mode.log and "cos.default" in mode.log


def test_no_grad_and_threads():
    import threading

    found = []
    with Log() as mode:
        with torch.no_grad():
            X.exp()
        thread = threading.Thread(target=lambda: found.append(_get_current_dispatch_mode()))
        thread.start()
        thread.join()
    assert mode.log == ["exp.default"] and found == [None]


def test_modules_and_optimizers_work_under_a_mode():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    plain = copy.deepcopy(net)
    for model, mode in ((net, BaseTorchDispatchMode()), (plain, torch.enable_grad())):
        opt = torch.optim.Adam(model.parameters(), lr=0.1)
        with mode:
            for _ in range(3):
                opt.zero_grad()
                F.mse_loss(model(X), Y[:, :1]).backward()
                opt.step()
    for a, b in zip(net.parameters(), plain.parameters()):
        assert torch.allclose(a, b, rtol=1e-6)


# ---- overloads ----


def test_overloads():
    add = torch.ops.aten.add
    assert str(add.Tensor) == "aten.add.Tensor" and add.Tensor.__name__ == "add.Tensor"
    assert repr(add.Tensor) == "<OpOverload(op='aten.add', overload='Tensor')>"
    assert add.Tensor is torch.ops.aten.add.Tensor and add.Tensor.overloadpacket is add
    assert (
        add.Tensor.name() == "aten::add.Tensor" and torch.ops.aten.exp.default.name() == "aten::exp"
    )
    assert add.Tensor.namespace == "aten" and add.Tensor._overloadname == "Tensor"
    assert "Tensor" in add.overloads() and "out" in add.overloads()
    assert add.Tensor(X, 1).tolist() == (X + 1).tolist()
    assert add.Tensor(self=X, other=Y, alpha=2).tolist() == (X + 2 * Y).tolist()
    assert add(X, Y).tolist() == (X + Y).tolist()
    out = torch.empty(2, 2)
    assert add.out(X, Y, out=out) is out and out.tolist() == (X + Y).tolist()
    x = X.clone()
    assert torch.ops.aten.mul_.Tensor(x, 2) is x and x.tolist() == (X * 2).tolist()
    assert copy.deepcopy(add.Tensor) is add.Tensor
    assert pickle.loads(pickle.dumps(add.Tensor)) is add.Tensor
    assert torch.ops.aten.view.default.is_view and not add.Tensor.is_view
    with pytest.raises(AttributeError, match="no op 'nothing'"):
        _ = torch.ops.aten.nothing
    with pytest.raises(AttributeError, match="the overloads are Tensor"):
        _ = add.Nothing
    with pytest.raises(TypeError, match="add"):
        add.Tensor("a", X)


def test_schemas():
    schema = torch.ops.aten.add.Tensor._schema
    assert schema.name == "aten::add" and schema.overload_name == "Tensor"
    assert str(schema) == "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
    assert [a.name for a in schema.arguments] == ["self", "other", "alpha"]
    assert [a.kwarg_only for a in schema.arguments] == [False, False, True]
    assert schema.arguments[2].default_value == 1 and not schema.arguments[0].has_default_value()
    assert not schema.is_mutable and torch.ops.aten.copy_.default._schema.is_mutable
    assert torch.ops.aten.max.dim._schema.returns == ["Tensor values", "Tensor indices"]


# ---- classes that answer for their ops ----


class Wrapped(torch.Tensor):
    """A tensor around another, which notes what is done with it."""

    log = []
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, inner):
        facts = {"dtype": inner.dtype, "device": inner.device, "strides": inner.stride()}
        t = torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, requires_grad=inner.requires_grad, **facts
        )
        t.inner = inner.detach()
        return t

    def __tensor_flatten__(self):
        return ["inner"], None

    @staticmethod
    def __tensor_unflatten__(inner, meta, size, stride):
        return Wrapped(inner["inner"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        assert types == (cls,)
        cls.log.append(str(func))
        plain = [a.inner if isinstance(a, cls) else a for a in args]
        out = func(*plain, **(kwargs or {}))
        return cls(out) if isinstance(out, torch.Tensor) else out


def test_a_class_answers_for_its_ops():
    Wrapped.log.clear()
    a = Wrapped(X)
    assert a.shape == (2, 2) and a.dtype == torch.float32 and a.stride() == (2, 1)
    b = (a + Y).exp()
    assert type(b) is Wrapped and torch.equal(b.inner, (X + Y).exp())
    assert Wrapped.log == ["aten.add.Tensor", "aten.exp.default"]
    assert is_traceable_wrapper_subclass(a) and not is_traceable_wrapper_subclass(X)
    assert b.sum().item() == (X + Y).exp().sum().item()
    assert Wrapped.log[-2:] == ["aten.sum.default", "aten._local_scalar_dense.default"]
    with pytest.raises(NotImplementedError, match="out= cannot be used"):
        torch.add(a, Y, out=torch.empty(2, 2))


def test_the_tape_goes_around_a_class():
    a = Wrapped(X.clone().requires_grad_())
    assert a.requires_grad
    y = a * 3
    assert type(y) is Wrapped and type(y.grad_fn).__name__ == "MulBackward0"
    (g,) = torch.autograd.grad(y, a, Wrapped(torch.ones(2, 2)))
    assert type(g) is Wrapped and g.inner.tolist() == [[3.0, 3.0], [3.0, 3.0]]


def test_optimizers_refuse_gradients_of_a_class():
    p = torch.nn.Parameter(X.clone())
    p.grad = Wrapped(torch.ones(2, 2))
    with pytest.raises(NotImplementedError, match="optimizers do not ask"):
        torch.optim.SGD([p], lr=0.1).step()


def test_composites_of_a_class_are_differentiated_through_their_parts():
    x, a = X.clone().requires_grad_(), Wrapped(X.clone().requires_grad_())
    (expected,) = torch.autograd.grad(F.smooth_l1_loss(x, Y, reduction="none").sum(), x)
    out = F.smooth_l1_loss(a, Y, reduction="none")
    (g,) = torch.autograd.grad(out, a, Wrapped(torch.ones(2, 2)))
    assert type(out) is Wrapped and torch.allclose(g.inner, expected)


def test_modes_come_before_classes():
    Wrapped.log.clear()
    with Log() as mode:
        Wrapped(X).sin()
    assert "sin.default" in mode.log and Wrapped.log == ["aten.sin.default"]


def test_a_class_may_decline():
    class Declines(torch.Tensor):
        __torch_function__ = torch._C._disabled_torch_function_impl

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    t = torch.Tensor._make_subclass(Declines, X)
    with pytest.raises(TypeError, match="no __torch_dispatch__ for these types"):
        t + 1
    with pytest.raises(RuntimeError, match="has no __torch_dispatch__"):
        torch.Tensor._make_wrapper_subclass(torch.nn.Parameter, (2,))
