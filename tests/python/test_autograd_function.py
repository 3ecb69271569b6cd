"""Custom functions: what forward and backward see, errors, cycles, in-place, double backward."""

import gc
import weakref

import pytest

import flambeau as torch
from flambeau.autograd import Function
from flambeau.autograd.function import once_differentiable


class Square(Function):
    @staticmethod
    def forward(ctx, x, k=1):
        ctx.save_for_backward(x)
        ctx.k = k
        return x * x * k

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 2 * x * ctx.k, None


def leaf(*values):
    return torch.tensor(list(values), requires_grad=True)


def test_forward_and_backward():
    x = leaf(1.0, 2.0)
    y = Square.apply(x, 3)
    assert y.requires_grad and type(y.grad_fn).__name__ == "SquareBackward"
    assert y.grad_fn.k == 3 and y.grad_fn.needs_input_grad == (True, False)
    assert y.grad_fn.saved_tensors[0] is x
    y.sum().backward()
    assert x.grad.tolist() == [6, 12]


def test_nothing_is_recorded_without_need():
    assert Square.apply(torch.ones(1)).grad_fn is None
    with torch.no_grad():
        assert Square.apply(leaf(1.0)).grad_fn is None


def test_double_backward():
    x = leaf(3.0)
    (g,) = torch.autograd.grad(Square.apply(x), x, create_graph=True)
    (h,) = torch.autograd.grad(g, x)
    assert g.item() == 6 and h.item() == 2


def test_several_outputs_and_materialized_zeros():
    seen = []

    class Two(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1, x * 2, "text", None

        @staticmethod
        def backward(ctx, *grads):
            seen.extend(grads)
            return grads[0] + 2 * grads[1]

    x = leaf(1.0)
    a, b, text, nothing = Two.apply(x)
    assert (text, nothing) == ("text", None)
    b.backward()
    assert seen[0].item() == 0 and seen[1].item() == 1 and seen[2:] == [None, None]
    assert x.grad.item() == 2


def test_unmaterialized_grads():
    class Two(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 1, x * 2

        @staticmethod
        def backward(ctx, a, b):
            assert a is None
            return b * 2

    x = leaf(1.0)
    Two.apply(x)[1].backward()
    assert x.grad.item() == 2


def test_non_differentiable_output():
    class Top(Function):
        @staticmethod
        def forward(ctx, x):
            index = x * 0
            ctx.mark_non_differentiable(index)
            return x * 2, index

        @staticmethod
        def backward(ctx, g, unused):
            return g * 2

    x = leaf(1.0)
    y, index = Top.apply(x)
    assert y.requires_grad and not index.requires_grad
    y.backward()
    assert x.grad.item() == 2


def test_in_place():
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            x.mul_(2)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = leaf(1.0, 2.0)
    y = x * 1
    z = Double.apply(y)
    assert z is y and type(y.grad_fn).__name__ == "DoubleBackward"
    y.sum().backward()
    assert x.grad.tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="leaf"):
        Double.apply(leaf(1.0))


def test_returned_input_is_a_view():
    class Same(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return -g

    x = leaf(1.0)
    y = Same.apply(x)
    assert y is not x and y.data_ptr() == x.data_ptr()
    y.backward()
    assert x.grad.item() == -1


def test_setup_context_with_keywords():
    class Scale(Function):
        @staticmethod
        def forward(x, factor=2):
            return x * factor

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.factor = inputs[1]

        @staticmethod
        def backward(ctx, g):
            return g * ctx.factor, None

    x = leaf(1.0)
    Scale.apply(x).backward()
    Scale.apply(x, factor=5).backward()
    assert x.grad.item() == 7
    with pytest.raises(TypeError, match="keyword"):
        Square.apply(x, k=2)


def test_vjp_is_another_name():
    class Twice(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def vjp(ctx, g):
            return g * 2

    x = leaf(1.0)
    Twice.apply(x).backward()
    assert x.grad.item() == 2


@pytest.mark.parametrize(
    "result, error, text",
    [
        (lambda g: (g, g, g), RuntimeError, "each of the 2 arguments of forward, got 3"),
        (lambda g: g, RuntimeError, "got 1"),
        (lambda g: (g, g), RuntimeError, "None for argument 1"),
        (lambda g: ("text", None), TypeError, "got str"),
        (lambda g: (torch.ones(5), None), RuntimeError, "shape .5,. for argument 0 of shape .2,."),
    ],
)
def test_wrong_gradients(result, error, text):
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x, k):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return result(g)

    with pytest.raises(error, match=text):
        Wrong.apply(leaf(1.0, 2.0), 3).sum().backward()


def test_trailing_nones_are_dropped_and_broadcasts_summed():
    class Wide(Function):
        @staticmethod
        def forward(ctx, x):
            return x.expand(3) * 1

        @staticmethod
        def backward(ctx, g):
            return g, None, None

    x = leaf(1.0)
    Wide.apply(x).sum().backward()
    assert x.grad.tolist() == [3]


def test_saved_output_and_freed_graph():
    class Exp(Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y, None)
            return y

        @staticmethod
        def backward(ctx, g):
            y, nothing = ctx.saved_tensors
            assert nothing is None
            return g * y

    x = leaf(0.0)
    y = Exp.apply(x)
    y.backward()
    assert x.grad.item() == 1
    with pytest.raises(RuntimeError, match="freed"):
        y.backward()


def test_saved_tensor_changed_in_place():
    x = leaf(1.0)
    h = x * 1
    y = Square.apply(h)
    h.add_(1)
    with pytest.raises(RuntimeError, match="changed in place"):
        y.backward()


def test_context_cycle_is_collected():
    class Keeps(Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 1
            ctx.y = y
            return y

        @staticmethod
        def backward(ctx, g):
            return g

    y = Keeps.apply(leaf(1.0))
    ref = weakref.ref(y)
    del y
    gc.collect()
    assert ref() is None


def test_context_survives_without_python():
    x = leaf(2.0)
    y = Square.apply(x, 5) * 1
    gc.collect()
    y.backward()
    assert x.grad.item() == 20


def test_once_differentiable():
    class Once(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            return g * 2

    x = leaf(1.0)
    y = Once.apply(x)
    (g,) = torch.autograd.grad(y, x, create_graph=True, grad_outputs=torch.ones(1).requires_grad_())
    with pytest.raises(RuntimeError, match="once_differentiable"):
        g.backward()


def test_functions_are_not_instantiated():
    with pytest.raises(RuntimeError, match="should not be instantiated"):
        Square()
