"""Trains a small convolutional network on Fashion-MNIST, saves it and draws what it learnt.

    python examples/fashion_mnist.py                     Debian's dataset-fashion-mnist, 5 epochs
    python examples/fashion_mnist.py --data DIR --epochs 1 --threads 1

Only torch's interface is used: with the word flambeau replaced by torch, the script runs on PyTorch.
"""

import argparse
import gzip
import math
import os
import struct
import sys
import zlib

from tqdm import tqdm

import flambeau as torch
from flambeau import nn
from flambeau.nn import functional as F
from flambeau.utils.data import DataLoader, TensorDataset

CLASSES = "T-shirt trouser pullover dress coat sandal shirt sneaker bag boot".split()
DEBIAN = "/usr/share/datasets/fashion-mnist"
MEAN, STD = 0.2860, 0.3530  # of the training pixels, scaled to [0, 1]
LOSSES_KEPT = 100


class DataError(Exception):
    """A data file is missing or damaged; the message says what to do."""


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.hidden = nn.Linear(32 * 7 * 7, 64)
        self.classes = nn.Linear(64, len(CLASSES))

    def forward(self, x):  # (B, 1, 28, 28)
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)  # (B, 16, 14, 14)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)  # (B, 32, 7, 7)
        x = F.relu(self.hidden(x.flatten(1)))  # (B, 64)
        return self.classes(x)  # (B, 10)


def read_idx(path, ndim):
    """An IDX file of bytes as a uint8 tensor: two zeros, type 8, number of dims, the sizes, the bytes."""
    advice = (
        "install Debian's package dataset-fashion-mnist or name the folder "
        "that holds the four .gz files with --data DIR"
    )
    try:
        with gzip.open(path) as file:
            content = bytearray(file.read())
    except FileNotFoundError:
        raise DataError(f"{path} is missing: {advice}") from None
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} is damaged ({error}): fetch it again or {advice}") from None
    start = 4 + 4 * ndim
    if len(content) < start or tuple(content[:4]) != (0, 0, 8, ndim):
        raise DataError(f"{path} is no IDX file of bytes in {ndim} dimensions: {advice}")
    shape = struct.unpack(f">{ndim}I", content[4:start])
    if len(content) - start != math.prod(shape) or 0 in shape:
        raise DataError(
            f"{path} is damaged: {len(content) - start} bytes where its header says {shape}: {advice}"
        )
    return torch.frombuffer(content, dtype=torch.uint8, offset=start).reshape(shape)


def read_split(folder, name):
    """Images as floats (N, 1, 28, 28) of mean 0 and deviation 1, labels as int64 (N,)."""
    images = read_idx(os.path.join(folder, f"{name}-images-idx3-ubyte.gz"), 3)
    labels = read_idx(os.path.join(folder, f"{name}-labels-idx1-ubyte.gz"), 1)
    if tuple(images.shape[1:]) != (28, 28) or len(images) != len(labels) or labels.max() > 9:
        raise DataError(
            f"{folder} holds no Fashion-MNIST, name another with --data DIR: the {name} images are "
            f"{tuple(images.shape)}, their {len(labels)} labels go up to {labels.max()}"
        )
    pixels = (images.unsqueeze(1).float() / 255 - MEAN) / STD
    return TensorDataset(pixels, labels.long())


def one_cycle(step, steps, peak):
    """Learning rate: up to `peak` over the first fifth, then down to zero (Smith 2018)."""
    rise = max(steps // 5, 1)
    if step < rise:
        return peak * (step + 1) / rise
    return peak * 0.5 * (1 + math.cos(math.pi * (step - rise) / max(steps - rise, 1)))


def accuracy(net, data):
    correct = 0
    with torch.no_grad():
        for images, labels in DataLoader(data, batch_size=500):
            correct += (net(images).argmax(1) == labels).sum().item()
    return correct / len(data)


def train(net, train_data, test_data, args):
    """Trains the network; returns the loss of every step."""
    loader = DataLoader(train_data, batch_size=args.batch, shuffle=True)
    optimizer = torch.optim.Adam(net.parameters(), lr=args.lr)
    steps = args.epochs * len(loader)
    losses = []
    with tqdm(total=args.epochs * len(train_data), unit=" images", unit_scale=True) as bar:
        for epoch in range(args.epochs):
            bar.set_description(f"epoch {epoch + 1}/{args.epochs}")
            for images, labels in loader:
                for group in optimizer.param_groups:
                    group["lr"] = one_cycle(len(losses), steps, args.lr)
                loss = F.cross_entropy(net(images), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
                bar.update(len(labels))
                if len(losses) % 10 == 0:
                    bar.set_postfix(loss=f"{sum(losses[-10:]) / 10:.3f}")
            mean = sum(losses[-len(loader) :]) / len(loader)
            score = accuracy(net, test_data)
            bar.write(f"epoch {epoch + 1}: loss {mean:.4f}, test accuracy {score:.4f}", sys.stdout)
    return losses


def smooth(values, window):
    """Running means over up to `window` values."""
    sums = [0.0]
    for value in values:
        sums.append(sums[-1] + value)
    return [
        (sums[i] - sums[max(i - window, 0)]) / min(i, window) for i in range(1, len(values) + 1)
    ]


def draw(path, net, data, losses, steps_per_epoch, score):
    """A picture: the loss over the epochs, and test images with what the network takes them for."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    rows, columns = 4, 8
    pixels, labels = data[: rows * columns]
    with torch.no_grad():
        guesses = net(pixels).argmax(1).tolist()

    figure = plt.figure(figsize=(14, 5.6), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=[1, 2])
    axis = left.subplots()
    epochs = [(step + 1) / steps_per_epoch for step in range(len(losses))]
    axis.plot(epochs, losses, color="lightsteelblue", linewidth=0.6, label="each step")
    window = max(min(50, len(losses) // 20), 1)
    axis.plot(epochs, smooth(losses, window), color="navy", label=f"mean of {window} steps")
    axis.set(xlabel="epoch", ylabel="cross-entropy", title="training loss")
    axis.set_xlim(0, epochs[-1])
    axis.set_ylim(0, min(max(losses), 1.5))
    axis.grid(alpha=0.3)
    axis.legend()

    right.suptitle(f"test accuracy {score:.4f}; mistakes in red, with the right answer in brackets")
    for axis, image, label, guess in zip(
        right.subplots(rows, columns).flat, pixels.squeeze(1).tolist(), labels.tolist(), guesses
    ):
        axis.imshow(image, cmap="gray_r")
        right_guess = guess == label
        text = CLASSES[guess] if right_guess else f"{CLASSES[guess]}\n({CLASSES[label]})"
        axis.set_title(text, fontsize=9, color="black" if right_guess else "red")
        axis.set(xticks=[], yticks=[])
        for spine in axis.spines.values():
            spine.set(
                color="lightgray" if right_guess else "red", linewidth=1 if right_guess else 2
            )
    figure.savefig(path, dpi=110)


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=DEBIAN, help="folder of the four .gz files")
    parser.add_argument("--out", default="out", help="folder for the model and the picture")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--lr", type=float, default=3e-3, help="highest learning rate")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, help="threads to compute with (default: all)")
    parser.add_argument("--losses", help=f"write the first {LOSSES_KEPT} losses to this file")
    args = parser.parse_args()
    for name in ("epochs", "batch", "threads"):
        if getattr(args, name) is not None and getattr(args, name) < 1:
            parser.error(f"--{name} must be at least 1, got {getattr(args, name)}")
    return args


def main():
    args = parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    try:
        train_data, test_data = read_split(args.data, "train"), read_split(args.data, "t10k")
    except DataError as error:
        sys.exit(f"fashion_mnist: {error}")
    os.makedirs(args.out, exist_ok=True)

    net = Net()
    losses = train(net, train_data, test_data, args)
    if args.losses:
        with open(args.losses, "w") as file:
            file.writelines(f"{loss!r}\n" for loss in losses[:LOSSES_KEPT])
    score = accuracy(net, test_data)
    model, picture = (os.path.join(args.out, f"fashion_mnist.{kind}") for kind in ("pt", "png"))
    torch.save(net.state_dict(), model)
    draw(picture, net, test_data, losses, len(losses) // args.epochs, score)
    print(f"saved {model} and {picture}")
    print(f"test accuracy {score:.4f}")


if __name__ == "__main__":
    main()
