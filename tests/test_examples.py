"""The examples do what they say, on data made here: a few images that a network can tell apart."""

import gzip
import pathlib
import random
import struct
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).parent.parent / "examples"


def write_idx(path, shape, content):
    path.write_bytes(
        gzip.compress(struct.pack(f">4B{len(shape)}I", 0, 0, 8, len(shape), *shape) + content, 1)
    )


@pytest.fixture
def data(tmp_path):
    return write_data(tmp_path)


def write_data(folder):
    """A folder like Fashion-MNIST's: image k of class c is noise with a bright bar in row 2 c + 4."""
    draw = random.Random(0)
    for name, count in (("train", 1280), ("t10k", 320)):
        labels = bytes(draw.randrange(10) for _ in range(count))
        images = b""
        for label in labels:
            pixels = bytearray(draw.randbytes(28 * 28))
            row = (2 * label + 4) * 28
            pixels = bytearray(p // 4 for p in pixels)
            pixels[row : row + 28] = b"\xff" * 28
            images += pixels
        write_idx(folder / f"{name}-images-idx3-ubyte.gz", (count, 28, 28), images)
        write_idx(folder / f"{name}-labels-idx1-ubyte.gz", (count,), labels)
    return folder


def run(example, *arguments):
    return subprocess.run(
        [sys.executable, EXAMPLES / example, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
    )


def fashion_mnist(*arguments):
    return run("fashion_mnist.py", *arguments)


def test_fashion_mnist_learns_saves_and_draws(data):
    out, losses = data / "out", data / "losses.txt"
    done = fashion_mnist(
        "--data", data, "--out", out, "--epochs", 3, "--batch", 32, "--losses", losses
    )
    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-1]
    assert last.startswith("test accuracy ") and float(last.split()[-1]) > 0.95
    assert "images/s" in done.stderr and "loss=" in done.stderr
    values = [float(line) for line in losses.read_text().split()]
    assert len(values) == 100 and values[-1] < 0.5 < values[0]
    assert (out / "fashion_mnist.png").read_bytes().startswith(b"\x89PNG")

    import flambeau as torch

    state = torch.load(out / "fashion_mnist.pt")
    assert state["conv2.weight"].shape == (32, 16, 3, 3)


def test_fashion_mnist_gives_the_same_losses_for_the_same_seed(data):
    logs = []
    for threads in (1, 2):
        file = data / f"{threads}.txt"
        arguments = ("--data", data, "--out", data, "--epochs", 1, "--threads", threads)
        done = fashion_mnist(*arguments, "--losses", file)
        assert done.returncode == 0, done.stderr
        logs.append(file.read_text())
    assert logs[0] == logs[1] and logs[0]


def truncate(path):
    path.write_bytes(path.read_bytes()[:-200])


@pytest.mark.parametrize(
    "damage, sentence",
    [
        (pathlib.Path.unlink, "is missing: install"),
        (truncate, "is damaged"),
        (lambda path: path.write_bytes(b"hello"), "is damaged"),
        (lambda path: write_idx(path, (5,), b"12345"), "no IDX file of bytes in 3 dimensions"),
        (
            lambda path: write_idx(path, (9, 28, 28), b"123"),
            "3 bytes where its header says (9, 28, 28)",
        ),
        (lambda path: write_idx(path, (1, 28, 28), bytes(784)), "holds no Fashion-MNIST"),
    ],
    ids=["missing", "truncated", "no-gzip", "other-file", "wrong-size", "mismatch"],
)
def test_bad_data_is_one_sentence(data, damage, sentence):
    damage(data / "train-images-idx3-ubyte.gz")
    done = fashion_mnist("--data", data)
    assert done.returncode == 1
    assert sentence in done.stderr and "--data DIR" in done.stderr
    assert len(done.stderr.splitlines()) == 1


WORDS = "one fish two fish red fish blue fish "
TINY = ("--width", 16, "--layers", 1, "--heads", 2, "--context", 16, "--batch", 8)


def char_gpt(*arguments):
    return run("char_gpt.py", *arguments)


def test_char_gpt_learns_saves_and_writes(tmp_path):
    text, losses = tmp_path / "text.txt", tmp_path / "losses.txt"
    text.write_text(WORDS * 100)
    done = char_gpt(
        *("--data", text, "--out", tmp_path, *TINY, "--steps", 100, "--lr", 0.02),
        *("--prompt", "red ", "--length", 60, "--temperature", 0.1, "--losses", losses),
    )
    assert done.returncode == 0, done.stderr
    values = [float(line) for line in losses.read_text().split()]
    # At first all characters are alike: the loss is the logarithm of their number, 15.
    assert len(values) == 100 and abs(values[0] - 2.708) < 0.05 and values[-1] < 0.5
    assert "tokens/s" in done.stderr and "loss=" in done.stderr
    head, saved, written = done.stdout.splitlines()
    assert head.startswith("3,700 characters, 15 of them different; ")
    assert float(saved.split()[-1]) < 0.5
    assert len(written) == 64 and written.startswith("red fish")
    assert len([word for word in written.split() if word in WORDS.split()]) > 10

    again = char_gpt(
        *("--load", tmp_path / "char_gpt.pt", "--steps", 0),
        *("--prompt", "red ", "--length", 20, "--temperature", 0.1),
    )
    assert again.returncode == 0, again.stderr
    assert again.stdout.startswith("red fish") and len(again.stdout) == 25


def test_char_gpt_has_a_text_of_its_own():
    from pydoc_data import topics

    assert sum(map(len, topics.topics.values())) > 100_000


@pytest.mark.parametrize(
    "content, arguments, sentence",
    [
        (None, (), "is missing: name a text file with --data FILE"),
        (b"", (), "is empty: name a text file with --data FILE"),
        (b"caf\xe9", (), "is no UTF-8 text (byte 3): name a text file"),
        (b"fish", TINY, "4 characters, too few for --context 16: name a text of at least 170"),
        (b"fish" * 99, (*TINY, "--prompt", "q"), "--prompt holds 'q', which the model"),
        (b"fish" * 99, ("--load", "/nowhere.pt"), "/nowhere.pt is missing: leave --load out"),
        (b"fish" * 99, ("--load", __file__), "holds no model of this example"),
    ],
    ids=["missing", "empty", "bytes", "short", "prompt", "no-model", "other-file"],
)
def test_bad_text_is_one_sentence(tmp_path, content, arguments, sentence):
    file = tmp_path / "text.txt"
    if content is not None:
        file.write_bytes(content)
    done = char_gpt("--data", file, "--out", tmp_path, *arguments)
    assert done.returncode == 1
    assert sentence in done.stderr and len(done.stderr.splitlines()) == 1
