// x.float(), x.long(), x.cpu(): short names for `to`. A tensor that is there already comes back
// itself.
#include "flambeau/generated/ops.h"
#include "python/src/arguments.h"
#include "python/src/dtypes.h"
#include "python/src/ops.h"
#include "python/src/parse.h"
#include "python/src/tensor_methods.h"
#include "python/src/torch_function.h"
#include "python/src/wrap.h"

namespace flambeau::python {
namespace {

std::optional<MemoryFormat> format_argument(const char* name, PyObject* o) {
  if (!given(o)) return {};
  MemoryFormat format;
  FL_CHECK(as_memory_format(o, format), TypeError,
           "{}: memory_format must be memory_format, got {}", name, type_name(o));
  return format;
}

PyObject* answered(const char* name, PyObject* self, Tensor result) {
  if (FL_LIKELY(is_exact_tensor(self))) return wrap(std::move(result));
  if (PyObject* answer = ask_operands(name, {self})) return answer;
  return as_operands(wrap(std::move(result)), {self});
}

struct Cast {
  const char* name;
  DType dtype;
};
constexpr Cast kCasts[] = {
    {"float", DType::Float32},     {"double", DType::Float64},   {"half", DType::Float16},
    {"bfloat16", DType::BFloat16}, {"int", DType::Int32},        {"long", DType::Int64},
    {"short", DType::Int16},       {"char", DType::Int8},        {"byte", DType::UInt8},
    {"bool", DType::Bool},         {"cfloat", DType::Complex64}, {"cdouble", DType::Complex128}};

template <size_t i>
PyObject* cast(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return guarded([&]() -> PyObject* {
    constexpr Cast to = kCasts[i];
    PyObject* format = nullptr;
    if (FL_UNLIKELY(nargs || kwnames))
      format = parse_arguments(to.name, {"memory_format"}, args, nargs, kwnames)[0];
    return answered(
        to.name, self,
        ops::to(tensor_of(self), to.dtype, false, false, format_argument(to.name, format)));
  });
}

// cpu(memory_format=), cuda(device=None, non_blocking=False, memory_format=)
template <DeviceType type>
PyObject* move(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return guarded([&]() -> PyObject* {
    constexpr const char* name = type == DeviceType::CPU ? "cpu" : "cuda";
    Device device{type, -1};
    PyObject* format = nullptr;
    if constexpr (type == DeviceType::CPU) {
      format = parse_arguments(name, {"memory_format"}, args, nargs, kwnames)[0];
    } else {
      auto [place, async, given_format] =
          parse_arguments(name, {"device", "non_blocking", "memory_format"}, args, nargs, kwnames);
      (void)bool_argument(name, "non_blocking", async, false);
      FL_CHECK(!given(place) || as_device(place, device), TypeError,
               "cuda: device must be device, got {}", type_name(place));
      format = given_format;
    }
    return answered(
        name, self,
        ops::to(tensor_of(self), device, {}, false, false, format_argument(name, format)));
  });
}

// x.to(None) and x.to(None, dtype): no device named means the one where the tensor is.
PyObject* to(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  static const size_t index = op_index("to");
  if (FL_UNLIKELY(nargs > 0 && args[0] == Py_None)) {
    if (nargs == 1 && !kwnames) return Py_NewRef(self);
    args++;
    nargs--;
  }
  return call_set(*all_ops()[index], index, self, args, nargs, kwnames);
}

template <size_t... i>
void append_casts(Methods& table, std::index_sequence<i...>) {
  (table.push_back({kCasts[i].name, as_function(cast<i>), kFast, "x.to of this dtype."}), ...);
}

}  // namespace

void append_cast_methods(Methods& table) {
  append_casts(table, std::make_index_sequence<std::size(kCasts)>());
  table.push_back({"to", as_function(to), kFast,
                   "The tensor in another dtype or on another device; itself if it is there."});
  table.push_back({"cpu", as_function(move<DeviceType::CPU>), kFast,
                   "cpu($self, memory_format=None)\n--\n\nx.to('cpu')."});
  table.push_back(
      {"cuda", as_function(move<DeviceType::CUDA>), kFast,
       "cuda($self, device=None, non_blocking=False, memory_format=None)\n--\n\nx.to('cuda')."});
}

}  // namespace flambeau::python
