"""What a module registers, walks, saves, loads, converts, and which hooks it calls."""

import copy
import pickle

import pytest

import flambeau as fl
from flambeau import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 3)
        self.norm = nn.BatchNorm1d(3)
        self.last = nn.Sequential(nn.ReLU(), nn.Linear(3, 1, bias=False))

    def forward(self, x):
        return self.last(self.norm(self.first(x)))


NAMES = ["first.weight", "first.bias", "norm.weight", "norm.bias", "last.1.weight"]
BUFFERS = ["norm.running_mean", "norm.running_var", "norm.num_batches_tracked"]


def test_members_come_in_order_of_assignment():
    net = Net()
    assert [n for n, _ in net.named_parameters()] == NAMES
    assert [n for n, _ in net.named_buffers()] == BUFFERS
    assert [n for n, _ in net.named_modules()] == ["", "first", "norm", "last", "last.0", "last.1"]
    assert [n for n, _ in net.named_children()] == ["first", "norm", "last"]
    assert [n for n, _ in net.named_parameters("p", recurse=False)] == []


def test_shared_parameter_is_walked_once():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    assert len(list(net.parameters())) == 3
    assert len(list(net.named_parameters(remove_duplicate=False))) == 4
    assert len(net.state_dict()) == 4


def test_assignment_before_init_raises():
    class Early(nn.Module):
        def __init__(self, value):
            self.value = value

    with pytest.raises(AttributeError, match="before Module.__init__"):
        Early(nn.Parameter(fl.zeros(1)))
    with pytest.raises(AttributeError, match="before Module.__init__"):
        Early(nn.ReLU())
    for register in ("register_buffer", "register_parameter"):
        with pytest.raises(AttributeError, match="before Module.__init__"):
            getattr(nn.Module.__new__(nn.Module), register)("name", None)


def test_assignment_of_another_kind():
    m = nn.Linear(2, 2)
    with pytest.raises(TypeError):
        m.weight = fl.zeros(2, 2)
    m.bias = None
    assert m.bias is None and list(m._parameters) == ["weight", "bias"]
    m.weight = nn.Parameter(fl.ones(2, 2))
    assert m(fl.ones(2)).tolist() == [2.0, 2.0]
    del m.weight
    with pytest.raises(AttributeError, match="weight"):
        m.weight  # noqa: B018
    b = nn.BatchNorm1d(2)
    b.running_mean = fl.ones(2)
    assert b._buffers["running_mean"].tolist() == [1.0, 1.0]
    with pytest.raises(TypeError):
        b.running_mean = "x"


@pytest.mark.parametrize("register", ["register_parameter", "register_buffer", "add_module"])
@pytest.mark.parametrize("name, error", [("a.b", KeyError), ("", KeyError), (3, TypeError)])
def test_bad_names_are_refused(register, name, error):
    with pytest.raises(error):
        getattr(nn.Module(), register)(name, None)


def test_register_refuses_what_exists_and_what_is_no_leaf():
    m = nn.Linear(1, 1)
    with pytest.raises(KeyError, match="forward"):
        m.register_buffer("forward", fl.zeros(1))
    with pytest.raises(TypeError, match="Parameter"):
        m.register_parameter("p", fl.zeros(1))
    with pytest.raises(TypeError, match="Module"):
        m.add_module("p", 3)


def test_buffer_class_registers_itself():
    m = nn.Module()
    m.kept = nn.Buffer(fl.ones(1))
    m.passing = nn.Buffer(fl.ones(1), persistent=False)
    assert [n for n, _ in m.named_buffers()] == ["kept", "passing"]
    assert list(m.state_dict()) == ["kept"]
    assert isinstance(m.kept, nn.Buffer) and type(m.kept) is fl.Tensor


def test_state_dict_round_trip_keeps_identity():
    a, b = Net(), Net()
    weight = b.first.weight
    state = a.state_dict()
    assert list(state) == [*NAMES[:2], *NAMES[2:4], *BUFFERS, NAMES[4]]
    assert not any(v.requires_grad for v in state.values())
    assert str(b.load_state_dict(state)) == "<All keys matched successfully>"
    assert b.first.weight is weight
    assert b.first.weight.tolist() == a.first.weight.tolist()
    assert state._metadata["norm"] == {"version": 2}


def test_load_reports_missing_unexpected_and_sizes():
    m = nn.Linear(2, 3)
    with pytest.raises(RuntimeError) as e:
        m.load_state_dict({"weight": fl.zeros(3, 4), "extra": fl.zeros(1)})
    text = str(e.value)
    assert 'Missing key(s) in state_dict: "bias"' in text
    assert 'Unexpected key(s) in state_dict: "extra"' in text
    assert "size mismatch for weight" in text and "[3, 4]" in text and "[3, 2]" in text
    keys = m.load_state_dict({"extra": fl.zeros(1)}, strict=False)
    assert keys.missing_keys == ["weight", "bias"] and keys.unexpected_keys == ["extra"]
    with pytest.raises(TypeError):
        m.load_state_dict([1])


def test_load_assign_takes_the_tensor():
    m = nn.Linear(2, 1)
    w = fl.ones(1, 2, dtype=fl.float64)
    m.load_state_dict({"weight": w, "bias": fl.zeros(1)}, assign=True)
    assert m.weight.dtype == fl.float64 and isinstance(m.weight, nn.Parameter)
    w[0, 0] = 5.0
    assert m.weight[0, 0].item() == 5.0


def test_state_dict_hooks():
    m = nn.Linear(1, 1)
    seen = []
    m.register_state_dict_pre_hook(lambda mod, prefix, keep: seen.append(prefix))
    m.register_state_dict_post_hook(lambda mod, d, prefix, meta: d.update({prefix + "x": 1}))
    m.register_load_state_dict_pre_hook(lambda mod, d, prefix, *rest: d.pop(prefix + "x"))
    m.register_load_state_dict_post_hook(lambda mod, keys: keys.missing_keys.clear())
    state = nn.Sequential(m).state_dict()
    assert seen == ["0."] and list(state) == ["0.weight", "0.bias", "0.x"]
    del state["0.bias"]
    assert nn.Sequential(m).load_state_dict(state).missing_keys == []


def test_extra_state():
    class M(nn.Module):
        steps = 0

        def get_extra_state(self):
            return {"steps": self.steps}

        def set_extra_state(self, state):
            self.steps = state["steps"]

    a, b = M(), M()
    a.steps = 7
    b.load_state_dict(a.state_dict())
    assert b.steps == 7
    with pytest.raises(RuntimeError, match="_extra_state"):
        b.load_state_dict({})


def test_forward_hooks_order_and_replacement():
    m = nn.Identity()
    m.register_forward_pre_hook(lambda mod, args: args[0] + "b")
    m.register_forward_pre_hook(lambda mod, args: (args[0] + "a",), prepend=True)
    m.register_forward_hook(lambda mod, args, out: out + "|" + args[0])
    handle = m.register_forward_hook(lambda mod, args, out: out + "!")
    assert m("x") == "xab|xab!"
    with handle:
        pass
    assert m("x") == "xab|xab"
    handle.remove()


def test_hooks_with_kwargs_and_always_call():
    class M(nn.Module):
        def forward(self, x, k=0):
            if k < 0:
                raise ValueError("negative")
            return x + k

    m, seen = M(), []
    m.register_forward_pre_hook(lambda mod, a, kw: (a, {"k": kw["k"] * 2}), with_kwargs=True)
    m.register_forward_hook(
        lambda mod, a, kw, out: seen.append((kw["k"], out)), with_kwargs=True, always_call=True
    )
    assert m(1, k=2) == 5 and seen == [(4, 5)]
    with pytest.raises(ValueError, match="negative"):
        m(1, k=-2)
    assert seen == [(4, 5), (-4, None)]


def test_global_hooks():
    seen = []
    hook = nn.modules.module.register_module_forward_hook(
        lambda mod, args, out: seen.append(type(mod).__name__)
    )
    with hook:
        nn.Sequential(nn.Identity(), nn.ReLU())(fl.ones(1))
    nn.Identity()(1)
    assert seen == ["Identity", "ReLU", "Sequential"]


def test_full_backward_hooks_see_and_change_gradients():
    m = nn.Linear(2, 1, bias=False)
    with fl.no_grad():
        m.weight.copy_(fl.tensor([[2.0, 3.0]]))
    seen = {}
    m.register_full_backward_pre_hook(lambda mod, g: (g[0] * 10,))

    def hook(mod, grad_input, grad_output):
        seen["in"], seen["out"] = grad_input[0].tolist(), grad_output[0].tolist()
        return (grad_input[0] + 1,)

    m.register_full_backward_hook(hook)
    x = fl.ones(2, requires_grad=True)
    m(x).sum().backward()
    assert seen == {"in": [20.0, 30.0], "out": [10.0]}
    assert x.grad.tolist() == [21.0, 31.0]
    assert m.weight.grad.tolist() == [[10.0, 10.0]]
    with pytest.raises(RuntimeError):
        m.register_backward_hook(lambda *a: None)


def test_forward_on_the_instance_and_missing_forward():
    m = nn.Module()
    with pytest.raises(NotImplementedError, match="forward"):
        m(1)
    m.forward = lambda x: x + 1
    assert m(1) == 2


def test_modes_and_gradients():
    net = Net().eval()
    assert not any(m.training for m in net.modules())
    with pytest.raises(ValueError):
        net.train("yes")
    net.train()
    net(fl.ones(4, 2)).sum().backward()
    assert net.first.weight.grad is not None
    net.zero_grad(set_to_none=False)
    assert net.first.weight.grad.abs().sum().item() == 0
    net.zero_grad()
    assert net.first.weight.grad is None
    assert not any(p.requires_grad for p in net.requires_grad_(False).parameters())


def test_to_casts_floats_in_place():
    net = Net()
    weight = net.first.weight
    net.to(fl.float64)
    assert net.first.weight is weight and weight.dtype == fl.float64
    assert net.norm.num_batches_tracked.dtype == fl.int64
    assert net.half().norm.running_mean.dtype == fl.float16
    assert net.to(tensor=fl.ones(1)).first.bias.dtype == fl.float32
    with pytest.raises(TypeError, match="floating"):
        net.to(fl.int32)


def test_apply_children_first():
    order = []
    nn.Sequential(nn.ReLU(), nn.Sequential(nn.Tanh())).apply(
        lambda m: order.append(type(m).__name__)
    )
    assert order == ["ReLU", "Tanh", "Sequential", "Sequential"]


def test_paths():
    net = Net()
    assert net.get_submodule("last.1") is net.last[1]
    assert net.get_submodule("") is net
    assert net.get_parameter("last.1.weight") is net.last[1].weight
    assert net.get_buffer("norm.running_var") is net.norm.running_var
    net.set_submodule("last.0", nn.Tanh())
    assert isinstance(net.last[0], nn.Tanh)
    for path in ("nothing", "first.weight"):
        with pytest.raises(AttributeError):
            net.get_submodule(path)


def test_copy_and_pickle_keep_values_and_hooks():
    net = Net()
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert repr(other) == repr(net)
        assert other.first.weight is not net.first.weight
        assert other.first.weight.tolist() == net.first.weight.tolist()
        assert isinstance(other.first.weight, nn.Parameter)


def test_text():
    class M(nn.Module):
        def extra_repr(self):
            return "k=3"

    m = M()
    assert repr(m) == "M(k=3)" and repr(nn.Module()) == "Module()"
    m.child = nn.Sequential(nn.ReLU())
    assert repr(m) == "M(\n  k=3\n  (child): Sequential(\n    (0): ReLU()\n  )\n)"
    assert "child" in dir(m) and "0" not in dir(m.child)


def test_super_init_takes_no_arguments():
    with pytest.raises(TypeError):
        nn.Module(3)
    with pytest.raises(TypeError):
        nn.Module(x=3)
