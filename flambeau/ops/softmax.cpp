// Calls of the softmax kernels.
#include "flambeau/kernels/cpu/softmax.h"

#include "flambeau/generated/impl.h"
#include "flambeau/ops/runtime.h"

namespace flambeau::ops {

namespace {

// A contiguous tensor as [outer][n][inner] around a dim.
struct Split {
  int64_t outer = 1, n = 1, inner = 1;
  Split(std::string_view op, const Tensor& t, int64_t dim) {
    dim = wrap_dim(op, dim, t.ndim());
    for (int64_t d = 0; d < t.ndim(); d++) (d < dim ? outer : d == dim ? n : inner) *= t.size(d);
  }
};

void forward(std::string_view op, Tensor& result, const Tensor& self, int64_t dim, bool log) {
  Split s(op, self, dim);
  Tensor x = self;
  if (self.dtype() != result.dtype()) {
    x = new_tensor(self.sizes(), result.dtype(), self.device());
    copy_elements(x, self);
  }
  FL_CHECK(is_float(result.dtype()), RuntimeError, "{}: a floating dtype is needed, got {}", op,
           result.dtype());
  if (result.numel())
    softmax_forward(result.dtype(), x->data, result->data, s.outer, s.n, s.inner, log);
}

}  // namespace

void softmax_kernel(Tensor& result, const Tensor& self, int64_t dim, std::optional<DType>) {
  forward("softmax", result, self, dim, false);
}

void log_softmax_kernel(Tensor& result, const Tensor& self, int64_t dim, std::optional<DType>) {
  forward("log_softmax", result, self, dim, true);
}

void softmax_backward_kernel(Tensor& result, const Tensor& grad, const Tensor& output, int64_t dim,
                             bool log) {
  FL_CHECK(
      output.sizes() == grad.sizes() && output.dtype() == grad.dtype() && is_float(grad.dtype()),
      RuntimeError,
      "_softmax_backward: grad is {} of shape {}, output must be the same and floating, got {} "
      "of {}",
      grad.dtype(), grad.sizes(), output.dtype(), output.sizes());
  Split s("softmax", output, dim);
  if (result.numel())
    softmax_backward(grad.dtype(), grad->data, output->data, result->data, s.outer, s.n, s.inner,
                     log);
}

}  // namespace flambeau::ops
