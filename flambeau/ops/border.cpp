// Borders around tensors, and pixels exchanged with channels.
#include "flambeau/core/saturate.h"
#include "flambeau/generated/impl.h"
#include "flambeau/ops/operators.h"
#include "flambeau/ops/runtime.h"

namespace flambeau::ops {

namespace {

// `count` slices from `start` on, in the opposite order.
void add_mirrored(std::vector<Tensor>& parts, const Tensor& x, int64_t dim, int64_t start,
                  int64_t count) {
  if (count > 0) parts.push_back(flip(narrow(x, dim, start, count), IntList{dim}));
}

// The slice at `place`, `count` times.
void add_repeated(std::vector<Tensor>& parts, const Tensor& x, int64_t dim, int64_t place,
                  int64_t count) {
  if (count <= 0) return;
  Ints sizes = x.sizes();
  sizes[size_t(dim)] = count;
  parts.push_back(expand(narrow(x, dim, place, 1), sizes));
}

void check_border(std::string_view mode, const Tensor& x, int64_t dim, int64_t before,
                  int64_t after) {
  int64_t n = x.size(dim), most = std::max(before, after);
  FL_CHECK(mode != "reflect" || most < n || most <= 0, RuntimeError,
           "pad: reflected borders must be smaller than dim {} of size {}, got {} and {}", dim, n,
           before, after);
  FL_CHECK(mode != "circular" || most <= n, RuntimeError,
           "pad: circular borders must not be larger than dim {} of size {}, got {} and {}", dim, n,
           before, after);
  FL_CHECK(n > 0 || most <= 0, RuntimeError, "pad: dim {} of size 0 has no border to {}", dim,
           mode);
}

Tensor pad_dim(std::string_view mode, const Tensor& x, int64_t dim, int64_t before, int64_t after) {
  check_border(mode, x, dim, before, after);
  int64_t n = x.size(dim);
  int64_t from = std::max<int64_t>(neg_sat(before), 0),
          to = n - std::max<int64_t>(neg_sat(after), 0);
  FL_CHECK(from <= to, RuntimeError, "pad: {} and {} cut more than the {} elements of dim {}",
           before, after, n, dim);
  // A circle closes over what the cuts left.
  if (mode == "circular" && to - from < n) {
    Tensor rest = narrow(x, dim, from, to - from);
    return pad_dim(mode, rest, dim, std::max<int64_t>(before, 0), std::max<int64_t>(after, 0));
  }
  std::vector<Tensor> parts;
  if (mode == "reflect") add_mirrored(parts, x, dim, 1, before);
  if (mode == "replicate") add_repeated(parts, x, dim, 0, before);
  if (mode == "circular" && before > 0) parts.push_back(narrow(x, dim, n - before, before));
  parts.push_back(narrow(x, dim, from, to - from));
  if (mode == "reflect") add_mirrored(parts, x, dim, n - 1 - after, after);
  if (mode == "replicate") add_repeated(parts, x, dim, n - 1, after);
  if (mode == "circular" && after > 0) parts.push_back(narrow(x, dim, 0, after));
  return cat(parts, dim);
}

}  // namespace

Tensor pad_impl(const Tensor& self, IntList pad, std::string_view mode,
                std::optional<double> value) {
  int64_t pairs = int64_t(pad.size()) / 2;
  FL_CHECK(pad.size() % 2 == 0, RuntimeError, "pad: pads come in pairs, got {}", pad);
  FL_CHECK(pairs <= self.ndim(), RuntimeError, "pad: {} pairs are too many for shape {}", pairs,
           self.sizes());
  if (mode == "constant") return constant_pad_nd(self, pad, Scalar(value.value_or(0)));
  FL_CHECK(!value || *value == 0, ValueError, "pad: mode {} takes no value, got {}", mode, *value);
  FL_CHECK(mode == "reflect" || mode == "replicate" || mode == "circular", NotImplementedError,
           "pad: mode must be constant, reflect, replicate or circular, got {}", mode);
  bool known = pairs >= 1 && pairs <= 3 && (self.ndim() == pairs + 1 || self.ndim() == pairs + 2);
  FL_CHECK(known, NotImplementedError, "pad: mode {} cannot pad {} dims of shape {}", mode, pairs,
           self.sizes());
  for (int64_t d = self.ndim() - pairs - 1; mode != "circular" && d < self.ndim(); d++)
    FL_CHECK(self.size(d) > 0, RuntimeError, "pad: mode {} pads no empty dims, got shape {}", mode,
             self.sizes());
  // As in torch, the second derivative is zero, but for a circle, which is made of copies.
  Tensor x = mode != "circular" && recording(self) ? _piecewise(self) : self;
  for (int64_t i = 0; i < pairs; i++) {
    x = pad_dim(mode, x, self.ndim() - 1 - i, pad[size_t(2 * i)], pad[size_t(2 * i + 1)]);
  }
  return x;
}

namespace {

constexpr int64_t kMostFactor = int64_t{1} << 30;  // its square is a number of channels

// The sizes in front of (channels, height, width).
Ints leading(const Tensor& self) {
  Ints sizes(self.sizes());
  sizes.resize(sizes.size() - 3);
  return sizes;
}

Ints joined(Ints sizes, IntList more) {
  for (int64_t n : more) sizes.push_back(n);
  return sizes;
}

// The order (.., 0 to 4 permuted) of the five last dims.
Tensor reorder(const Tensor& t, std::array<int64_t, 5> order) {
  Ints dims;
  int64_t first = t.ndim() - 5;
  for (int64_t d = 0; d < first; d++) dims.push_back(d);
  for (int64_t d : order) dims.push_back(first + d);
  return permute(t, dims);
}

}  // namespace

Tensor pixel_shuffle_impl(const Tensor& self, int64_t upscale_factor) {
  int64_t r = upscale_factor;
  FL_CHECK(self.ndim() >= 3 && r > 0 && r < kMostFactor, RuntimeError,
           "pixel_shuffle: 3 dims and a positive factor below 2^30 are needed, got shape {} and {}",
           self.sizes(), r);
  int64_t c = self.size(-3) / (r * r), h = self.size(-2), w = self.size(-1);
  FL_CHECK(c * r * r == self.size(-3), RuntimeError,
           "pixel_shuffle: channels must be a multiple of {}, got shape {}", r * r, self.sizes());
  Tensor parts = reshape(self, joined(leading(self), {c, r, r, h, w}));
  return reshape(reorder(parts, {0, 3, 1, 4, 2}), joined(leading(self), {c, h * r, w * r}));
}

Tensor pixel_unshuffle_impl(const Tensor& self, int64_t downscale_factor) {
  int64_t r = downscale_factor;
  FL_CHECK(
      self.ndim() >= 3 && r > 0 && r < kMostFactor, RuntimeError,
      "pixel_unshuffle: 3 dims and a positive factor below 2^30 are needed, got shape {} and {}",
      self.sizes(), r);
  int64_t c = self.size(-3), h = self.size(-2) / r, w = self.size(-1) / r;
  FL_CHECK(h * r == self.size(-2) && w * r == self.size(-1), RuntimeError,
           "pixel_unshuffle: height and width must be multiples of {}, got shape {}", r,
           self.sizes());
  Tensor parts = reshape(self, joined(leading(self), {c, h, r, w, r}));
  return reshape(reorder(parts, {0, 2, 4, 1, 3}), joined(leading(self), {c * r * r, h, w}));
}

}  // namespace flambeau::ops
