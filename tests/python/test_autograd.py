"""The tape from Python: backward, grad, hooks, nodes, saved tensors, errors that name lines."""

import gc
import weakref

import pytest

import flambeau as torch
from flambeau.autograd import graph


def leaf(*values):
    return torch.tensor(list(values), requires_grad=True)


def here(offset=0):
    import sys

    return sys._getframe(1).f_lineno + offset


def test_grad_leaves_no_trace():
    x = leaf(1.0, 2.0)
    (g,) = torch.autograd.grad((x * x).sum(), x)
    assert g.tolist() == [2, 4] and x.grad is None


def test_grad_of_unused_input():
    x, y = leaf(1.0), leaf(2.0)
    with pytest.raises(RuntimeError, match="input 1 of shape .1,. was not used"):
        torch.autograd.grad(x * 2, [x, y])
    assert torch.autograd.grad(x * 2, [x, y], allow_unused=True)[1] is None
    assert torch.autograd.grad(x * 2, [x, y], materialize_grads=True)[1].tolist() == [0]


def test_grads_for_every_row():
    x = leaf(1.0, 2.0)
    (g,) = torch.autograd.grad(x * x, x, torch.eye(2), is_grads_batched=True)
    assert g.tolist() == [[2, 0], [0, 4]]


def test_gradient_lies_like_its_leaf():
    x = torch.ones(2, 3, requires_grad=True)
    (x.t() * torch.arange(6.0).reshape(3, 2)).sum().backward()
    assert x.grad.stride() == (3, 1) and x.grad.tolist() == [[0, 2, 4], [1, 3, 5]]


def test_inference_tensors_stay_out_of_the_tape():
    x = leaf(1.0, 2.0)
    with torch.inference_mode():
        y = x * 2
    assert y.is_inference() and not y.requires_grad
    with pytest.raises(RuntimeError, match="inference_mode"):
        y.add_(1)
    with pytest.raises(RuntimeError, match="saved for backward"):
        x * y


def test_overlapping_strides_sum_their_gradients():
    x = torch.arange(4.0, requires_grad=True)
    x.as_strided((3, 2), (1, 1)).sum().backward()
    assert x.grad.tolist() == [1, 2, 2, 1]


def test_second_derivative():
    x = leaf(3.0)
    (g,) = torch.autograd.grad(x * x * x, x, create_graph=True)
    (h,) = torch.autograd.grad(g, x)
    assert g.item() == 27 and h.item() == 18


def test_backward_inputs_accumulate_only_there():
    x, y = leaf(1.0), leaf(2.0)
    log = []
    x.register_hook(lambda g: log.append(1) or g * 10)
    (x * y).backward(inputs=[x])
    assert x.grad.item() == 20 and y.grad is None and log == [1]


def test_hooks_of_a_leaf_see_the_sum_once():
    x, log = leaf(1.0), []
    x.register_hook(lambda g: log.append(g.item()))
    (x * 2 + x * 3).sum().backward()
    assert log == [5] and x.grad.item() == 5


def test_leaf_hooks_run_once_the_leaf_is_complete():
    x, y, log = leaf(1.0), leaf(2.0), []
    x.register_post_accumulate_grad_hook(lambda t: log.append("x"))
    y.register_post_accumulate_grad_hook(lambda t: log.append("y"))
    h = y * 2
    h.register_hook(lambda g: log.append("h"))
    (h * x).backward()
    assert log == ["x", "h", "y"]


def test_hook_replaces_and_leaves():
    x = leaf(1.0)
    y = x * 2
    handle = y.register_hook(lambda g: g * 3)
    y.backward(retain_graph=True)
    handle.remove()
    y.backward()
    assert x.grad.item() == 6 + 2


def test_hook_of_wrong_type():
    x = leaf(1.0)
    x.register_hook(lambda g: 3)
    with pytest.raises(TypeError, match="must return a Tensor or None, got int"):
        (x * 2).backward()


def test_retained_grad_comes_after_hooks():
    x = leaf(1.0)
    y = x * 2
    y.retain_grad()
    y.register_hook(lambda g: g * 3)
    (y * 1).backward()
    assert y.grad.item() == 3 and x.grad.item() == 6


def test_post_accumulate_hook():
    x, log = leaf(1.0), []
    handle = x.register_post_accumulate_grad_hook(lambda p: log.append(p.grad.item()))
    (x + x).backward()
    handle.remove()
    (x + x).backward()
    assert log == [2]
    with pytest.raises(RuntimeError, match="must be a leaf"):
        (x * 2).register_post_accumulate_grad_hook(lambda p: None)


def test_node_hooks():
    x, log = leaf(1.0), []
    y = x * 2
    y.grad_fn.register_hook(lambda sent, got: log.append((sent[0].item(), got[0].item())))
    y.grad_fn.register_prehook(lambda got: (got[0] * 5,))
    y.backward()
    assert log == [(10, 5)] and x.grad.item() == 10


def test_nodes_have_names_edges_and_identity():
    x = leaf(1.0)
    y = x * 2
    node = y.grad_fn
    assert type(node).__name__ == "MulBackward0" and node.name() == "MulBackward0"
    assert node is y.grad_fn and isinstance(node, graph.Node)
    accumulator, number = node.next_functions[0]
    assert accumulator.variable is x and number == 0
    assert accumulator.name() == "torch::autograd::AccumulateGrad"
    assert node.next_functions[1:] == ((None, 0),)  # the number, a tensor in torch
    three = torch.tensor(3.0)
    assert node(three)[0].item() == 6 and node(three)[1] is None and len(node(three)) == 2
    assert len((x**2).grad_fn.next_functions) == len(x.exp().grad_fn.next_functions) == 1
    node.metadata["mine"] = 1
    del node
    assert y.grad_fn.metadata["mine"] == 1


def test_accumulator_hook_runs_while_it_is_held():
    x, log = leaf(1.0), []
    accumulator = (x * 1).grad_fn.next_functions[0][0]
    accumulator.register_hook(lambda *a: log.append(1))
    x.sum().backward()
    assert log == [1]


def test_hook_cycle_is_collected():
    x = leaf(1.0)
    y = x * 2
    y.register_hook(lambda g, y=y: None)
    ref = weakref.ref(y)
    del y
    gc.collect()
    assert ref() is None


def test_inplace_error_names_both_lines():
    x = leaf(1.0, 2.0)
    y = x.exp()
    saved = here(-1)
    y.add_(1)
    changed = here(-1)
    with pytest.raises(RuntimeError) as caught:
        y.sum().backward()
    text = str(caught.value)
    for part in ("exp", "add_", f"{__file__}:{saved}", f"{__file__}:{changed}"):
        assert part in text


def test_notes_name_the_forward_line():
    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            raise KeyError("k")

    y = Fails.apply(leaf(1.0))
    line = here(-1)
    with pytest.raises(KeyError) as caught:
        y.sum().backward()
    assert any(f"{__file__}:{line}" in note for note in caught.value.__notes__)
    assert any(f.name == "backward" and str(f.path) == __file__ for f in caught.traceback)


def test_second_order_notes_name_the_forward_line():
    x = leaf(1.0, 2.0)
    y = x.exp()
    line = here(-1)
    (g,) = torch.autograd.grad((y * y).sum(), x, create_graph=True)
    with torch.no_grad():
        y.add_(1)
    with pytest.raises(RuntimeError) as caught:
        g.sum().backward()
    assert any(f"{__file__}:{line}" in note for note in caught.value.__notes__)


def test_second_backward_names_the_shared_part():
    h = leaf(1.0).exp()
    shared = here(-1)
    (h * 2).backward()
    first = here(-1)
    with pytest.raises(RuntimeError) as caught:
        (h * 3).backward()
    assert f":{shared}" in str(caught.value) and f":{first}" in str(caught.value)


def test_anomaly_names_nan():
    x = leaf(0.0)
    with torch.autograd.detect_anomaly():
        assert torch.is_anomaly_enabled()
        with pytest.raises(RuntimeError, match="SqrtBackward0 returned 1 NaN"):
            (x.sqrt() * 0).backward()
    assert not torch.is_anomaly_enabled()
    x.grad = None
    (x.sqrt() * 0).backward()
    assert x.grad.isnan().item()


def test_saved_tensor_hooks_see_inputs_and_results():
    x, log = leaf(1.0, 2.0), []

    def pack(t):
        log.append("pack")
        return t.tolist()

    def unpack(values):
        log.append("unpack")
        return torch.tensor(values)

    with graph.saved_tensors_hooks(pack, unpack):
        y = x.exp() * x
    y.sum().backward()
    expected = (x.detach().exp() * (x.detach() + 1)).tolist()
    assert log.count("pack") == 3 and log.count("unpack") == 3
    assert x.grad.tolist() == pytest.approx(expected)


def test_saved_tensor_hooks_keep_the_history():
    x = leaf(2.0)
    with graph.save_on_cpu():
        y = x * x * x
    (g,) = torch.autograd.grad(y, x, create_graph=True)
    (h,) = torch.autograd.grad(g, x)
    assert g.item() == 12 and h.item() == 12


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x * x,
        lambda x: torch.logaddexp(x, x),
        lambda x: x.exp().sin(),
        lambda x: x.mul_(x),
    ],
    ids=["inputs", "inputs and result", "chain", "in place"],
)
def test_an_op_whose_saving_fails_leaves_nothing_behind(call):
    class Kept:
        pass

    kept = []

    def pack(t):
        if kept:
            raise ValueError("full")
        value = Kept()
        kept.append(weakref.ref(value))
        return value

    x = leaf(1.0, 2.0) * 1
    with graph.saved_tensors_hooks(pack, lambda value: x), pytest.raises(ValueError, match="full"):
        call(x)
    assert kept[0]() is None


def test_disabled_saved_tensor_hooks():
    with graph.disable_saved_tensors_hooks("not here"):
        with pytest.raises(RuntimeError, match="not here"):
            graph.saved_tensors_hooks(lambda t: t, lambda t: t).__enter__()


def test_multi_grad_hook():
    x, y, log = leaf(1.0), leaf(2.0), []
    graph.register_multi_grad_hook([x, y], lambda grads: log.append([g.item() for g in grads]))
    (x * y).backward()
    assert log == [[2, 1]]


def test_view_notices_a_write_to_its_base():
    x = leaf(1.0, 2.0, 3.0)
    y = x * 1
    v = y[:2]
    y.mul_(3)
    v.sum().backward()
    assert x.grad.tolist() == [3, 3, 0]


def test_repeated_double_backward_keeps_memory():
    x = leaf(1.0)
    for _ in range(50):
        x.grad = None
        (x * x).backward(create_graph=True)
    assert x.grad.item() == 2


def test_grad_of_two_results_where_one_is_made_of_the_other():
    x = torch.tensor([3.0], requires_grad=True)
    first = x * x
    second = -first
    weights = [torch.tensor([1.0]), torch.tensor([4.0])]
    assert torch.autograd.grad([first, second], [x], weights)[0].tolist() == [-18.0]


def test_gradients_of_many_rows_take_one_pass():
    x = torch.arange(3.0, requires_grad=True)
    z = torch.ones(2, requires_grad=True)
    y = x**2
    passes = []
    y.register_hook(lambda g: passes.append(g.shape))
    (rows,) = torch.autograd.grad(y, x, torch.eye(3), is_grads_batched=True, retain_graph=True)
    assert rows.tolist() == [[0, 0, 0], [0, 2, 0], [0, 0, 4]] and len(passes) == 1
    first, second = torch.autograd.grad(
        (y, (x * 2).sum()),
        (x, z),
        (torch.eye(3), torch.ones(3)),
        is_grads_batched=True,
        retain_graph=True,
        allow_unused=True,
    )
    assert first.tolist() == [[2, 2, 2], [2, 4, 2], [2, 2, 6]] and second is None
    (again,) = torch.autograd.grad(y, x, torch.eye(3), is_grads_batched=True, create_graph=True)
    (curve,) = torch.autograd.grad(again.sum(), x)
    assert curve.tolist() == [2, 2, 2]
    with pytest.raises(RuntimeError, match="is_grads_batched needs grad_outputs"):
        torch.autograd.grad(y, x, None, is_grads_batched=True)
    with pytest.raises(RuntimeError, match="was not used in the graph"):
        torch.autograd.grad(y, z, torch.eye(3), is_grads_batched=True)


SECOND = {
    "reflect": (lambda x: torch.nn.functional.pad(x, (1, 2), mode="reflect"), (1, 2, 4)),
    "reflect2d": (lambda x: torch.nn.functional.pad(x, (1, 2, 1, 0), mode="reflect"), (1, 1, 3, 4)),
    "replicate": (lambda x: torch.nn.functional.pad(x, (1, 2), mode="replicate"), (1, 2, 4)),
    "circular": (lambda x: torch.nn.functional.pad(x, (1, 2), mode="circular"), (1, 2, 4)),
    "adaptive_max1d": (lambda x: torch.nn.functional.adaptive_max_pool1d(x, 2), (1, 2, 5)),
    "adaptive_max2d": (lambda x: torch.nn.functional.adaptive_max_pool2d(x, 2), (1, 1, 4, 5)),
    "adaptive_max3d": (lambda x: torch.nn.functional.adaptive_max_pool3d(x, 2), (1, 1, 3, 4, 4)),
}


@pytest.mark.parametrize("name", SECOND)
def test_second_derivatives_of_windows(name):
    f, shape = SECOND[name]
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(f, x) and torch.autograd.gradgradcheck(
        lambda x: f(x).square(), x
    )


@pytest.mark.parametrize("count", [1, 3])
def test_second_derivatives_of_prelu(count):
    x = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    w = torch.rand(count, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(torch.nn.functional.prelu, (x, w))
