"""Switches: gradients, default dtype, threads."""

import pytest

import flambeau as torch


def needs_grad():
    return (torch.zeros(1, requires_grad=True) * 2).requires_grad


def test_no_grad_nests_and_restores():
    with torch.no_grad():
        assert not needs_grad()
        with torch.enable_grad():
            assert needs_grad()
        assert not torch.is_grad_enabled()
    assert needs_grad()
    with pytest.raises(ZeroDivisionError):
        with torch.no_grad():
            raise ZeroDivisionError
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("decorate", [torch.no_grad(), torch.no_grad, torch.inference_mode()])
def test_as_decorator(decorate):
    @decorate
    def f(x):
        """doc"""
        return x, needs_grad()

    assert f(3) == (3, False) and f.__doc__ == "doc"
    assert torch.is_grad_enabled()


def test_generators_keep_the_mode_to_themselves():
    @torch.no_grad()
    def f():
        got = yield torch.is_grad_enabled()
        yield got, torch.is_grad_enabled()

    g = f()
    assert next(g) is False and torch.is_grad_enabled()
    assert g.send("x") == ("x", False) and torch.is_grad_enabled()


def test_set_grad_enabled_acts_at_once():
    try:
        torch.set_grad_enabled(False)
        assert not needs_grad()
    finally:
        torch.set_grad_enabled(True)
    with torch.set_grad_enabled(False):
        assert not needs_grad()
    assert needs_grad()

    @torch.set_grad_enabled(False)
    def f():
        return needs_grad()

    assert needs_grad() and not f() and needs_grad()


def test_inference_tensors_count_no_versions():
    with torch.inference_mode():
        x = torch.zeros(1)
    with pytest.raises(RuntimeError, match="inference_mode"):
        x._version  # noqa: B018


def test_default_dtype():
    try:
        torch.set_default_dtype(torch.float64)
        assert torch.zeros(1).dtype is torch.float64
        assert torch.tensor(1.5).dtype is torch.float64
        assert torch.tensor(1j).dtype is torch.complex128
    finally:
        torch.set_default_dtype(torch.float32)
    with pytest.raises(TypeError):
        torch.set_default_dtype(torch.int32)


def test_threads():
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
    with pytest.raises(RuntimeError):
        torch.set_num_threads(0)


def test_seeds():
    g = torch.manual_seed(5)
    assert g is torch.default_generator and torch.initial_seed() == 5
    state = torch.get_rng_state()
    torch.manual_seed(6)
    torch.set_rng_state(state)
    assert torch.get_rng_state().tolist() == state.tolist()
    assert torch.Generator().manual_seed(-1).initial_seed() == 2**64 - 1
    with pytest.raises(ValueError):
        torch.manual_seed(2**64)


def test_a_node_knows_its_line():
    x = torch.zeros(1, requires_grad=True)
    y = x * 2
    where = y.grad_fn.where
    assert "test_modes.py:" in where and where.endswith("in test_a_node_knows_its_line")
