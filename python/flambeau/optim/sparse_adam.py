"""Adam for sparse gradients: only the rows that have a gradient move."""

import flambeau
from flambeau.optim.adam import _check_betas
from flambeau.optim.optimizer import Optimizer, _check_lr, _check_options, _number, _run_closure

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    """Adam whose moments decay in a row only when that row has a gradient."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, maximize=False):
        _check_lr("SparseAdam", lr)
        _check_options("SparseAdam", epsilon=(eps, eps > 0))
        _check_betas(betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        sparse = [
            (i, j)
            for i, group in enumerate(self.param_groups)
            for j, p in enumerate(group["params"])
            if p.is_sparse
        ]
        if sparse:
            raise ValueError(f"SparseAdam requires dense parameter tensors, got sparse at {sparse}")

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("maximize", False)

    def step(self, closure=None):
        """Updates the parameters; returns what `closure`, which runs first, returned."""
        with flambeau.no_grad():
            loss = _run_closure(closure)
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        _update(group, p, self.state[p])
        return loss


def _update(group, p, state):
    if not p.grad.is_sparse:
        raise RuntimeError(
            "SparseAdam does not support dense gradients, please consider Adam instead"
        )
    if len(state) == 0:
        state["step"] = 0
        state["exp_avg"] = flambeau.zeros_like(p)
        state["exp_avg_sq"] = flambeau.zeros_like(p)
    state["step"] += 1
    grad = p.grad.coalesce()
    values = -grad._values() if group["maximize"] else grad._values()
    if values.numel() == 0:
        return
    (beta1, beta2), step = group["betas"], state["step"]

    def sparse(entries):
        return flambeau.sparse_coo_tensor(grad._indices(), entries, grad.shape)

    old_mean = state["exp_avg"].sparse_mask(grad)._values()
    mean_change = values.sub(old_mean).mul_(1 - beta1)
    state["exp_avg"].add_(sparse(mean_change))
    old_square = state["exp_avg_sq"].sparse_mask(grad)._values()
    square_change = values.pow(2).sub_(old_square).mul_(1 - beta2)
    state["exp_avg_sq"].add_(sparse(square_change))
    mean = mean_change.add_(old_mean)
    denom = square_change.add_(old_square).sqrt_().add_(group["eps"])
    size = _number(group["lr"]) * ((1 - beta2**step) ** 0.5) / (1 - beta1**step)
    p.add_(sparse(mean.mul_(-size).div_(denom)))
