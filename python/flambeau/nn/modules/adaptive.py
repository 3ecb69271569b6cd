"""Softmax over many classes by frequency (Grave et al. 2017)."""

from __future__ import annotations

from collections import namedtuple

import flambeau
from flambeau import Tensor
from flambeau.nn.modules.container import ModuleList, Sequential
from flambeau.nn.modules.linear import Linear
from flambeau.nn.modules.module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss"]

_ASMoutput = namedtuple("_ASMoutput", ["output", "loss"])


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log-softmax whose rare classes sit in clusters behind the frequent ones.

    `cutoffs` are the first class of each cluster; cluster i works in in_features / div_value^(i+1)
    dimensions. forward(input (N, in_features), target (N,)) -> (output (N,), loss).
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: list[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device=None,
        dtype=None,
    ) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        if len(cutoffs) == 0:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        rising = cutoffs == sorted(set(cutoffs))
        ints = all(int(c) == c for c in cutoffs)
        if not rising or not ints or min(cutoffs) <= 0 or max(cutoffs) > n_classes - 1:
            raise ValueError(
                "cutoffs must be rising, unique integers between 1 and n_classes - 1 = "
                f"{n_classes - 1}, got {cutoffs}"
            )
        new = {"device": device, "dtype": dtype}
        self.in_features, self.n_classes = in_features, n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value, self.head_bias = div_value, head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, **new)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            hidden = int(in_features // (div_value ** (i + 1)))
            classes = self.cutoffs[i + 1] - self.cutoffs[i]
            first = Linear(in_features, hidden, bias=False, **new)
            self.tail.append(Sequential(first, Linear(hidden, classes, bias=False, **new)))

    def reset_parameters(self) -> None:
        """Draws all weights again."""
        self.head.reset_parameters()
        for first, second in self.tail:
            first.reset_parameters()
            second.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        batched = target_.dim() == 1
        self._check(input_, target_)
        x = input_ if batched else input_.unsqueeze(0)
        target = target_ if batched else target_.unsqueeze(0)
        head = self.head(x).log_softmax(dim=1)
        column = target.clone()  # the class, or the cluster's column, in the head
        extra = x.new_zeros(target.size(0))  # log-probabilities within clusters
        for i in range(self.n_clusters):
            low, high = self.cutoffs[i], self.cutoffs[i + 1]
            rows = ((target >= low) & (target < high)).nonzero().squeeze(1)
            if rows.numel() == 0:
                continue
            logits = self.tail[i](x.index_select(0, rows)).log_softmax(dim=1)
            own = (target.index_select(0, rows) - low).unsqueeze(1)
            extra = extra.index_copy(0, rows, logits.gather(1, own).squeeze(1))
            column.index_fill_(0, rows, self.shortlist_size + i)
        if not bool(((target >= 0) & (target < self.n_classes)).all()):
            raise RuntimeError(
                f"target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{target.min().item()}, {target.max().item()}] were found"
            )
        output = head.gather(1, column.unsqueeze(1)).squeeze(1) + extra
        loss = (-output).mean()
        return _ASMoutput(output if batched else output.squeeze(0), loss)

    def _check(self, input, target) -> None:
        if target.dim() == 1:
            if input.dim() != 2:
                raise RuntimeError(
                    f"1D target tensor expects 2D input tensors, but found inputs with size "
                    f"{input.size()}"
                )
            if input.size(0) != target.size(0):
                raise RuntimeError(
                    "Input and target should have the same size in the batch dimension, got "
                    f"{input.size(0)} and {target.size(0)}"
                )
        elif target.dim() == 0:
            if input.dim() != 1:
                raise RuntimeError(
                    f"0D target tensor expects 1D input tensors, but found inputs with size "
                    f"{input.size()}"
                )
        else:
            raise RuntimeError(f"0D or 1D target tensor expected, got {target.dim()}D")

    def _get_full_log_prob(self, input, head_output):
        out = input.new_empty((head_output.size(0), self.n_classes))
        head = head_output.log_softmax(dim=1)
        out[:, : self.shortlist_size] = head[:, : self.shortlist_size]
        for i, cluster in enumerate(self.tail):
            within = cluster(input).log_softmax(dim=1)
            total = within + head[:, self.shortlist_size + i].unsqueeze(1)
            out[:, self.cutoffs[i] : self.cutoffs[i + 1]] = total
        return out

    def log_prob(self, input):
        """Log-probabilities of all classes: (N, n_classes)."""
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input):
        """The most likely class of each row; clusters are only looked into where needed."""
        head = self.head(input)
        output = head.argmax(dim=1)
        in_cluster = output >= self.shortlist_size
        if not bool(in_cluster.any()):
            return output
        rows = in_cluster.nonzero().squeeze(1)
        full = self._get_full_log_prob(input[rows], head[rows])
        return output.index_copy(0, rows, flambeau.argmax(full, dim=1))
