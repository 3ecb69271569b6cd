"""Threads and processes change how long a result takes, never its bits."""

import hashlib
import os

import pytest

import flambeau as fl
from flambeau import nn


class Net(nn.Module):
    """A little of what a training run uses: convolution, norms, pooling, embedding, matmul."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(50, 64)
        self.conv = nn.Conv2d(3, 16, 3, padding=1)
        self.norm = nn.BatchNorm2d(16)
        self.hidden = nn.Linear(16 * 14 * 14 + 64, 128)
        self.scale = nn.LayerNorm(128)
        self.out = nn.Linear(128, 10)

    def forward(self, image, word):
        x = nn.functional.max_pool2d(self.norm(self.conv(image)).relu(), 2)
        x = fl.cat([x.flatten(1), self.words(word).mean(1)], 1)
        return self.out(nn.functional.dropout(self.scale(self.hidden(x)).tanh(), 0.1))


def train(steps):
    """Digest of all losses and of the trained weights."""
    fl.manual_seed(3)
    net, seen = Net(), hashlib.sha256()
    optimizer = fl.optim.Adam(net.parameters(), lr=1e-3)
    for _ in range(steps):
        image, word = fl.randn(96, 3, 28, 28), fl.randint(50, (96, 7))
        loss = nn.functional.cross_entropy(net(image, word), fl.randint(10, (96,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen.update(loss.detach().numpy().tobytes())
    for p in net.parameters():
        seen.update(p.detach().numpy().tobytes())
    return seen.hexdigest()


@pytest.fixture
def threads():
    before = fl.get_num_threads()
    yield fl.set_num_threads
    fl.set_num_threads(before)


def test_training_has_the_same_bits_for_any_thread_count(threads):
    found = set()
    for n in (1, 2, 4):
        threads(n)
        found.add(train(12))
    assert len(found) == 1


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("batch", [1, 24])
def test_recurrent_layers_have_the_same_bits_for_any_thread_count(kind, batch, threads):
    fl.manual_seed(1)
    net, x = kind(100, 150, bidirectional=True), fl.randn(6, batch, 100)
    found = set()
    for n in (1, 2, 4):
        threads(n)
        net.zero_grad()
        out = net(x)[0]
        (out**2).sum().backward()
        parts = [out.detach(), *(p.grad for p in net.parameters())]
        found.add(b"".join(t.numpy().tobytes() for t in parts))
    assert len(found) == 1


@pytest.mark.parametrize(
    "f",
    [
        lambda x, i: x.sum(),
        lambda x, i: x.sum(0),
        lambda x, i: x.mean(1),
        lambda x, i: x.var(0),
        lambda x, i: x @ x.mT,
        lambda x, i: x.cumsum(0),
        lambda x, i: x.softmax(-1),
        lambda x, i: x.logsumexp(0),
        lambda x, i: fl.zeros(600, 500).index_add(0, i, x),
        lambda x, i: fl.zeros(600, 500).scatter_add(0, i[:, None].expand(x.shape), x),
        lambda x, i: x.sort(0)[0],
        lambda x, i: fl.empty(300_000).normal_(),
        lambda x, i: nn.functional.conv2d(x.reshape(1, 3, 400, 500), fl.ones(4, 3, 5, 5)),
        lambda x, i: nn.functional.conv_transpose2d(
            x.reshape(25, 20, 24, 50), x[:20, :320].reshape(20, 20, 4, 4), None, 2, 1
        ),
    ],
)
def test_ops_have_the_same_bits_for_any_thread_count(f, threads):
    x = fl.randn(1200, 500)
    i = fl.randint(600, (1200,))
    found = set()
    for n in (1, 2, 3, 4):
        threads(n)
        fl.manual_seed(1)
        found.add(f(x, i).numpy().tobytes())
    assert len(found) == 1


@pytest.mark.parametrize("shape", [(530, 530), (50, 12, 12)], ids=str)
@pytest.mark.parametrize("dtype", [fl.float32, fl.complex128], ids=str)
@pytest.mark.parametrize(
    "f",
    [
        lambda a: fl.linalg.lu_factor(a)[:1],
        lambda a: [fl.linalg.cholesky(a @ a.mH + 100 * fl.eye(a.size(-1)))],
        lambda a: [fl.linalg.inv(a)],
        lambda a: [fl.linalg.solve_triangular(a + 30 * fl.eye(a.size(-1)), a, upper=True)],
        fl.linalg.qr,
        fl.linalg.eigh,
        fl.linalg.svd,
    ],
    ids=["lu", "cholesky", "inv", "triangular", "qr", "eigh", "svd"],
)
def test_decompositions_have_the_same_bits_for_any_thread_count(f, shape, dtype, threads):
    fl.manual_seed(1)
    a, found = fl.randn(shape, dtype=dtype), set()
    for n in (1, 2, 4):
        threads(n)
        found.add(b"".join(t.numpy().tobytes() for t in f(a)))
    assert len(found) == 1


def test_a_forked_child_computes_the_same(threads):
    threads(2)
    expected = train(3)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, train(3).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as f:
        assert f.read() == expected
    assert os.waitpid(child, 0)[1] == 0
    assert train(3) == expected
