"""Trains a small GPT on the characters of a text, saves it and lets it write.

    python examples/char_gpt.py                         the manual that comes with Python
    python examples/char_gpt.py --data FILE --steps 2000 --prompt "Once upon"
    python examples/char_gpt.py --load out/char_gpt.pt --steps 0 --length 2000    writes only

Only torch's interface is used: with the word flambeau replaced by torch, the script runs on PyTorch.
"""

import argparse
import math
import os
import sys

from tqdm import tqdm

import flambeau as torch
from flambeau import nn
from flambeau.nn import functional as F

LOSSES_KEPT = 100
SHAPE = ("width", "layers", "heads", "context")  # what a saved model was made with
ADVICE = "name a text file with --data FILE"


class InputError(Exception):
    """A file or an argument cannot be used; the message says what to do."""


class Block(nn.Module):
    """Attention to what came before, then a small network; each adds to what passes by."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.mix = nn.Linear(width, width)
        self.wide = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)

    def attend(self, x):  # (B, T, width)
        B, T, width = x.shape
        qkv = self.qkv(x).view(B, T, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)  # each (B, heads, T, width / heads)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.mix(seen.transpose(1, 2).reshape(B, T, width))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.narrow(F.gelu(self.wide(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, characters, width, layers, heads, context):
        super().__init__()
        self.context = context
        self.characters = nn.Embedding(characters, width)
        self.places = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, characters, bias=False)
        for name, weight in self.named_parameters():
            if weight.ndim == 2:
                # The branches that add to x start smaller, so that x does not grow with the depth.
                small = name.endswith(("mix.weight", "narrow.weight"))
                nn.init.normal_(weight, std=0.02 / (math.sqrt(2 * layers) if small else 1))

    def forward(self, tokens):  # (B, T)
        places = torch.arange(tokens.shape[1])
        x = self.characters(tokens) + self.places(places)  # (B, T, width)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))  # (B, T, characters)


def read_text(path):
    """The text of a file, or of the manual of Python that `help()` shows."""
    if path is None:
        try:
            from pydoc_data import topics
        except ImportError:
            raise InputError(f"this Python comes without its manual: {ADVICE}") from None
        return "\n\n".join(text for _, text in sorted(topics.topics.items()))
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        raise InputError(f"{path} is missing: {ADVICE}") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}): {ADVICE}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is no UTF-8 text (byte {error.start}): {ADVICE}") from None
    if not text:
        raise InputError(f"{path} is empty: {ADVICE}")
    return text


def encode(text, characters, what):
    index = {character: i for i, character in enumerate(characters)}
    unknown = sorted(set(text) - set(characters))
    if unknown:
        raise InputError(
            f"{what} holds {unknown[0]!r}, which the model does not know: leave it out"
        )
    return torch.tensor([index[character] for character in text])


def split(tokens, context, path):
    """The first nine tenths to train on, the rest to test with."""
    cut = len(tokens) * 9 // 10
    if min(cut, len(tokens) - cut) <= context:
        raise InputError(
            f"{path or 'the text'} holds {len(tokens)} characters, too few for --context {context}: "
            f"name a text of at least {10 * context + 10} with --data FILE or lower --context"
        )
    return tokens[:cut], tokens[cut:]


def sample_batch(tokens, batch, context):
    """Pieces of the text, and the same pieces one character further: both (B, T)."""
    starts = torch.randint(len(tokens) - context, (batch,))
    pieces = tokens[starts[:, None] + torch.arange(context + 1)]
    return pieces[:, :-1], pieces[:, 1:]


def loss_of(net, inputs, targets):
    return F.cross_entropy(net(inputs).flatten(0, 1), targets.flatten())


def test_loss(net, tokens, batch):
    """The mean over the test text, cut into pieces that do not overlap; at most 64 batches."""
    context = net.context
    pieces = (len(tokens) - 1) // context
    inputs = tokens[: pieces * context].view(pieces, context)[: 64 * batch]
    targets = tokens[1 : pieces * context + 1].view(pieces, context)[: 64 * batch]
    with torch.no_grad():
        losses = [
            loss_of(net, i, t) * len(i) for i, t in zip(inputs.split(batch), targets.split(batch))
        ]
    return sum(losses).item() / len(inputs)


def learning_rate(step, steps):
    """A share of the highest rate: up over the first twentieth, then down a cosine to a tenth."""
    rise = max(steps // 20, 1)
    if step < rise:
        return (step + 1) / rise
    return 0.1 + 0.45 * (1 + math.cos(math.pi * (step - rise) / max(steps - rise, 1)))


def train(net, tokens, args):
    """Trains the network; returns the loss of every step."""
    optimizer = torch.optim.AdamW(net.parameters(), lr=args.lr, weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: learning_rate(i, args.steps))
    losses = []
    per_step = args.batch * net.context
    with tqdm(total=args.steps * per_step, unit=" tokens", unit_scale=True) as bar:
        for _ in range(args.steps):
            loss = loss_of(net, *sample_batch(tokens, args.batch, net.context))
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
            bar.set_postfix(loss=f"{sum(losses[-20:]) / len(losses[-20:]):.3f}", refresh=False)
            bar.update(per_step)
    return losses


def write(net, tokens, length, temperature):
    """Appends `length` characters, each drawn from what the network expects after the last ones."""
    tokens = tokens[None]  # (1, T)
    with torch.no_grad():
        for _ in range(length):
            scores = net(tokens[:, -net.context :])[:, -1] / temperature  # (1, characters)
            drawn = torch.multinomial(scores.softmax(-1), 1)
            tokens = torch.cat([tokens, drawn], 1)
    return tokens[0].tolist()


def load(path):
    """A saved model's shape, its characters and its weights."""
    try:
        saved = torch.load(path)
        return {name: saved[name] for name in SHAPE}, saved["characters"], saved["weights"]
    except FileNotFoundError:
        raise InputError(f"{path} is missing: leave --load out to train a new model") from None
    except Exception as error:
        raise InputError(f"{path} holds no model of this example ({error})") from None


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="a text in UTF-8 (default: Python's manual)")
    parser.add_argument("--out", default="out", help="folder for the model")
    parser.add_argument("--load", help="a saved model to go on with; gives the four sizes")
    parser.add_argument("--width", type=int, default=128, help="numbers per character")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--context", type=int, default=128, help="characters it looks back")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--lr", type=float, default=2e-3, help="highest learning rate")
    parser.add_argument("--prompt", help="what the written text starts with (default: a new line)")
    parser.add_argument("--length", type=int, default=400, help="characters to write")
    parser.add_argument("--temperature", type=float, default=0.8, help="higher is more daring")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, help="threads to compute with (default: all)")
    parser.add_argument("--losses", help=f"write the first {LOSSES_KEPT} losses to this file")
    args = parser.parse_args()
    least = {"steps": 0, "length": 0} | dict.fromkeys((*SHAPE, "batch", "threads"), 1)
    for name, value in least.items():
        if getattr(args, name) is not None and getattr(args, name) < value:
            parser.error(f"--{name} must be at least {value}, got {getattr(args, name)}")
    if args.width % args.heads:
        parser.error(f"--width must be a multiple of --heads, got {args.width} and {args.heads}")
    if not args.temperature > 0:
        parser.error(f"--temperature must be positive, got {args.temperature}")
    if args.prompt == "":
        parser.error("--prompt must hold at least one character")
    return args


def run(args):
    shape, characters, weights = {name: getattr(args, name) for name in SHAPE}, None, None
    if args.load:
        shape, characters, weights = load(args.load)
    text = read_text(args.data) if args.steps or not args.load else ""
    characters = characters or "".join(sorted(set(text)))
    start = args.prompt or ("\n" if "\n" in characters else characters[0])
    prompt = encode(start, characters, "--prompt")
    net = GPT(len(characters), **shape)
    if weights:
        net.load_state_dict(weights)
    if text:
        tokens = encode(text, characters, args.data or "the text")
        train_part, test_part = split(tokens, net.context, args.data)
        count = sum(weight.numel() for weight in net.parameters())
        print(f"{len(text):,} characters, {len(characters)} of them different; {count:,} weights")
        losses = train(net, train_part, args)
        if args.losses:
            with open(args.losses, "w") as file:
                file.writelines(f"{loss!r}\n" for loss in losses[:LOSSES_KEPT])
        os.makedirs(args.out, exist_ok=True)
        path = os.path.join(args.out, "char_gpt.pt")
        torch.save({**shape, "characters": characters, "weights": net.state_dict()}, path)
        print(f"saved {path}, test loss {test_loss(net, test_part, args.batch):.4f}")
    written = write(net, prompt, args.length, args.temperature)
    print("".join(characters[i] for i in written).strip("\n"))


def main():
    args = parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    try:
        run(args)
    except InputError as error:
        sys.exit(f"char_gpt: {error}")


if __name__ == "__main__":
    main()
