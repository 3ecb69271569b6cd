"""Averaging of gradients over processes while the backward pass is still running.

Parameters lie in buckets in reverse order, the order in which their gradients usually appear. A
full bucket starts its all-reduce at once, but never before the bucket ahead of it: all processes
must start them in the same order. The last gradient of a pass waits for all of them.
"""

import flambeau


class GradBucket:
    """The part of all gradients that one all-reduce carries, as communication hooks see it."""

    def __init__(self, index, params):
        self._index, self._params = index, params
        self._last = False
        self._flat = None
        self.pending, self.work = 0, None

    def index(self) -> int:
        """Which bucket it is."""
        return self._index

    def is_last(self) -> bool:
        """Whether it is the last one of a pass."""
        return self._last

    def parameters(self):
        """Its parameters."""
        return list(self._params)

    def buffer(self):
        """All its gradients as one vector."""
        return self._flat

    def set_buffer(self, buffer) -> None:
        """Puts another vector in place of `buffer()`."""
        self._flat = buffer

    def gradients(self):
        """Its gradients, views of `buffer()`."""
        pieces = self._flat.split([p.numel() for p in self._params])
        return [g.view(p.shape) for g, p in zip(pieces, self._params)]

    def fill(self) -> None:
        """Copies the gradients into the vector; a missing one counts as zeros."""
        first = self._params[0]
        size = sum(p.numel() for p in self._params)
        self._flat = flambeau.empty(size, dtype=first.dtype, device=first.device)
        for view, p in zip(self.gradients(), self._params):
            if p.grad is None:
                view.zero_()
            else:
                view.copy_(p.grad)


def make_buckets(params, first_bytes, other_bytes):
    """Buckets of at most so many bytes, each of one dtype and device."""
    buckets, current, size, kind = [], [], 0, None
    for p in reversed(params):
        limit = first_bytes if not buckets else other_bytes
        bytes_ = p.numel() * p.element_size()
        if current and (kind != (p.dtype, p.device) or size + bytes_ > limit):
            buckets.append(current)
            current, size = [], 0
        current.append(p)
        size, kind = size + bytes_, (p.dtype, p.device)
    buckets.append(current)
    made = [GradBucket(i, b) for i, b in enumerate(buckets)]
    made[-1]._last = True
    return made


def reached(outputs):
    """ids of the leaves that the graph of `outputs` leads to."""
    stack = [t.grad_fn for t in outputs if t.grad_fn is not None]
    leaves, seen = {id(t) for t in outputs if t.is_leaf}, set()
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        if variable is not None:
            leaves.add(id(variable))
        stack.extend(n for n, _ in node.next_functions if n is not None)
    return leaves


class Reducer:
    """Watches the gradients of named parameters and averages them over a process group."""

    def __init__(self, named_params, group, find_unused, first_bytes, other_bytes):
        self.names = {id(p): name for name, p in named_params}
        self.group, self.find_unused = group, find_unused
        self.buckets = make_buckets([p for _, p in named_params], first_bytes, other_bytes)
        self.bucket_of = {id(p): b for b in self.buckets for p in b.parameters()}
        self.waiting, self.used, self.next = set(), set(), 0
        self.hook = None
        self.handles = [p.register_post_accumulate_grad_hook(self._ready) for _, p in named_params]

    @property
    def world(self) -> int:
        return flambeau.distributed.get_world_size(self.group)

    def prepare(self, outputs) -> None:
        """Begins to wait for the gradients of one backward pass from `outputs`."""
        if self.waiting:
            names = [n for i, n in self.names.items() if i in self.waiting]
            self.waiting = set()
            raise RuntimeError(
                "DistributedDataParallel: the last backward pass gave no gradient to "
                f"{names[:10]}{' and others' if len(names) > 10 else ''}; use them in forward, or "
                "pass find_unused_parameters=True"
            )
        self.waiting, self.next = set(self.names), 0
        for b in self.buckets:
            b.pending, b.work = len(b.parameters()), None
        self.used = set(self.names)
        if self.find_unused:
            self.used &= reached(outputs)
            for i in set(self.names) - self.used:
                self._arrived(i)

    def _ready(self, param) -> None:
        if id(param) in self.waiting:
            self._arrived(id(param))

    def _arrived(self, key) -> None:
        self.waiting.discard(key)
        self.bucket_of[key].pending -= 1
        while self.next < len(self.buckets) and self.buckets[self.next].pending == 0:
            self._launch(self.buckets[self.next])
            self.next += 1
        if not self.waiting:
            self._finish()

    def _launch(self, bucket) -> None:
        with flambeau.no_grad():
            bucket.fill()
            if self.hook is not None:
                hook, state = self.hook
                bucket.work = hook(state, bucket)
                return
            bucket.buffer().div_(self.world)
            bucket.work = flambeau.distributed.all_reduce(
                bucket.buffer(), group=self.group, async_op=True
            )

    def _used_anywhere(self):
        """ids of the parameters that some process used."""
        if not self.find_unused:
            return self.used
        keys = list(self.names)
        device = self.buckets[0].parameters()[0].device
        flags = flambeau.tensor([k in self.used for k in keys], dtype=flambeau.int32, device=device)
        flambeau.distributed.all_reduce(flags, group=self.group)
        return {k for k, n in zip(keys, flags.tolist()) if n}

    def _finish(self) -> None:
        used = self._used_anywhere()
        with flambeau.no_grad():
            for bucket in self.buckets:
                self._wait(bucket)
                for p, g in zip(bucket.parameters(), bucket.gradients()):
                    if id(p) not in used:
                        continue
                    if p.grad is None:
                        p.grad = g.clone()
                    else:
                        p.grad.copy_(g)
                bucket.set_buffer(None)
                bucket.work = None

    def _wait(self, bucket) -> None:
        work = bucket.work
        if self.hook is None:
            if work is not None:
                work.wait()
            return
        result = work if isinstance(work, flambeau.Tensor) else work.wait()
        bucket.set_buffer(result[0] if isinstance(result, (list, tuple)) else result)
