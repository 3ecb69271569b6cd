// Tensors from nothing: empty ones, constants, identities, indices of triangles. Ranges are in
// ranges.cpp, random numbers in random.cpp.
#include "flambeau/ops/factory.h"

#include "flambeau/core/saturate.h"
#include "flambeau/core/threadpool.h"
#include "flambeau/generated/impl.h"

namespace flambeau::ops {

void check_strided(std::string_view op, std::optional<Layout> layout) {
  FL_CHECK(!layout || *layout == Layout::Strided, NotImplementedError,
           "{}: only strided tensors can be made here", op);
}

Device place_of(std::optional<Device> device) {
  Device where = device.value_or(default_device());
  FL_CHECK(where.type != DeviceType::CUDA, RuntimeError,
           "device: cuda is not available in this build");
  FL_CHECK(where.type != DeviceType::Fake || where.index <= 0, RuntimeError,
           "device: there is one fake device, got {}", where);
  if (where.type == DeviceType::CPU || where.type == DeviceType::Meta) where.index = -1;
  return where;
}

Tensor make_new(std::string_view op, IntList size, std::optional<DType> dtype,
                std::optional<Layout> layout, std::optional<Device> device) {
  check_strided(op, layout);
  return new_tensor(size, dtype.value_or(default_dtype()), place_of(device));
}

namespace {

void clear(char* memory, int64_t bytes) {
  parallel_for(bytes, int64_t(1) << 20, [=](int64_t begin, int64_t end) {
    std::memset(memory + begin, 0, size_t(end - begin));
  });
}

}  // namespace

Tensor filled(Tensor t, const Scalar& value) {
  bool zero = !value.is_complex() && value.to_double() == 0;
  if (zero && t->contiguous()) {
    if (has_memory(t)) clear(t->data, t.numel() * itemsize(t.dtype()));
  } else {
    fill_into(t, value);
  }
  return t;
}

Tensor number_tensor(const Scalar& value, Device device) {
  Tensor one = filled(new_tensor({}, default_for(value.dtype()), device), value);
  one->is_number = true;
  return one;
}

namespace {

Tensor strided_as(IntList size, MemoryFormat format, DType dtype, Device device) {
  if (format == MemoryFormat::Contiguous || format == MemoryFormat::Preserve)
    return new_tensor(size, dtype, device);
  size_t dims = format == MemoryFormat::ChannelsLast ? 4 : 5;
  FL_CHECK(size.size() == dims, RuntimeError, "memory_format: channels last needs {} dims, got {}",
           dims, size);
  return new_strided(size, channels_last_strides(size), dtype, device);
}

Tensor like(std::string_view op, const Tensor& self, std::optional<DType> dtype,
            std::optional<Layout> layout, std::optional<Device> device,
            std::optional<MemoryFormat> format) {
  check_strided(op, layout);
  DType type = dtype.value_or(self.dtype());
  Device where = device ? place_of(device) : self.device();
  MemoryFormat want = format.value_or(MemoryFormat::Preserve);
  if (want != MemoryFormat::Preserve) return strided_as(self.sizes(), want, type, where);
  if (where == self.device()) return new_like(self, type);
  Tensor order = new_like(self, type);
  return new_strided(self.sizes(), order.strides(), type, where);
}

// The dtype that a number alone asks for.
DType natural_dtype(const Scalar& value) {
  if (value.is_complex()) return default_complex();
  return value.is_float() ? default_dtype() : value.dtype();
}

Tensor new_of(std::string_view op, const Tensor& self, IntList size, std::optional<DType> dtype,
              std::optional<Layout> layout, std::optional<Device> device) {
  return make_new(op, size, dtype.value_or(self.dtype()), layout, device.value_or(self.device()));
}

}  // namespace

Tensor empty_impl(IntList size, std::optional<DType> dtype, std::optional<Layout> layout,
                  std::optional<Device> device, std::optional<bool>,
                  std::optional<MemoryFormat> memory_format) {
  check_strided("empty", layout);
  MemoryFormat format = memory_format.value_or(MemoryFormat::Contiguous);
  return strided_as(size, format, dtype.value_or(default_dtype()), place_of(device));
}

Tensor empty_like_impl(const Tensor& self, std::optional<DType> dtype, std::optional<Layout> layout,
                       std::optional<Device> device, std::optional<bool>,
                       std::optional<MemoryFormat> memory_format) {
  return like("empty_like", self, dtype, layout, device, memory_format);
}

Tensor empty_strided_impl(IntList size, IntList stride, std::optional<DType> dtype,
                          std::optional<Layout> layout, std::optional<Device> device,
                          std::optional<bool>) {
  check_strided("empty_strided", layout);
  FL_CHECK(size.size() == stride.size(), RuntimeError,
           "empty_strided: sizes and strides must be as many, got {} and {}", size, stride);
  return new_strided(size, stride, dtype.value_or(default_dtype()), place_of(device));
}

Tensor empty_permuted_impl(IntList size, IntList physical_layout, std::optional<DType> dtype,
                           std::optional<Layout> layout, std::optional<Device> device,
                           std::optional<bool>) {
  check_strided("empty_permuted", layout);
  int64_t dims = int64_t(size.size());
  FL_CHECK(physical_layout.size() == size.size(), RuntimeError,
           "empty_permuted: the layout must name each of the {} dims, got {}", dims,
           physical_layout);
  Ints strides(size.size(), -1);
  int64_t step = 1;
  for (int64_t i = dims - 1; i >= 0; i--) {
    int64_t d = physical_layout[size_t(i)];
    FL_CHECK(0 <= d && d < dims && strides[size_t(d)] < 0, RuntimeError,
             "empty_permuted: the layout must name each of the {} dims once, got {}", dims,
             physical_layout);
    strides[size_t(d)] = step;
    step = mul_sat(step, std::max<int64_t>(size[size_t(d)], 1));
  }
  return new_strided(size, strides, dtype.value_or(default_dtype()), place_of(device));
}

Tensor full_impl(IntList size, const Scalar& fill_value, std::optional<DType> dtype,
                 std::optional<Layout> layout, std::optional<Device> device, std::optional<bool>) {
  DType type = dtype.value_or(natural_dtype(fill_value));
  return filled(make_new("full", size, type, layout, device), fill_value);
}

Tensor full_like_impl(const Tensor& self, const Scalar& fill_value, std::optional<DType> dtype,
                      std::optional<Layout> layout, std::optional<Device> device,
                      std::optional<bool>, std::optional<MemoryFormat> memory_format) {
  return filled(like("full_like", self, dtype, layout, device, memory_format), fill_value);
}

Tensor ones_impl(IntList size, std::optional<DType> dtype, std::optional<Layout> layout,
                 std::optional<Device> device, std::optional<bool>) {
  return filled(make_new("ones", size, dtype, layout, device), Scalar(true));
}

Tensor ones_like_impl(const Tensor& self, std::optional<DType> dtype, std::optional<Layout> layout,
                      std::optional<Device> device, std::optional<bool>,
                      std::optional<MemoryFormat> memory_format) {
  return filled(like("ones_like", self, dtype, layout, device, memory_format), Scalar(true));
}

Tensor zeros_impl(IntList size, std::optional<DType> dtype, std::optional<Layout> layout,
                  std::optional<Device> device, std::optional<bool>) {
  return filled(make_new("zeros", size, dtype, layout, device), Scalar(false));
}

Tensor zeros_like_impl(const Tensor& self, std::optional<DType> dtype, std::optional<Layout> layout,
                       std::optional<Device> device, std::optional<bool>,
                       std::optional<MemoryFormat> memory_format) {
  return filled(like("zeros_like", self, dtype, layout, device, memory_format), Scalar(false));
}

Tensor scalar_tensor_impl(const Scalar& s, std::optional<DType> dtype, std::optional<Layout> layout,
                          std::optional<Device> device, std::optional<bool>) {
  return filled(make_new("scalar_tensor", {}, dtype, layout, device), s);
}

// ---- methods that take dtype and device from a tensor ----

Tensor new_empty_impl(const Tensor& self, IntList size, std::optional<DType> dtype,
                      std::optional<Layout> layout, std::optional<Device> device,
                      std::optional<bool>) {
  return new_of("new_empty", self, size, dtype, layout, device);
}

Tensor new_empty_strided_impl(const Tensor& self, IntList size, IntList stride,
                              std::optional<DType> dtype, std::optional<Layout> layout,
                              std::optional<Device> device, std::optional<bool> pin_memory) {
  return empty_strided_impl(size, stride, dtype.value_or(self.dtype()), layout,
                            device.value_or(self.device()), pin_memory);
}

Tensor new_full_impl(const Tensor& self, IntList size, const Scalar& fill_value,
                     std::optional<DType> dtype, std::optional<Layout> layout,
                     std::optional<Device> device, std::optional<bool>) {
  return filled(new_of("new_full", self, size, dtype, layout, device), fill_value);
}

Tensor new_ones_impl(const Tensor& self, IntList size, std::optional<DType> dtype,
                     std::optional<Layout> layout, std::optional<Device> device,
                     std::optional<bool>) {
  return filled(new_of("new_ones", self, size, dtype, layout, device), Scalar(true));
}

Tensor new_zeros_impl(const Tensor& self, IntList size, std::optional<DType> dtype,
                      std::optional<Layout> layout, std::optional<Device> device,
                      std::optional<bool>) {
  return filled(new_of("new_zeros", self, size, dtype, layout, device), Scalar(false));
}

// ---- matrices ----

Tensor eye_impl(int64_t n, int64_t m, std::optional<DType> dtype, std::optional<Layout> layout,
                std::optional<Device> device, std::optional<bool>) {
  FL_CHECK(n >= 0 && m >= 0, RuntimeError, "eye: sizes must not be negative, got {} and {}", n, m);
  Tensor result = filled(make_new("eye", {n, m}, dtype, layout, device), Scalar(false));
  Tensor ones = alias(result, {{std::min(n, m)}, {m + 1}, 0});
  fill_into(ones, Scalar(true));
  return result;
}

Tensor eye_impl(int64_t n, std::optional<DType> dtype, std::optional<Layout> layout,
                std::optional<Device> device, std::optional<bool> pin_memory) {
  return eye_impl(n, n, dtype, layout, device, pin_memory);
}

namespace {

// The columns [first, last) of a row that belong to the triangle.
struct Triangle {
  int64_t rows, columns, offset;
  bool upper;
  Triangle(int64_t rows, int64_t columns, int64_t offset, bool upper)
      : rows(rows), columns(columns), offset(std::clamp(offset, -rows, columns)), upper(upper) {}

  int64_t first(int64_t row) const {
    return upper ? std::clamp<int64_t>(row + offset, 0, columns) : 0;
  }
  int64_t last(int64_t row) const {
    return upper ? columns : std::clamp<int64_t>(row + offset + 1, 0, columns);
  }
  // The rows that have elements: [begin, end).
  int64_t begin() const { return upper ? 0 : std::max<int64_t>(-offset, 0); }
  int64_t end() const { return upper ? std::min(rows, add_sat(columns, neg_sat(offset))) : rows; }
  __int128 size() const {
    if (upper) return __int128(rows) * columns - lower_size(offset - 1);
    return lower_size(offset);
  }

 private:
  // Elements at or below a diagonal: rows that grow by one, then full ones.
  __int128 lower_size(int64_t diagonal) const {
    __int128 first = std::max<__int128>(-__int128(diagonal), 0);
    __int128 full = std::clamp<__int128>(__int128(columns) - diagonal - 1, first,
                                         std::max<__int128>(first, rows));
    __int128 shortest = first + diagonal + 1, longest = full + diagonal;
    return (full - first) * (shortest + longest) / 2 + std::max<__int128>(rows - full, 0) * columns;
  }
};

Tensor triangle_indices(std::string_view op, int64_t rows, int64_t columns, int64_t offset,
                        bool upper, std::optional<DType> dtype, std::optional<Layout> layout,
                        std::optional<Device> device) {
  FL_CHECK(rows >= 0 && columns >= 0, RuntimeError,
           "{}: sizes must not be negative, got {} rows and {} columns", op, rows, columns);
  check_strided(op, layout);
  Triangle of(rows, columns, offset, upper);
  FL_CHECK(of.size() < (int64_t{1} << 59), RuntimeError,
           "{}: {} rows and {} columns have more elements than memory", op, rows, columns);
  Tensor indices = new_tensor({2, int64_t(of.size())}, DType::Int64, place_of(device));
  if (has_memory(indices) && indices.numel()) {
    auto* row_of = indices.data<int64_t>();
    auto* column_of = row_of + indices.size(1);
    for (int64_t row = of.begin(); row < of.end(); row++) {
      for (int64_t c = of.first(row), last = of.last(row); c < last; c++) {
        *row_of++ = row;
        *column_of++ = c;
      }
    }
  }
  DType want = dtype.value_or(DType::Int64);
  if (want == DType::Int64) return indices;
  FL_CHECK(want == DType::Int32, NotImplementedError, "{}: indices are int32 or int64, got {}", op,
           want);
  Tensor cast = new_tensor(indices.sizes(), want, indices.device());
  if (has_memory(cast)) copy_elements(cast, indices);
  return cast;
}

}  // namespace

Tensor tril_indices_impl(int64_t row, int64_t col, int64_t offset, std::optional<DType> dtype,
                         std::optional<Layout> layout, std::optional<Device> device,
                         std::optional<bool>) {
  return triangle_indices("tril_indices", row, col, offset, false, dtype, layout, device);
}

Tensor triu_indices_impl(int64_t row, int64_t col, int64_t offset, std::optional<DType> dtype,
                         std::optional<Layout> layout, std::optional<Device> device,
                         std::optional<bool>) {
  return triangle_indices("triu_indices", row, col, offset, true, dtype, layout, device);
}

}  // namespace flambeau::ops
