"""The chunking options of PyTorch's linear_cross_entropy, kept so that programs run."""

__all__ = ["LinearCrossEntropyOptions"]


class LinearCrossEntropyOptions:
    """How PyTorch would cut the batch to save memory. The result does not depend on it."""

    __slots__ = (
        "allow_retain_graph",
        "batch_chunk_size",
        "chunking_method",
        "acc_policy",
        "acc_dtype",
    )

    def __init__(
        self,
        allow_retain_graph=False,
        batch_chunk_size=None,
        chunking_method="auto",
        acc_policy="auto",
        acc_dtype=None,
    ):
        if batch_chunk_size is not None and batch_chunk_size <= 0:
            raise ValueError(f"batch_chunk_size must be positive, got {batch_chunk_size}")
        values = (allow_retain_graph, batch_chunk_size, chunking_method, acc_policy, acc_dtype)
        for name, value in zip(self.__slots__, values):
            object.__setattr__(self, name, value)

    def __setattr__(self, name, value):
        raise AttributeError(f"LinearCrossEntropyOptions: cannot change {name}")

    def _values(self):
        return tuple(getattr(self, name) for name in self.__slots__)

    def __reduce__(self):
        return (type(self), self._values())

    def __eq__(self, other):
        return type(other) is type(self) and other._values() == self._values()

    def __hash__(self):
        return hash(self._values())

    def __repr__(self):
        pairs = zip(self.__slots__, self._values())
        return f"LinearCrossEntropyOptions({', '.join(f'{k}={v!r}' for k, v in pairs)})"
