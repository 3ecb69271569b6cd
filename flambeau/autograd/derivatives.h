// Derivatives too big for a row. Each says what it computes; all call ops, so that they can be
// differentiated again.
#pragma once
#include "flambeau/autograd/derivatives_index.h"
#include "flambeau/ops/dropout.h"
#include "flambeau/ops/operators.h"
#include "flambeau/ops/runtime.h"

namespace flambeau {

// Zeros of the dtype and on the device of g.
inline Tensor zeros_for(const Tensor& g, IntList sizes) {
  return ops::zeros(sizes, g.dtype(), {}, g.device());
}
// For arguments that neither torch nor this library has a derivative for.
[[noreturn]] void refuse_derivative();
template <class... A>
[[noreturn]] Tensor no_derivative(const A&...) {
  refuse_derivative();
}
// Sums dims of `g` away that were broadcast, so that it has `sizes`.
Tensor sum_to(const Tensor& g, IntList sizes);
// The gradient of a sum: g, with the reduced dims back, repeated to `sizes`.
Tensor expand_reduced(const Tensor& g, IntList sizes, const Dims& dim, bool keepdim);
inline Tensor expand_reduced(const Tensor& g, IntList sizes, int, int) {
  return expand_reduced(g, sizes, std::nullopt, false);
}
Tensor mean_backward(const Tensor& g, IntList sizes, const Dims& dim, bool keepdim);
inline Tensor mean_backward(const Tensor& g, IntList sizes, int, int) {
  return mean_backward(g, sizes, std::nullopt, false);
}
Tensor as_strided_backward(const Tensor& g, IntList base_sizes, IntList base_strides,
                           int64_t base_offset, IntList size, IntList stride,
                           std::optional<int64_t> storage_offset);

Tensor fft_r2c_backward(const Tensor& g, IntList sizes, IntList dim, int64_t normalization,
                        bool onesided, bool forward);
Tensor fft_c2r_backward(const Tensor& g, IntList dim, int64_t normalization, int64_t last_dim_size,
                        bool forward);

Tensor linear_input_backward(const Tensor& g, const Tensor& weight);
Tensor linear_weight_backward(const Tensor& g, const Tensor& input, int64_t ndim);
// Factorisations; a gradient of a factor may be undefined.
Tensor lu_backward(const Tensor& g, const Tensor& lu, const Tensor& pivots, bool pivot);
std::tuple<Tensor, Tensor> solve_backward(const Tensor& g, const Tensor& a, const Tensor& x,
                                          std::array<bool, 2> wanted);
std::tuple<Tensor, Tensor> triangular_backward(const Tensor& g, const Tensor& a, const Tensor& x,
                                               bool upper, bool unit, std::array<bool, 2> wanted);
Tensor cholesky_backward(const Tensor& g, const Tensor& factor, bool upper);
std::tuple<Tensor, Tensor> cholesky_solve_backward(const Tensor& g, const Tensor& factor,
                                                   const Tensor& x, bool upper,
                                                   std::array<bool, 2> wanted);
Tensor cholesky_inverse_backward(const Tensor& g, const Tensor& factor, const Tensor& inverse,
                                 bool upper);
Tensor eig_backward(const Tensor& g_values, const Tensor& g_vectors, const Tensor& values,
                    const Tensor& vectors);
Tensor eigh_backward(const Tensor& g_values, const Tensor& g_vectors, const Tensor& values,
                     const Tensor& vectors);
Tensor eigvalsh_backward(const Tensor& g, const Tensor& a, std::string_view uplo);
Tensor svd_backward(const Tensor& g_u, const Tensor& g_s, const Tensor& g_vh, const Tensor& u,
                    const Tensor& s, const Tensor& vh);
Tensor svdvals_backward(const Tensor& g, const Tensor& a);
Tensor det_backward(const Tensor& g, const Tensor& a, const Tensor& det);
Tensor pinv_backward(const Tensor& g, const Tensor& a, const Tensor& p);
Tensor qr_backward(const Tensor& g_q, const Tensor& g_r, const Tensor& q, const Tensor& r);

// Gradients of views: zeros with g where the view lies.
Tensor select_backward(const Tensor& g, IntList sizes, int64_t dim, int64_t index);
Tensor slice_backward(const Tensor& g, IntList sizes, int64_t dim, std::optional<int64_t> start,
                      std::optional<int64_t> end, int64_t step);
Tensor diagonal_backward(const Tensor& g, IntList sizes, int64_t offset, int64_t dim1,
                         int64_t dim2);
Tensor permute_backward(const Tensor& g, IntList dims);
Tensor split_backward(TensorList gs, IntList sizes, IntList split_size, int64_t dim);
Tensor split_backward(TensorList gs, IntList sizes, int64_t split_size, int64_t dim);
Tensor unbind_backward(TensorList gs, IntList sizes, DType dtype, int64_t dim);
Tensor unfold_backward(const Tensor& g, IntList sizes, int64_t dimension, int64_t size,
                       int64_t step);
// The same with the tables turned: where each element went.
Tensor resample_backward(const Tensor& g, IntList sizes, int64_t dim, const Tensor& starts,
                         const Tensor& places, const Tensor& weights);
Tensor resample_weights(const Tensor& g, const Tensor& self, int64_t dim, const Tensor& starts,
                        const Tensor& places);

// The pieces of g, each of the dtype its tensor had.
std::vector<Tensor> cat_backward(const Tensor& g, const std::vector<Ints>& sizes,
                                 const std::vector<DType>& dtypes, int64_t dim);

Tensor convolution_input(const Tensor& g, const Tensor& weight, IntList sizes, IntList stride,
                         IntList padding, IntList dilation, bool transposed, int64_t groups);
Tensor convolution_weight(const Tensor& g, const Tensor& input, IntList size, IntList stride,
                          IntList padding, IntList dilation, bool transposed, int64_t groups);
Ints no_output_padding(IntList stride);
Tensor sum_channels(const Tensor& g);  // over all dims but the second

Tensor constant_pad_backward(const Tensor& g, IntList pad);

Tensor softmax_backward_twice_grad(const Tensor& g, const Tensor& y, int64_t dim, bool log);
Tensor softmax_backward_twice_output(const Tensor& g, const Tensor& grad, const Tensor& y,
                                     int64_t dim, bool log);
Ints spatial_sizes(IntList sizes, IntList like);  // without batch and channels

// Gradients of (input, weight, bias); those not wanted stay undefined.
std::tuple<Tensor, Tensor, Tensor> layer_norm_grads(const Tensor& g, const Tensor& input,
                                                    IntList normalized_shape, const Tensor& weight,
                                                    const Tensor& mean, const Tensor& rstd,
                                                    double eps, bool centered,
                                                    std::array<bool, 3> wanted);
std::tuple<Tensor, Tensor, Tensor> attention_grads(const Tensor& g, const Tensor& query,
                                                   const Tensor& key, const Tensor& value,
                                                   const Tensor& mask, const Tensor& values,
                                                   const Tensor& logsumexp, bool is_causal,
                                                   double scale, bool rounded,
                                                   std::array<bool, 3> wanted);
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> recurrent_layer_grads(
    const Tensor& g_output, const Tensor& g_last, const Tensor& g_last_cell, const Tensor& input,
    const Tensor& hx, const Tensor& cx, const Tensor& w_hh, const Tensor& b_hh, const Tensor& w_hr,
    const Tensor& output, const Tensor& cells, const Tensor& kept, IntList sizes,
    std::string_view mode, bool reverse, bool for_backward, std::array<bool, 6> wanted);
std::tuple<Tensor, Tensor, Tensor> batch_norm_grads(const Tensor& g, const Tensor& input,
                                                    const Tensor& weight, const Tensor& mean,
                                                    const Tensor& rstd, bool training, double eps,
                                                    std::array<bool, 3> wanted);
std::tuple<Tensor, Tensor, Tensor> group_norm_grads(const Tensor& g, const Tensor& input,
                                                    const Tensor& weight, const Tensor& mean,
                                                    const Tensor& rstd, int64_t groups,
                                                    std::array<bool, 3> wanted);

Tensor sgn_backward(const Tensor& g, const Tensor& self, const Tensor& result);
Tensor sinc_backward(const Tensor& g, const Tensor& self);
Tensor mish_backward(const Tensor& g, const Tensor& self);
Tensor softplus_backward(const Tensor& g, const Tensor& self, const Scalar& beta,
                         const Scalar& threshold);
Tensor copysign_backward(const Tensor& g, const Tensor& self, const Tensor& result);
Tensor pow_backward_self(const Tensor& g, const Tensor& self, const Scalar& exponent);
Tensor pow_backward_self(const Tensor& g, const Tensor& self, const Tensor& exponent);
Tensor pow_backward_exponent(const Tensor& g, const Tensor& self, const Tensor& exponent,
                             const Tensor& result);

Tensor cross_entropy_grad(const Tensor& g, const Tensor& self, const Tensor& target,
                          const Tensor& weight, const Tensor& lse, const Tensor& total_weight,
                          int64_t reduction, int64_t ignore_index, double label_smoothing);
Tensor nll_loss_grad(const Tensor& g, const Tensor& self, const Tensor& target,
                     const Tensor& weight, const Tensor& total_weight, int64_t reduction,
                     int64_t ignore_index);

// ---- reductions and scans ----
// What is taken from the count in a variance; True and None stand for one.
struct Correction {
  double value;
  Correction(bool unbiased) : value(unbiased) {}
  Correction(const std::optional<Scalar>& given) : value(given ? given->to_double() : 1) {}
};
Tensor amax_backward(const Tensor& g, const Tensor& self, const Tensor& result, const Dims& dim,
                     bool keepdim);
Tensor extreme_backward(const Tensor& g, const Tensor& self, const Tensor& result);
Tensor aminmax_backward(const Tensor& g_min, const Tensor& g_max, const Tensor& self,
                        const Tensor& min, const Tensor& max, std::optional<int64_t> dim,
                        bool keepdim);
// g to the places that `indices` name along a dim.
Tensor value_selecting_backward(const Tensor& g, int64_t dim, const Tensor& indices, IntList sizes,
                                bool keepdim);
Tensor var_backward(const Tensor& g, const Tensor& self, const Dims& dim, Correction correction,
                    bool keepdim);
Tensor std_backward(const Tensor& g, const Tensor& self, const Tensor& result, const Dims& dim,
                    Correction correction, bool keepdim);
Tensor var_mean_backward(const Tensor& g_var, const Tensor& g_mean, const Tensor& self,
                         const Dims& dim, Correction correction, bool keepdim);
Tensor std_mean_backward(const Tensor& g_std, const Tensor& g_mean, const Tensor& self,
                         const Tensor& result, const Dims& dim, Correction correction,
                         bool keepdim);
Tensor nansum_backward(const Tensor& g, const Tensor& self, const Dims& dim, bool keepdim);
Tensor logsumexp_backward(const Tensor& g, const Tensor& self, const Tensor& result,
                          const Dims& dim, bool keepdim);
Tensor vector_norm_backward(const Tensor& g, const Tensor& self, const Tensor& result,
                            const Scalar& ord, const Dims& dim, bool keepdim);
Tensor prod_backward(const Tensor& g, const Tensor& self, const Tensor& result);
Tensor prod_dim_backward(const Tensor& g, const Tensor& self, const Tensor& result, int64_t dim,
                         bool keepdim);
Tensor cumsum_backward(const Tensor& g, int64_t dim);
Tensor cumprod_backward(const Tensor& g, const Tensor& self, const Tensor& result, int64_t dim);
Tensor logcumsumexp_backward(const Tensor& g, const Tensor& self, const Tensor& result,
                             int64_t dim);

// ---- activations ----
// g times the second derivative of gelu by tanh.
Tensor gelu_tanh_curvature(const Tensor& g, const Tensor& self);
Tensor angle_backward(const Tensor& g, const Tensor& self);
Tensor logit_backward(const Tensor& g, const Tensor& self, double eps);

}  // namespace flambeau
