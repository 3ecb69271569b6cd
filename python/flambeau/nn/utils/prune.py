"""Pruning: `name` becomes name_orig * name_mask, computed before every forward call."""

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable

import flambeau


class BasePruningMethod(ABC):
    """A rule that makes masks, and the forward pre-hook that applies them.

    Subclasses set PRUNING_TYPE ("unstructured", "structured" or "global") and define compute_mask.
    """

    def __call__(self, module, inputs) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    _tensor_name = None

    @abstractmethod
    def compute_mask(self, t, default_mask):
        """The mask for `t`, given the mask so far."""

    def apply_mask(self, module):
        """The masked tensor."""
        if self._tensor_name is None:
            raise AssertionError(f"prune: {module} has to be pruned first")
        mask = getattr(module, self._tensor_name + "_mask")
        orig = getattr(module, self._tensor_name + "_orig")
        return mask.to(dtype=orig.dtype) * orig

    @classmethod
    def apply(cls, module, name, *args, importance_scores=None, **kwargs):
        """Prunes the parameter `name` of `module`, on top of what is pruned already."""
        old = _find_method(module, name)
        method = cls(*args, **kwargs)
        method._tensor_name = name
        if old is not None:
            key, earlier = old
            container = PruningContainer(earlier)
            container._tensor_name = name
            container.add_pruning_method(method)
            del module._forward_pre_hooks[key]
            method = container
        orig = getattr(module, name)
        if importance_scores is None:
            importance_scores = orig
        elif importance_scores.shape != orig.shape:
            raise AssertionError(
                f"prune: importance_scores must have shape {tuple(orig.shape)}, got "
                f"{tuple(importance_scores.shape)}"
            )
        if old is None:
            module.register_parameter(name + "_orig", orig)
            del module._parameters[name]
            default_mask = flambeau.ones_like(orig)
        else:
            default_mask = getattr(module, name + "_mask").detach().clone()
        try:
            mask = method.compute_mask(importance_scores, default_mask=default_mask)
        except Exception:
            if old is None:
                module.register_parameter(name, module._parameters.pop(name + "_orig"))
            raise
        module.register_buffer(name + "_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(self, t, default_mask=None, importance_scores=None):
        """The pruned copy of a tensor, without any module."""
        if importance_scores is None:
            importance_scores = t
        elif importance_scores.shape != t.shape:
            raise AssertionError(
                f"prune: importance_scores must have shape {tuple(t.shape)}, got "
                f"{tuple(importance_scores.shape)}"
            )
        default_mask = flambeau.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(importance_scores, default_mask=default_mask)

    def remove(self, module) -> None:
        """Makes the masked tensor the parameter; what was pruned is lost for good."""
        name = self._tensor_name
        if name is None:
            raise AssertionError(f"prune: {module} has to be pruned before it can be unpruned")
        weight = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        orig = module._parameters.pop(name + "_orig")
        orig.data = weight.data
        del module._buffers[name + "_mask"]
        setattr(module, name, orig)


def _find_method(module, name):
    """(hook id, pruning method) that prunes `name`, or None."""
    found = [
        (key, hook)
        for key, hook in module._forward_pre_hooks.items()
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name
    ]
    if len(found) > 1:
        raise AssertionError(f"prune: several pruning methods on {name} outside a container")
    return found[0] if found else None


class PruningContainer(BasePruningMethod):
    """Several pruning methods of one tensor, each pruning what the ones before left."""

    def __init__(self, *args) -> None:
        self._pruning_methods = ()
        methods = args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args
        if methods:
            self._tensor_name = methods[0]._tensor_name
        for method in methods:
            self.add_pruning_method(method)

    def add_pruning_method(self, method) -> None:
        """Adds a method, which must prune the same tensor."""
        if not isinstance(method, BasePruningMethod) and method is not None:
            raise TypeError(f"prune: {type(method)} is not a BasePruningMethod subclass")
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueError(
                f"prune: can only add methods that prune '{self._tensor_name}', "
                f"got '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self):
        return iter(self._pruning_methods)

    def __getitem__(self, idx):
        return self._pruning_methods[idx]

    def compute_mask(self, t, default_mask):
        """The mask after the last method, which only sees what is not pruned yet."""
        method = self._pruning_methods[-1]
        mask = default_mask.to(dtype=t.dtype)
        if method.PRUNING_TYPE == "unstructured":
            where = mask == 1
        elif method.PRUNING_TYPE == "structured":
            if not hasattr(method, "dim"):
                raise AttributeError(f"prune: structured method {method} needs a dim")
            dim = method.dim % t.dim()
            rest = [d for d in range(t.dim()) if d != dim]
            kept = mask.sum(dim=rest) != 0
            where = [slice(None)] * t.dim()
            where[dim] = kept
            where = tuple(where)
        elif method.PRUNING_TYPE == "global":
            where = (slice(None),) * t.dim()
        else:
            raise ValueError(f"prune: unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        new = method.compute_mask(t[where], default_mask=mask[where])
        mask = mask.clone()
        mask[where] = new.to(dtype=mask.dtype)
        return mask


class Identity(BasePruningMethod):
    """Prunes nothing; only splits the parameter."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t, default_mask):
        return default_mask

    @classmethod
    def apply(cls, module, name):
        return super().apply(module, name)


class _ShareOfElements(BasePruningMethod):
    """Prunes `amount` (a share or a count) of the elements, those that `_picked` finds."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def _picked(self, t, count):
        raise NotImplementedError

    def compute_mask(self, t, default_mask):
        n = t.nelement()
        count = _compute_nparams_toprune(self.amount, n)
        _validate_pruning_amount(count, n)
        mask = default_mask.clone()
        if count != 0:
            mask.view(-1)[self._picked(t, count).indices] = 0
        return mask


class RandomUnstructured(_ShareOfElements):
    """Prunes `amount` (a share or a count) of the elements at random."""

    def _picked(self, t, count):
        return flambeau.topk(flambeau.rand_like(t).view(-1), k=count)

    @classmethod
    def apply(cls, module, name, amount):
        return super().apply(module, name, amount=amount)


class L1Unstructured(_ShareOfElements):
    """Prunes the `amount` of elements with the smallest absolute values."""

    def _picked(self, t, count):
        return flambeau.topk(flambeau.abs(t).view(-1), k=count, largest=False)

    @classmethod
    def apply(cls, module, name, amount, importance_scores=None):
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)


def _keep_channels(t, dim, channels):
    """A mask of `t`'s shape that is 1 in the given slices along `dim`."""
    mask = flambeau.zeros_like(t)
    where = [slice(None)] * t.dim()
    where[dim] = channels
    mask[tuple(where)] = 1
    return mask


class RandomStructured(BasePruningMethod):
    """Prunes `amount` of the slices along `dim` at random."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount, dim=-1) -> None:
        _validate_pruning_amount_init(amount)
        self.amount, self.dim = amount, dim

    def compute_mask(self, t, default_mask):
        _validate_structured_pruning(t)
        _validate_pruning_dim(t, self.dim)
        n = t.shape[self.dim]
        count = _compute_nparams_toprune(self.amount, n)
        _validate_pruning_amount(count, n)
        if count == 0:
            return default_mask
        prob = flambeau.rand(n)
        threshold = flambeau.kthvalue(prob, k=count).values
        mask = _keep_channels(t, self.dim, prob > threshold)
        return mask * default_mask.to(dtype=mask.dtype)

    @classmethod
    def apply(cls, module, name, amount, dim=-1):
        return super().apply(module, name, amount=amount, dim=dim)


class LnStructured(BasePruningMethod):
    """Prunes the `amount` of slices along `dim` with the smallest n-norms."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount, n, dim=-1) -> None:
        _validate_pruning_amount_init(amount)
        self.amount, self.n, self.dim = amount, n, dim

    def compute_mask(self, t, default_mask):
        _validate_structured_pruning(t)
        _validate_pruning_dim(t, self.dim)
        size = t.shape[self.dim]
        count = _compute_nparams_toprune(self.amount, size)
        _validate_pruning_amount(count, size)
        if count == 0:
            return default_mask
        norms = _compute_norm(t, self.n, self.dim)
        kept = flambeau.topk(norms, k=size - count, largest=True).indices
        mask = _keep_channels(t, self.dim, kept)
        return mask * default_mask.to(dtype=mask.dtype)

    @classmethod
    def apply(cls, module, name, amount, n, dim, importance_scores=None):
        return super().apply(
            module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores
        )


class CustomFromMask(BasePruningMethod):
    """Prunes by a given mask."""

    PRUNING_TYPE = "global"

    def __init__(self, mask) -> None:
        self.mask = mask

    def compute_mask(self, t, default_mask):
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"prune: mask must have shape {tuple(default_mask.shape)}, got "
                f"{tuple(self.mask.shape)}"
            )
        return default_mask * self.mask.to(dtype=default_mask.dtype)

    @classmethod
    def apply(cls, module, name, mask):
        return super().apply(module, name, mask=mask)


def identity(module, name):
    """Splits the parameter without pruning anything."""
    Identity.apply(module, name)
    return module


def random_unstructured(module, name, amount):
    """Prunes `amount` (a share or a count) of the elements at random."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module, name, amount, importance_scores=None):
    """Prunes the elements with the smallest absolute values (or scores)."""
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module, name, amount, dim):
    """Prunes slices along `dim` at random."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(module, name, amount, n, dim, importance_scores=None):
    """Prunes the slices along `dim` with the smallest n-norms."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def global_unstructured(parameters, pruning_method, importance_scores=None, **kwargs) -> None:
    """Prunes elements of all `parameters` [(module, name), ...] as if they were one tensor."""
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured: parameters must be a list of (module, name)")
    parameters = list(parameters)
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured: importance_scores must be a dict")
    flat = flambeau.nn.utils.parameters_to_vector(
        [scores.get((m, name), getattr(m, name)) for m, name in parameters]
    )
    masks = [
        getattr(m, name + "_mask", flambeau.ones_like(getattr(m, name))) for m, name in parameters
    ]
    default_mask = flambeau.nn.utils.parameters_to_vector(masks)
    container = PruningContainer()
    container._tensor_name = "temp"
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    container.add_pruning_method(method)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            f"global_unstructured: PRUNING_TYPE must be 'unstructured', got {method.PRUNING_TYPE!r}"
        )
    mask = container.compute_mask(flat, default_mask)
    start = 0
    for module, name in parameters:
        param = getattr(module, name)
        end = start + param.numel()
        custom_from_mask(module, name, mask=mask[start:end].view_as(param))
        start = end


def custom_from_mask(module, name, mask):
    """Prunes by a given mask."""
    CustomFromMask.apply(module, name, mask)
    return module


def remove(module, name):
    """Makes pruning permanent: the masked tensor becomes the parameter again."""
    found = _find_method(module, name)
    if found is None:
        raise ValueError(
            f"prune.remove: parameter '{name}' of {module._get_name()} has to be pruned first"
        )
    key, method = found
    method.remove(module)
    del module._forward_pre_hooks[key]
    return module


def is_pruned(module) -> bool:
    """Whether any parameter of `module` or below it is pruned."""
    return any(
        isinstance(hook, BasePruningMethod)
        for m in module.modules()
        for hook in m._forward_pre_hooks.values()
    )


def _validate_pruning_amount_init(amount) -> None:
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"prune: amount must be a number, got {amount!r}")
    whole = isinstance(amount, numbers.Integral)
    if (whole and amount < 0) or (not whole and not 0.0 <= float(amount) <= 1.0):
        raise ValueError(
            f"prune: amount must be a share in [0, 1] or a count that is not negative, got {amount}"
        )


def _validate_pruning_amount(amount, tensor_size) -> None:
    if isinstance(amount, numbers.Integral) and amount > tensor_size:
        raise ValueError(f"prune: amount must be at most {tensor_size}, got {amount}")


def _validate_structured_pruning(t) -> None:
    if len(t.shape) <= 1:
        raise ValueError(
            f"prune: structured pruning needs 2 or more dimensions, got shape {tuple(t.shape)}"
        )


def _compute_nparams_toprune(amount, tensor_size) -> int:
    return amount if isinstance(amount, numbers.Integral) else round(amount * tensor_size)


def _validate_pruning_dim(t, dim) -> None:
    if dim >= t.dim():
        raise IndexError(f"prune: dim must be below {t.dim()}, got {dim}")


def _compute_norm(t, n, dim):
    """n-norms of the slices along `dim`."""
    rest = [d for d in range(t.dim()) if d != dim % t.dim()]
    return flambeau.norm(t, p=n, dim=rest)
