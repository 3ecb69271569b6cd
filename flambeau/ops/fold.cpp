// Windows of images as columns and back, channels in another order, and sequences packed without
// their padding: elements picked and put back by computed places.
#include "flambeau/core/saturate.h"
#include "flambeau/generated/impl.h"
#include "flambeau/ops/indices.h"
#include "flambeau/ops/operators.h"
#include "flambeau/ops/spatial.h"

namespace flambeau::ops {

namespace {

// The windows along one of the two dims.
struct Windows {
  int64_t size, kernel, dilation, padding, stride, count;

  Windows(std::string_view op, int64_t size, IntList kernels, IntList dilations, IntList paddings,
          IntList strides, int d)
      : size(size),
        kernel(setting(kernels, size_t(d))),
        dilation(setting(dilations, size_t(d))),
        padding(setting(paddings, size_t(d))),
        stride(setting(strides, size_t(d))) {
    FL_CHECK(kernel > 0 && dilation > 0 && stride > 0 && padding >= 0, RuntimeError,
             "{}: kernel_size, dilation and stride must be positive and padding not negative, got "
             "{}, {}, {} and {}",
             op, kernels, dilations, strides, paddings);
    int64_t room = window_room(size, kernel, padding, dilation);
    FL_CHECK(room >= 0, RuntimeError,
             "{}: a kernel of {} with dilation {} does not fit into {} elements with padding {}",
             op, kernel, dilation, size, padding);
    count = room / stride + 1;
  }
  // The place in the padded dim of each element of each window: (kernel * count,).
  Tensor places(Device device) const {
    Tensor t = new_tensor({mul_sat(kernel, count)}, DType::Int64, device);
    if (!has_memory(t)) return t;
    auto* out = t.data<int64_t>();
    for (int64_t k = 0; k < kernel; k++)
      for (int64_t i = 0; i < count; i++) *out++ = k * dilation + i * stride;
    return t;
  }
};

void check_pairs(std::string_view op, IntList kernel, IntList dilation, IntList padding,
                 IntList stride) {
  for (IntList l : {kernel, dilation, padding, stride}) {
    FL_CHECK(l.size() == 1 || l.size() == 2, RuntimeError, "{}: settings are pairs, got {}", op, l);
    for (int64_t v : l)
      FL_CHECK(v < kMostSetting, RuntimeError, "{}: settings must be below 2^31, got {}", op, l);
  }
}

}  // namespace

Tensor im2col_impl(const Tensor& self, IntList kernel_size, IntList dilation, IntList padding,
                   IntList stride) {
  check_pairs("im2col", kernel_size, dilation, padding, stride);
  FL_CHECK(self.ndim() == 3 || self.ndim() == 4, RuntimeError,
           "im2col: input must have 4 dims, or 3 without a batch, got shape {}", self.sizes());
  if (self.ndim() == 3)
    return squeeze(im2col(unsqueeze(self, 0), kernel_size, dilation, padding, stride), 0);
  FL_CHECK(self.size(1) > 0 && self.size(2) > 0 && self.size(3) > 0, RuntimeError,
           "im2col: all dims but the batch must not be empty, got shape {}", self.sizes());
  Windows rows("im2col", self.size(2), kernel_size, dilation, padding, stride, 0);
  Windows cols("im2col", self.size(3), kernel_size, dilation, padding, stride, 1);
  Tensor x = constant_pad_nd(self, {cols.padding, cols.padding, rows.padding, rows.padding});
  x = index_select(x, 2, rows.places(x.device()));
  x = index_select(x, 3, cols.places(x.device()));
  int64_t batch = self.size(0), channels = self.size(1);
  x = reshape(x, {batch, channels, rows.kernel, rows.count, cols.kernel, cols.count});
  return reshape(permute(x, {0, 1, 2, 4, 3, 5}),
                 {batch, channels * rows.kernel * cols.kernel, rows.count * cols.count});
}

Tensor col2im_impl(const Tensor& self, IntList output_size, IntList kernel_size, IntList dilation,
                   IntList padding, IntList stride) {
  check_pairs("col2im", kernel_size, dilation, padding, stride);
  FL_CHECK(self.ndim() == 2 || self.ndim() == 3, RuntimeError,
           "col2im: input must have 3 dims, or 2 without a batch, got shape {}", self.sizes());
  FL_CHECK(output_size.size() == 1 || output_size.size() == 2, RuntimeError,
           "col2im: output_size is a pair, got {}", output_size);
  if (self.ndim() == 2)
    return squeeze(col2im(unsqueeze(self, 0), output_size, kernel_size, dilation, padding, stride),
                   0);
  Windows rows("col2im", setting(output_size, size_t(0)), kernel_size, dilation, padding, stride,
               0);
  Windows cols("col2im", setting(output_size, size_t(1)), kernel_size, dilation, padding, stride,
               1);
  int64_t window = mul_sat(rows.kernel, cols.kernel), batch = self.size(0);
  FL_CHECK(self.size(1) > 0 && self.size(1) % window == 0, RuntimeError,
           "col2im: the columns' {} rows must be a multiple of the window's {} elements",
           self.size(1), window);
  FL_CHECK(self.size(2) == mul_sat(rows.count, cols.count), RuntimeError,
           "col2im: output_size {} has {} x {} windows, got {} columns", output_size, rows.count,
           cols.count, self.size(2));
  int64_t channels = self.size(1) / window;
  Tensor x = reshape(self, {batch, channels, rows.kernel, cols.kernel, rows.count, cols.count});
  x = reshape(permute(x, {0, 1, 2, 4, 3, 5}),
              {batch, channels, rows.kernel * rows.count, cols.kernel * cols.count});
  int64_t height = rows.size + 2 * rows.padding, width = cols.size + 2 * cols.padding;
  Tensor wide = new_zeros(x, {batch, channels, x.size(2), width});
  x = index_add(wide, 3, cols.places(x.device()), x);
  x = index_add(new_zeros(x, {batch, channels, height, width}), 2, rows.places(x.device()), x);
  x = narrow(x, 2, rows.padding, rows.size);
  return contiguous(narrow(x, 3, cols.padding, cols.size));
}

Tensor channel_shuffle_impl(const Tensor& self, int64_t groups) {
  FL_CHECK(self.ndim() > 2, RuntimeError,
           "channel_shuffle: self must have at least 3 dims, got shape {}", self.sizes());
  FL_CHECK(groups > 0 && self.size(1) % groups == 0, RuntimeError,
           "channel_shuffle: groups must be positive and divide the {} channels, got {}",
           self.size(1), groups);
  Tensor x = unflatten(self, 1, {groups, self.size(1) / groups});
  return reshape(transpose(x, 1, 2), self.sizes());
}

// ---- packed sequences ----

namespace {

// lengths[i] -> how many sequences reach step t; they must fall and be positive.
std::vector<int64_t> reach_of(const Tensor& lengths, int64_t steps) {
  auto* length = lengths.data<int64_t>();
  int64_t batch = lengths.numel();
  for (int64_t i = 0; i < batch; i++) {
    FL_CHECK(length[i] > 0, RuntimeError,
             "_pack_padded_sequence: lengths must be positive, got {} for sequence {}", length[i],
             i);
    FL_CHECK(i == 0 || length[i] <= length[i - 1], RuntimeError,
             "_pack_padded_sequence: lengths must fall unless enforce_sorted=False, got {} after "
             "{}",
             length[i], length[i - 1]);
  }
  FL_CHECK(length[0] <= steps, RuntimeError,
           "_pack_padded_sequence: lengths must be at most the {} steps of the input, got {}",
           steps, length[0]);
  std::vector<int64_t> reach(size_t(length[0]), 0);
  for (int64_t i = 0; i < batch; i++)
    for (int64_t t = 0; t < length[i]; t++) reach[size_t(t)]++;
  return reach;
}

// Rows of the flattened (steps, batch) input that are no padding, step by step.
Tensor packed_places(const int64_t* reach, int64_t steps, int64_t batch, Device device) {
  int64_t total = 0;
  for (int64_t t = 0; t < steps; t++) total += reach[t];
  Tensor places = new_tensor({total}, DType::Int64);
  auto* out = places.data<int64_t>();
  for (int64_t t = 0; t < steps; t++)
    for (int64_t i = 0; i < reach[t]; i++) *out++ = t * batch + i;
  return to(places, device);
}

}  // namespace

std::tuple<Tensor, Tensor> pack_padded_sequence_impl(const Tensor& input, const Tensor& lengths,
                                                     bool batch_first) {
  FL_CHECK(input.ndim() >= 2, RuntimeError,
           "_pack_padded_sequence: input must have at least 2 dims, got shape {}", input.sizes());
  FL_CHECK(has_memory(lengths), NotImplementedError,
           "_pack_padded_sequence: the lengths are not known on the meta device");
  Tensor x = batch_first ? transpose(input, 0, 1) : input;
  FL_CHECK(x.numel() > 0, RuntimeError, "_pack_padded_sequence: input must not be empty, got {}",
           input.sizes());
  FL_CHECK(lengths.ndim() == 1 && lengths.dtype() == DType::Int64 && lengths.size(0) == x.size(1),
           RuntimeError,
           "_pack_padded_sequence: lengths must be an int64 tensor on the CPU, one for each of {} "
           "sequences, got {} of {}",
           x.size(1), lengths.dtype(), lengths.sizes());
  std::vector<int64_t> reach = reach_of(dense(lengths), x.size(0));
  auto steps = int64_t(reach.size());
  Tensor sizes = new_tensor({steps}, DType::Int64);
  std::copy(reach.begin(), reach.end(), sizes.data<int64_t>());
  Tensor places = packed_places(reach.data(), steps, x.size(1), x.device());
  return {index_select(flatten(x, 0, 1), 0, places), sizes};
}

std::tuple<Tensor, Tensor> pad_packed_sequence_impl(const Tensor& data, const Tensor& batch_sizes,
                                                    bool batch_first, const Scalar& padding_value,
                                                    int64_t total_length) {
  FL_CHECK(has_memory(batch_sizes), NotImplementedError,
           "_pad_packed_sequence: the sizes are not known on the meta device");
  FL_CHECK(
      batch_sizes.ndim() == 1 && batch_sizes.numel() > 0 && batch_sizes.dtype() == DType::Int64,
      RuntimeError,
      "_pad_packed_sequence: batch_sizes must be int64 on the CPU and not empty, got {} of {}",
      batch_sizes.dtype(), batch_sizes.sizes());
  Tensor counts = dense(batch_sizes);
  auto* reach = counts.data<int64_t>();
  int64_t steps = counts.numel(), batch = reach[0], total = 0;
  for (int64_t t = 0; t < steps; t++) {
    FL_CHECK(reach[t] > 0 && reach[t] <= (t ? reach[t - 1] : batch), RuntimeError,
             "_pad_packed_sequence: batch_sizes must be positive and not rise, got {} at step {}",
             reach[t], t);
    total = add_sat(total, reach[t]);
  }
  FL_CHECK(data.ndim() > 0 && data.size(0) == total, RuntimeError,
           "_pad_packed_sequence: data must have {} rows, got shape {}", total, data.sizes());
  FL_CHECK(total_length <= 0 || total_length >= steps, RuntimeError,
           "_pad_packed_sequence: total_length must be at least {}, got {}", steps, total_length);
  int64_t length = std::max(steps, total_length);
  Ints flat = data.sizes(), sizes{length};
  flat[0] = mul_sat(length, batch);
  sizes.push_back(batch);
  for (int64_t d = 1; d < data.ndim(); d++) sizes.push_back(data.size(d));
  Tensor padded = index_copy(new_full(data, flat, padding_value), 0,
                             packed_places(reach, steps, batch, data.device()), data);
  padded = view(padded, sizes);
  Tensor lengths = new_tensor({batch}, DType::Int64);
  auto* length_of = lengths.data<int64_t>();
  for (int64_t i = 0; i < batch; i++) {
    length_of[i] = 0;
    while (length_of[i] < steps && reach[length_of[i]] > i) length_of[i]++;
  }
  return {batch_first ? transpose(padded, 0, 1) : padded, lengths};
}

}  // namespace flambeau::ops
