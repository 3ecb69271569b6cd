"""Forward mode: tangents of ops, in-place ops, views, custom functions, and under the tape."""

import pytest

import flambeau as torch
from flambeau.autograd import Function
from flambeau.autograd import forward_ad as fw


def dual(values, tangent):
    return fw.make_dual(torch.tensor(values), torch.tensor(tangent))


def test_ops_carry_tangents():
    with fw.dual_level():
        x = dual([1.0, 2.0], [1.0, 10.0])
        primal, tangent = fw.unpack_dual((x * x).sum() + torch.ones(2).sum())
        assert primal.item() == 7 and tangent.item() == 42
        assert not primal.requires_grad


def test_matmul_and_several_inputs():
    a = torch.arange(4.0).reshape(2, 2)
    with fw.dual_level():
        x, y = dual([1.0, 1.0], [1.0, 2.0]), dual([3.0, 1.0], [0.0, 1.0])
        assert fw.unpack_dual(a @ x).tangent.tolist() == [2, 8]
        assert fw.unpack_dual(x * y).tangent.tolist() == [3, 3]


def test_in_place_and_views():
    with fw.dual_level():
        x = dual([1.0, 1.0], [1.0, 2.0])
        y = x * 1
        assert y.mul_(x) is y
        assert fw.unpack_dual(y).tangent.tolist() == [2, 4]
        assert fw.unpack_dual(x.view(2, 1)[1]).tangent.tolist() == [2]


def test_no_tangent_and_no_level():
    with fw.dual_level():
        assert fw.unpack_dual(torch.ones(2)).tangent is None
        assert fw.unpack_dual(torch.ones(2) * 2).tangent is None
        x = dual([1.0], [1.0])
        with pytest.raises(RuntimeError, match="nested"):
            fw.enter_dual_level()
        with pytest.raises(RuntimeError, match="shape .1,."):
            dual([1.0], [1.0, 2.0])
    assert fw.unpack_dual(x).tangent is None and (x * 2).tolist() == [2]
    with pytest.raises(RuntimeError, match="no dual level"):
        dual([1.0], [1.0])


def test_reverse_over_forward():
    w = torch.tensor([3.0], requires_grad=True)
    with fw.dual_level():
        x = fw.make_dual(torch.tensor([2.0]), torch.tensor([1.0]))
        tangent = fw.unpack_dual(x * x * w).tangent
    assert tangent.item() == 12
    tangent.sum().backward()
    assert w.grad.item() == 4


def test_inside_no_grad():
    with torch.no_grad(), fw.dual_level():
        assert fw.unpack_dual(dual([2.0], [1.0]).exp()).tangent.item() == pytest.approx(7.389056)


def test_custom_function():
    class Cube(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_forward(x)
            return x * x * x

        @staticmethod
        def jvp(ctx, t):
            (x,) = ctx.saved_tensors
            return 3 * x * x * t

    with fw.dual_level():
        primal, tangent = fw.unpack_dual(Cube.apply(dual([2.0], [1.0])))
    assert primal.item() == 8 and tangent.item() == 12
