"""L-BFGS (Liu and Nocedal 1989), with an optional line search for the strong Wolfe conditions."""

import flambeau
from flambeau.optim.optimizer import Optimizer, _check_lr, _number

__all__ = ["LBFGS"]


def _cubic_interpolate(x1, f1, g1, x2, f2, g2, bounds=None):
    """The minimum of the cubic through two points with slopes (Nocedal and Wright, 3.59)."""
    low, high = bounds if bounds is not None else ((x1, x2) if x1 <= x2 else (x2, x1))
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    d2_square = d1**2 - g1 * g2
    if d2_square < 0:
        return (low + high) / 2.0
    d2 = d2_square**0.5 if not isinstance(d2_square, flambeau.Tensor) else d2_square.sqrt()
    if x1 <= x2:
        at = x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2))
    else:
        at = x1 - (x1 - x2) * ((g1 + d2 - d1) / (g1 - g2 + 2 * d2))
    return min(max(at, low), high)


class _Search:
    """A line search from x along d for the strong Wolfe conditions (Nocedal and Wright, 3.5)."""

    C1, C2, MAX_STEPS = 1e-4, 0.9, 25

    def __init__(self, evaluate, x, d, f, gtd, tolerance):
        self.evaluate, self.x, self.d = evaluate, x, d
        self.f0, self.gtd0 = f, gtd
        self.d_norm = d.abs().max()
        self.tolerance = tolerance
        self.calls = 0

    def at(self, t):
        f, g = self.evaluate(self.x, t, self.d)
        self.calls += 1
        return f, g.clone(), g.dot(self.d)

    def too_high(self, t, f):
        return f > self.f0 + self.C1 * t * self.gtd0

    def bracket(self, t, g):
        """Two points between which the conditions hold, or one where they do."""
        before = (0, self.f0, g.clone(), self.gtd0)
        now = (t, *self.at(t))
        steps = 0
        while steps < self.MAX_STEPS:
            if self.too_high(now[0], now[1]) or (steps > 1 and now[1] >= before[1]):
                return [before, now], steps, False
            if abs(now[3]) <= -self.C2 * self.gtd0:
                return [now], steps, True
            if now[3] >= 0:
                return [before, now], steps, False
            low = now[0] + 0.01 * (now[0] - before[0])
            t = _cubic_interpolate(
                before[0], before[1], before[3], now[0], now[1], now[3], (low, now[0] * 10)
            )
            before, now = now, (t, *self.at(t))
            steps += 1
        return [(0, self.f0, g, self.gtd0), now], steps, False

    def zoom(self, points, steps, done):
        """Narrows a bracket down."""
        stuck = False
        low, high = (0, 1) if points[0][1] <= points[-1][1] else (1, 0)
        while not done and steps < self.MAX_STEPS:
            width = abs(points[1][0] - points[0][0])
            if width * self.d_norm < self.tolerance:
                break
            t, stuck = self._inside(points, stuck)
            new = (t, *self.at(t))
            steps += 1
            if self.too_high(t, new[1]) or new[1] >= points[low][1]:
                points[high] = new
                low, high = (0, 1) if points[0][1] <= points[1][1] else (1, 0)
                continue
            if abs(new[3]) <= -self.C2 * self.gtd0:
                done = True
            elif new[3] * (points[high][0] - points[low][0]) >= 0:
                points[high] = points[low]
            points[low] = new
        return points[low]

    def _inside(self, points, stuck):
        (x1, f1, _, g1), (x2, f2, _, g2) = points
        t = _cubic_interpolate(x1, f1, g1, x2, f2, g2)
        left, right = min(x1, x2), max(x1, x2)
        margin = 0.1 * (right - left)
        if min(right - t, t - left) >= margin:
            return t, False
        # Close to an end twice, or outside: move away from it.
        if stuck or t >= right or t <= left:
            near_right = abs(t - right) < abs(t - left)
            return (right - margin if near_right else left + margin), False
        return t, True


def _strong_wolfe(evaluate, x, t, d, f, g, gtd, tolerance_change=1e-9):
    """(value, gradient, step length, calls of the function)."""
    search = _Search(evaluate, x, d, f, gtd, tolerance_change)
    t, f, g, _ = search.zoom(*search.bracket(t, g))
    return f, g, t, search.calls


class LBFGS(Optimizer):
    """Quasi-Newton steps from the last `history_size` changes; `step` needs a closure."""

    def __init__(
        self,
        params,
        lr=1,
        max_iter=20,
        max_eval=None,
        tolerance_grad=1e-7,
        tolerance_change=1e-9,
        history_size=100,
        line_search_fn=None,
    ):
        _check_lr("LBFGS", lr)
        super().__init__(
            params,
            {
                "lr": lr,
                "max_iter": max_iter,
                "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
                "tolerance_grad": tolerance_grad,
                "tolerance_change": tolerance_change,
                "history_size": history_size,
                "line_search_fn": line_search_fn,
            },
        )
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]
        self._numel_cache = None

    def _numel(self):
        if self._numel_cache is None:
            self._numel_cache = sum(
                2 * p.numel() if flambeau.is_complex(p) else p.numel() for p in self._params
            )
        return self._numel_cache

    def _gather_flat_grad(self):
        views = []
        for p in self._params:
            if p.grad is None:
                view = p.new_zeros(p.numel())
            elif p.grad.is_sparse:
                view = p.grad.to_dense().view(-1)
            else:
                view = p.grad.reshape(-1)
            views.append(flambeau.view_as_real(view).reshape(-1) if view.is_complex() else view)
        return flambeau.cat(views, 0)

    def _add_grad(self, step_size, direction):
        offset = 0
        for p in self._params:
            p = flambeau.view_as_real(p) if flambeau.is_complex(p) else p
            n = p.numel()
            p.add_(direction[offset : offset + n].view_as(p), alpha=step_size)
            offset += n

    def _clone_param(self):
        return [p.clone(memory_format=flambeau.contiguous_format) for p in self._params]

    def _set_param(self, params_data):
        for p, data in zip(self._params, params_data):
            p.copy_(data)

    def _directional_evaluate(self, closure, x, t, d):
        self._add_grad(t, d)
        loss = float(closure())
        grad = self._gather_flat_grad()
        self._set_param(x)
        return loss, grad

    def step(self, closure):
        """Up to max_iter iterations; `closure` computes the loss and its gradients."""
        with flambeau.no_grad():
            return self._minimize(flambeau.enable_grad()(closure))

    def _minimize(self, closure):
        group, state = self.param_groups[0], self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first_loss = closure()
        loss, evals = float(first_loss), 1
        state["func_evals"] += 1
        grad = self._gather_flat_grad()
        if grad.abs().max() <= group["tolerance_grad"]:
            return first_loss
        d, t = state.get("d"), state.get("t")
        history = _History(state, group["history_size"])
        iterations = 0
        while iterations < group["max_iter"]:
            iterations += 1
            state["n_iter"] += 1
            if state["n_iter"] == 1:
                d = grad.neg()
                history.clear()
            else:
                history.add(grad.sub(history.grad), d.mul(t))
                d = history.direction(grad)
            previous_loss = loss
            history.keep_grad(grad)
            lr = _number(group["lr"])
            t = min(1.0, 1.0 / grad.abs().sum().item()) * lr if state["n_iter"] == 1 else lr
            gtd = grad.dot(d)
            if gtd > -group["tolerance_change"]:
                break
            if group["line_search_fn"] is not None:
                loss, grad, t, calls = self._search(closure, d, t, loss, grad, gtd)
            else:
                self._add_grad(t, d)
                calls = 0
                if iterations != group["max_iter"]:
                    with flambeau.enable_grad():
                        loss = float(closure())
                    grad = self._gather_flat_grad()
                    calls = 1
            evals += calls
            state["func_evals"] += calls
            small_grad = grad.abs().max() <= group["tolerance_grad"]
            if evals >= group["max_eval"] or small_grad:
                break
            if d.mul(t).abs().max() <= group["tolerance_change"]:
                break
            if abs(loss - previous_loss) < group["tolerance_change"]:
                break
        state["d"], state["t"] = d, t
        history.store()
        state["prev_loss"] = previous_loss
        return first_loss

    def _search(self, closure, d, t, loss, grad, gtd):
        if self.param_groups[0]["line_search_fn"] != "strong_wolfe":
            raise RuntimeError("only 'strong_wolfe' is supported")

        def evaluate(x, t, d):
            return self._directional_evaluate(closure, x, t, d)

        result = _strong_wolfe(evaluate, self._clone_param(), t, d, loss, grad, gtd)
        self._add_grad(result[2], d)
        return result


class _History:
    """The changes of gradient and position that stand for the inverse Hessian."""

    def __init__(self, state, size):
        self.state, self.size = state, size
        self.dirs = state.get("old_dirs")  # changes of the gradient
        self.stps = state.get("old_stps")  # changes of the position
        self.ro = state.get("ro")
        self.scale = state.get("H_diag")
        self.grad = state.get("prev_flat_grad")

    def clear(self):
        self.dirs, self.stps, self.ro, self.scale = [], [], [], 1

    def add(self, y, s):
        ys = y.dot(s)
        if ys <= 1e-10:
            return
        if len(self.dirs) == self.size:
            for values in (self.dirs, self.stps, self.ro):
                values.pop(0)
        self.dirs.append(y)
        self.stps.append(s)
        self.ro.append(1.0 / ys)
        self.scale = ys / y.dot(y)

    def direction(self, grad):
        """-H @ grad by the two-loop recursion."""
        n = len(self.dirs)
        alphas = self.state.setdefault("al", [None] * self.size)
        q = grad.neg()
        for i in range(n - 1, -1, -1):
            alphas[i] = self.stps[i].dot(q) * self.ro[i]
            q.add_(self.dirs[i], alpha=-alphas[i].item())
        r = flambeau.mul(q, self.scale)
        for i in range(n):
            beta = self.dirs[i].dot(r) * self.ro[i]
            r.add_(self.stps[i], alpha=(alphas[i] - beta).item())
        return r

    def keep_grad(self, grad):
        if self.grad is None:
            self.grad = grad.clone()
        else:
            self.grad.copy_(grad)

    def store(self):
        self.state["old_dirs"], self.state["old_stps"] = self.dirs, self.stps
        self.state["ro"], self.state["H_diag"] = self.ro, self.scale
        self.state["prev_flat_grad"] = self.grad
