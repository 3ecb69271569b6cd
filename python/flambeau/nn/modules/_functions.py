"""Custom functions that modules need: the identity under backward hooks, SyncBatchNorm."""

import flambeau
from flambeau.autograd import Function


class BackwardHookFunction(Function):
    """Passes its tensors through, to make one node whose hook sees all their gradients."""

    @staticmethod
    def forward(ctx, *tensors):
        ctx.mark_non_differentiable(*[t for t in tensors if not t.requires_grad])
        return tensors

    @staticmethod
    def backward(ctx, *grads):
        return grads


class SyncBatchNorm(Function):
    """Batch normalisation with mean and variance over the batches of all processes.

    One all-reduce forward (count, sum, sum of squares) and one backward (the two sums of the
    formula); gradients of weight and bias stay local, to be averaged like all others.
    """

    @staticmethod
    def forward(ctx, input, weight, bias, running_mean, running_var, eps, momentum, group):
        dims = [d for d in range(input.dim()) if d != 1]
        wide = input.float() if input.dtype.itemsize < 4 else input
        count = wide.new_full((1,), input.numel() // input.size(1))
        totals = flambeau.cat([count, wide.sum(dims), wide.square().sum(dims)])
        flambeau.distributed.all_reduce(totals, group=group)
        count, sums, squares = totals.split([1, input.size(1), input.size(1)])
        mean = sums / count
        var = squares / count - mean.square()
        if running_mean is not None:
            running_mean.lerp_(mean.to(running_mean.dtype), momentum)
            unbiased = var * (count / (count - 1))
            running_var.lerp_(unbiased.to(running_var.dtype), momentum)
        shape = [1, -1] + [1] * (input.dim() - 2)
        inverse = (var + eps).rsqrt()
        normal = (wide - mean.view(shape)) * inverse.view(shape)
        ctx.save_for_backward(normal, weight, inverse, count)
        ctx.shape, ctx.dims, ctx.group = shape, dims, group
        out = normal if weight is None else normal * weight.view(shape)
        return (out if bias is None else out + bias.view(shape)).to(input.dtype)

    @staticmethod
    def backward(ctx, grad):
        normal, weight, inverse, count = ctx.saved_tensors
        shape, dims = ctx.shape, ctx.dims
        wide = grad.to(normal.dtype)
        grad_weight, grad_bias = (wide * normal).sum(dims), wide.sum(dims)
        grad_input = None
        if ctx.needs_input_grad[0]:
            scaled = wide if weight is None else wide * weight.view(shape)
            sums = flambeau.cat([scaled.sum(dims), (scaled * normal).sum(dims)])
            flambeau.distributed.all_reduce(sums, group=ctx.group)
            mean_grad, mean_product = (sums / count).view(2, -1)
            grad_input = scaled - mean_grad.view(shape) - normal * mean_product.view(shape)
            grad_input = (grad_input * inverse.view(shape)).to(grad.dtype)
        none = (None,) * 5
        return (
            grad_input,
            grad_weight if ctx.needs_input_grad[1] else None,
            grad_bias if ctx.needs_input_grad[2] else None,
            *none,
        )
