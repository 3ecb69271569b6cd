"""Modules with a few names each: futures, versions, types, build facts, _foreach functions, flattened lists."""

import threading

import pytest

import flambeau as torch


def test_futures_wait_for_another_thread():
    answer = torch.futures.Future()
    after = answer.then(lambda f: f.value() + 1)
    seen = []
    answer.add_done_callback(lambda f: seen.append(f.value()))
    assert not answer.done()
    with pytest.raises(RuntimeError, match="needs a result"):
        answer.value()
    threading.Timer(0.01, answer.set_result, [41]).start()
    assert after.wait() == 42 and seen == [41] and answer.done()
    with pytest.raises(RuntimeError, match="set before"):
        answer.set_result(1)


def test_futures_carry_exceptions():
    parts = [torch.futures.Future() for _ in range(2)]
    whole = torch.futures.collect_all(parts)
    parts[1].set_exception(KeyError("lost"))
    assert not whole.done()
    parts[0].set_result(0)
    with pytest.raises(KeyError, match="lost"):
        whole.wait()
    with pytest.raises(KeyError, match="lost"):
        parts[1].then(lambda f: f.value()).wait()
    assert torch.futures.wait_all([parts[0]]) == [0]
    assert torch.futures.collect_all([]).wait() == []


def test_versions_compare_by_numbers():
    version = torch.torch_version.TorchVersion("2.13.0a1+cpu")
    assert version > "2.9" and version < "2.13" and version >= (2, 12) and version != "2.13.0"
    assert version == torch.torch_version.TorchVersion("2.13.0a1") and version.startswith("2.13")
    assert torch.torch_version.__version__ == torch.__version__
    with pytest.raises(ValueError, match="no version"):
        assert version < "soon"


def test_small_facts():
    assert "threads" in torch.__config__.parallel_info() and "CPU" in torch.__config__.show()
    assert isinstance(3, torch.types.Number) and isinstance("cpu", torch.types.Device)
    assert torch.mtia.is_available() is False and torch.mtia.device_count() == 0
    for name in ("solve", "eig"):
        with pytest.raises(RuntimeError, match=f"{name}: torch has removed .*linalg.{name}"):
            getattr(torch, name)(torch.eye(2))


def test_foreach_functions():
    x = [torch.ones(2, requires_grad=True), torch.full((3,), 2.0)]
    sums = torch._foreach_add(x, 1)
    assert [t.tolist() for t in sums] == [[2, 2], [3, 3, 3]] and sums[0].requires_grad
    y = [t.detach().clone() for t in x]
    assert torch._foreach_mul_(y, [2, 3]) is None
    assert [t.tolist() for t in y] == [[2, 2], [6, 6, 6]]
    torch._foreach_sub_(y, y, alpha=0.5)
    torch._foreach_addcmul_(y, y, y, value=2)
    assert [t[0].item() for t in y] == [3, 21]
    assert [t[0].item() for t in torch._foreach_sqrt([torch.tensor([4.0])])] == [2]
    with pytest.raises(RuntimeError, match="of one length, got 2 and 1"):
        torch._foreach_mul_(y, [2])
    with pytest.raises(RuntimeError, match="at least one tensor"):
        torch._foreach_neg([])


def test_lists_are_flattened_and_back():
    parts = [torch.arange(6).reshape(2, 3), torch.arange(2)]
    flat = torch._utils._flatten_dense_tensors(parts)
    assert flat.tolist() == [0, 1, 2, 3, 4, 5, 0, 1]
    back = torch._utils._unflatten_dense_tensors(flat, parts)
    assert all(torch.equal(a, b) for a, b in zip(back, parts)) and isinstance(back, tuple)
