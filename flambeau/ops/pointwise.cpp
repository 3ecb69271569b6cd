// The pointwise engine. A loop only ever sees contiguous runs of its compute type; whatever is
// strided, broadcast or of another type passes through tiles that stay in L1.
#include "flambeau/ops/pointwise.h"

#include "flambeau/kernels/cpu/cast.h"
#include "flambeau/kernels/cpu/rearrange.h"
#include "flambeau/ops/iteration.h"
#include "flambeau/ops/runtime.h"

namespace flambeau {

namespace {

constexpr int64_t kTile = 512;  // elements; 512 complex doubles of 8 operands are 64 KB

constexpr DType kNative[kComputes] = {DType::Int32,     DType::Int64,   DType::UInt64,
                                      DType::Float32,   DType::Float64, DType::Complex64,
                                      DType::Complex128};

Compute compute_type(DType t) {
  switch (t) {
    case DType::UInt32:
    case DType::Int64:
      return Compute::Int64;
    case DType::UInt64:
      return Compute::UInt64;
    case DType::Float16:
    case DType::BFloat16:
    case DType::Float32:
      return Compute::Float32;
    case DType::Float64:
      return Compute::Float64;
    case DType::Complex64:
      return Compute::Complex64;
    case DType::Complex128:
      return Compute::Complex128;
    default:
      return Compute::Int32;
  }
}

template <class T>
void put(char* at, T v) {
  std::memcpy(at, &v, sizeof v);
}

void store_number(char* at, const Scalar& s, Compute c) {
  switch (c) {
    case Compute::Int32:
      return put(at, int32_t(s.to_int()));
    case Compute::Int64:
    case Compute::UInt64:
      return put(at, s.to_int());
    case Compute::Float32:
      return put(at, float(s.to_double()));
    case Compute::Float64:
      return put(at, s.to_double());
    case Compute::Complex64:
      return put(at, std::complex<float>(s.to_complex()));
    case Compute::Complex128:
      return put(at, s.to_complex());
  }
}

// The loop for whole rows of contiguous operands in one dtype: of half types as they are where the
// table has that.
class RowLoop {
 public:
  RowLoop() = default;
  RowLoop(const PointwiseTable& table, DType dtype)
      : native_(table.loops[int(compute_type(dtype))]), bfloat16_(dtype == DType::BFloat16) {
    if (bfloat16_ || dtype == DType::Float16) halves_ = table.halves;
    in_ = halves_ ? dtype : kNative[int(compute_type(dtype))];
  }
  DType in() const { return in_; }  // what the operands must be
  bool takes_halves() const { return halves_ != nullptr; }
  explicit operator bool() const { return native_ != nullptr; }

  // `width`: bytes of an element of the result.
  void run(void* out, const void* const* in, int64_t inputs, int64_t n, const void* numbers,
           int64_t width) const {
    if (FL_LIKELY(!halves_)) return native_(out, in, n, numbers);
    int64_t full = n / kHalvesStep * kHalvesStep, rest = n - full;
    if (full) halves_(out, in, full, numbers, bfloat16_);
    if (rest)
      run_rest(static_cast<char*>(out) + full * width, in, inputs, full, rest, numbers, width);
  }

 private:
  // What fills no step goes through a copy that does.
  void run_rest(void* out, const void* const* in, int64_t inputs, int64_t from, int64_t n,
                const void* numbers, int64_t width) const {
    alignas(64) BFloat16 padded[kMaxOperands][kHalvesStep] = {};
    const void* at[kMaxOperands];
    for (int64_t k = 0; k < inputs; k++) {
      std::memcpy(padded[k + 1], static_cast<const BFloat16*>(in[k]) + from,
                  size_t(n) * sizeof(BFloat16));
      at[k] = padded[k + 1];
    }
    halves_(padded[0], at, kHalvesStep, numbers, bfloat16_);
    std::memcpy(out, padded[0], size_t(n * width));
  }

  PointwiseLoop* native_ = nullptr;
  HalvesLoop* halves_ = nullptr;
  bool bfloat16_ = false;
  DType in_{};
};

// What a call comes down to: types, the loops and their numbers.
struct Call {
  explicit Call(const PointwiseOp& op) : op(op) {}
  const PointwiseOp& op;
  DType common{}, result{};  // type computed in, type of the result
  Compute compute{};
  DType native_out{};             // what the loop writes
  PointwiseLoop* loop = nullptr;  // over tiles
  RowLoop rows;                   // over rows that need none
  alignas(16) char numbers[4 * 16];

  DType row_out() const { return rows.takes_halves() ? result : native_out; }
  void run_row(void* out, const void* const* in, int64_t n) const {
    rows.run(out, in, op.inputs, n, numbers, itemsize(row_out()));
  }
};

[[gnu::noinline, gnu::cold, noreturn]] void no_loop(const PointwiseOp& op, DType t) {
  FL_CHECK(!op.tables[0]->ordered || !is_complex(t), RuntimeError,
           "{}: not defined for {}, which has no order", op.name, t);
  fail<NotImplementedError>("{}: not defined for {}", op.name, t);
}

// The type that all tensors have which are not ignored.
DType one_dtype(const PointwiseOp& op, Inputs inputs) {
  const Tensor* first = nullptr;
  int i = 0;
  for (const Tensor* t : inputs) {
    if (op.ignored >> i++ & 1) continue;
    if (!first) first = t;
    FL_CHECK(t->dtype() == first->dtype(), RuntimeError,
             "{}: the tensors ({}) must have one dtype, got {} and {}", op.name, op.arguments,
             first->dtype(), t->dtype());
  }
  return first->dtype();
}

// A bool among the operands of a difference, whatever the other is.
void check_difference(const PointwiseOp& op, Inputs inputs, Numbers numbers) {
  bool mixed = op.promoting && numbers.begin()->dtype() == DType::Bool;
  for (const Tensor* t : inputs) mixed |= t->dtype() == DType::Bool;
  FL_CHECK(!mixed, RuntimeError, "{}: not defined for bool; use logical_not or bitwise_xor",
           op.name);
}

// Values that integer arithmetic has no answer for: one pass before anything is written.
void check_second(const PointwiseOp& op, Inputs inputs, Numbers numbers) {
  const PointwiseTable& table = *op.tables[0];
  const Scalar* number = op.promoting ? numbers.end() - 1 : nullptr;
  if (table.powers) {
    FL_CHECK(!number || number->to_double() >= 0, RuntimeError,
             "{}: integers have no negative integer powers, got exponent {}", op.name, *number);
    return;
  }
  FL_CHECK(!number || number->to_double() != 0, RuntimeError,
           "{}: integers cannot be divided by zero", op.name);
  const Tensor& divisor = **(inputs.end() - 1);
  if (number || !has_values(divisor)) return;
  Tensor values = new_tensor(divisor.sizes(), DType::Int64, divisor.device());
  copy_elements(values, divisor);
  for (int64_t i = 0; i < values.numel(); i++)
    FL_CHECK(values.data<int64_t>()[i] != 0, RuntimeError,
             "{}: integers cannot be divided by zero, got one in place {}", op.name, i);
}

void choose(Call& call, Inputs inputs, Numbers numbers) {
  const PointwiseOp& op = call.op;
  const Tensor& first = **inputs.begin();
  bool alike = op.promoting == 0 || op.rule == DTypeRule::Same;
  for (const Tensor* t : inputs) alike = alike && t->dtype() == first.dtype() && !(*t)->is_number;
  if (FL_LIKELY(alike && op.ignored == 0)) {
    call.common = first.dtype();
  } else if (op.rule == DTypeRule::Same) {
    call.common = one_dtype(op, inputs);
  } else {
    ResultType type;
    int i = 0;
    for (const Tensor* t : inputs) {
      if (!(op.ignored >> i++ & 1)) type.add(*t);
    }
    i = 0;
    for (const Scalar& s : numbers) {
      if (op.promoting >> i++ & 1) type.add(s);
    }
    call.common = type.get();
  }
  if (op.rule == DTypeRule::Float) call.common = to_inexact(call.common);
  if (op.rule == DTypeRule::Number && call.common == DType::Bool) call.common = DType::Int64;
  if (FL_UNLIKELY(!op.takes_bool)) check_difference(op, inputs, numbers);
  call.compute = compute_type(call.common);
  const PointwiseTable& table = *op.tables[int(active_isa)];
  call.loop = table.loops[int(call.compute)];
  call.rows = RowLoop(table, call.common);
  bool absent = is_wide_unsigned(call.common) ? !table.loops[int(Compute::UInt64)]
                                              : table.numeric && call.common == DType::Bool &&
                                                    !(table.powers && op.promoting);
  if (FL_UNLIKELY(!call.loop || absent)) no_loop(op, call.common);
  if (FL_UNLIKELY((table.divides || table.powers) && !is_inexact(call.common)))
    check_second(op, inputs, numbers);
  call.result = call.common;
  call.native_out = kNative[int(call.compute)];
  if (op.rule == DTypeRule::Bool) call.result = call.native_out = DType::Bool;
  if (op.rule == DTypeRule::Real && is_complex(call.common))
    call.result = call.native_out = real_of(call.common);
  char* at = call.numbers;
  for (const Scalar& s : numbers) {
    store_number(at, s, call.compute);
    at += itemsize(kNative[int(call.compute)]);
  }
}

// Runs the loop over `n` elements along the innermost dim, from the given addresses.
void run_tiles(const Call& call, const Iteration& it, char* const* at, int64_t n) {
  alignas(64) char tiles[kMaxOperands][kTile * 16];
  DType native = kNative[int(call.compute)];
  int64_t width = itemsize(native);
  bool filled[kMaxOperands] = {};
  for (int64_t start = 0; start < n; start += kTile) {
    int64_t m = n - start < kTile ? n - start : kTile;
    const void* in[kMaxOperands];
    for (int k = 1; k < it.count; k++) {
      const Operand& o = it.operands[k];
      int64_t step = o.strides[0];
      char* from = at[k] + start * step;
      if (o.dtype == native && step == width) {
        in[k - 1] = from;
        continue;
      }
      if (!(step == 0 && filled[k])) cast_strided(o.dtype, native, from, step, tiles[k], width, m);
      filled[k] = true;
      in[k - 1] = tiles[k];
    }
    const Operand& o = it.operands[0];
    char* to = at[0] + start * o.strides[0];
    if (o.dtype == call.native_out && o.strides[0] == itemsize(call.native_out)) {
      call.loop(to, in, m, call.numbers);
    } else {
      call.loop(tiles[0], in, m, call.numbers);
      cast_strided(call.native_out, o.dtype, tiles[0], itemsize(call.native_out), to, o.strides[0],
                   m);
    }
  }
}

// Every operand as the loop takes it and contiguous along the innermost dim: it may run over whole
// rows.
bool has_plain_rows(const Call& call, const Iteration& it) {
  for (int k = 0; k < it.count; k++) {
    DType dtype = k ? call.rows.in() : call.row_out();
    if (it.operands[k].dtype != dtype || it.operands[k].strides[0] != itemsize(dtype)) return false;
  }
  return true;
}

// A run along the innermost dim, with or without tiles.
void run_row(const Call& call, const Iteration& it, bool plain, char* const* at, int64_t n) {
  if (!plain) return run_tiles(call, it, at, n);
  const void* in[kMaxOperands];
  for (int k = 1; k < it.count; k++) in[k - 1] = at[k];
  call.run_row(at[0], in, n);
}

// An input whose next dim is the contiguous one: along the innermost every element would cost a
// cache line.
bool lies_across(const Operand& o) {
  int64_t width = itemsize(o.dtype);
  return o.strides[0] != width && o.strides[0] != 0 && o.strides[1] == width;
}

// As many rows as elements of an input that lies across fill a line, and so many columns that two
// such blocks stay in L1.
constexpr int64_t kLine = 64, kBlockColumns = 256;
constexpr int kMostAcross = 2;

// The rows of a block; 0 where rows one by one will do.
int64_t block_rows(const Iteration& it) {
  int across = 0;
  int64_t rows = kLine;
  for (int k = 1; k < it.count; k++) {
    if (it.next() == 1 || !lies_across(it.operands[k])) continue;
    rows = std::min(rows, kLine / itemsize(it.operands[k].dtype));
    across++;
  }
  bool pays = across > 0 && across <= kMostAcross && it.next() >= rows / 2 && it.inner() >= 16 &&
              it.inner() <= 2 * kGrain;
  return pays ? rows : 0;
}

// Rows of a plane, a block at a time: what lies across is turned into a tile first.
void run_blocks(const Call& call, const Iteration& it, char* const* at, int64_t rows, int64_t n) {
  alignas(64) char turned[kMostAcross][kLine * kBlockColumns];
  Iteration straight = it;
  for (int k = 1; k < it.count; k++) {
    if (lies_across(it.operands[k]))
      straight.operands[k].strides[0] = itemsize(it.operands[k].dtype);
  }
  bool plain = has_plain_rows(call, straight);
  for (int64_t start = 0; start < n; start += kBlockColumns) {
    int64_t columns = std::min(kBlockColumns, n - start);
    char* from[kMaxOperands];
    int64_t row_step[kMaxOperands];
    int across = 0;
    for (int k = 0; k < it.count; k++) {
      const Operand& o = it.operands[k];
      from[k] = at[k] + start * o.strides[0];
      row_step[k] = o.strides[1];
      if (k == 0 || !lies_across(o)) continue;
      row_step[k] = kBlockColumns * itemsize(o.dtype);
      turn_block(itemsize(o.dtype), from[k], o.strides[0], turned[across], row_step[k], rows,
                 columns);
      from[k] = turned[across++];
    }
    for (int64_t r = 0; r < rows; r++) {
      run_row(call, straight, plain, from, columns);
      for (int k = 0; k < it.count; k++) from[k] += row_step[k];
    }
  }
}

void iterate(const Call& call, const Tensor& result, Inputs inputs) {
  if (result.numel() == 0 || !result->data) return;
  Iteration it(result.sizes());
  it.add(result);
  for (const Tensor* t : inputs) it.add(*t);
  it.plan();
  if (int64_t most = block_rows(it)) {
    return it.for_blocks(
        most, [&](char* const* at, int64_t rows, int64_t n) { run_blocks(call, it, at, rows, n); });
  }
  bool plain = has_plain_rows(call, it);
  it.for_rows([&](char* const* at, int64_t n) { run_row(call, it, plain, at, n); });
}

// All operands contiguous, of one shape and as the loop takes them: no iteration is needed.
bool is_plain(const Call& call, const Tensor& result, Inputs inputs) {
  if (!result->contiguous() || result.dtype() != call.row_out()) return false;
  for (const Tensor* t : inputs) {
    if (t->dtype() != call.rows.in() || !(*t)->contiguous() || !(t->sizes() == result.sizes()))
      return false;
  }
  return true;
}

void execute(const Call& call, const Tensor& result, Inputs inputs) {
  if (FL_UNLIKELY(!is_plain(call, result, inputs))) return iterate(call, result, inputs);
  if (FL_UNLIKELY(!result->data)) return;
  const void* in[kMaxOperands];
  int k = 0;
  for (const Tensor* t : inputs) in[k++] = (*t)->data;
  if (FL_LIKELY(result.numel() <= kGrain)) return call.run_row(result->data, in, result.numel());
  parallel_for(result.numel(), kGrain, [&](int64_t begin, int64_t end) {
    const void* from[kMaxOperands];
    int64_t size = itemsize(call.rows.in());
    for (int i = 0; i < k; i++) from[i] = static_cast<const char*>(in[i]) + begin * size;
    call.run_row(result->data + begin * itemsize(call.row_out()), from, end - begin);
  });
}

bool same_shapes(Inputs inputs) {
  const Tensor& first = **inputs.begin();
  for (const Tensor* t : inputs) {
    if (!(t->sizes() == first.sizes())) return false;
  }
  return true;
}

// The input whose order of dims the result takes: the first that has the result's shape.
Tensor fresh_result(const Call& call, Inputs inputs) {
  Device device = check_devices(call.op.name, inputs, call.op.arguments);
  if (FL_LIKELY(same_shapes(inputs))) {
    const Tensor& first = **inputs.begin();
    if (FL_LIKELY(first.device() == device)) return new_like(first, call.result);
  }
  Ints sizes = broadcast_sizes(call.op.name, inputs);
  for (const Tensor* t : inputs) {
    if (t->sizes() == IntList(sizes) && t->device() == device && !has_internal_overlap(*t))
      return new_like(*t, call.result);
  }
  return new_tensor(sizes, call.result, device);
}

// An input that overlaps the written tensor in part must be copied first; one that is exactly it is
// fine.
struct Untangled {
  Tensor copies[kMaxOperands];
  const Tensor* list[kMaxOperands];
  int count = 0;

  Untangled(std::string_view op, const Tensor& written, Inputs inputs) {
    check_unshared(op, written);
    for (const Tensor* t : inputs) {
      Overlap o = memory_overlap(written, *t);
      FL_CHECK(o != Overlap::Partial, RuntimeError,
               "{}: an input and the written tensor overlap in part (both views of one memory); "
               "clone one of them first",
               op);
      if (o == Overlap::Maybe) {
        copies[count] = new_tensor(t->sizes(), t->dtype(), t->device());
        copy_elements(copies[count], *t);
        list[count] = &copies[count];
      } else {
        list[count] = t;
      }
      count++;
    }
  }
};

void execute_list(const Call& call, const Tensor& result, const Untangled& u) {
  switch (u.count) {  // initializer_list cannot be made from a run-time array
    case 1:
      return execute(call, result, {u.list[0]});
    case 2:
      return execute(call, result, {u.list[0], u.list[1]});
    case 3:
      return execute(call, result, {u.list[0], u.list[1], u.list[2]});
    case 4:
      return execute(call, result, {u.list[0], u.list[1], u.list[2], u.list[3]});
    default:
      FL_ASSERT(u.count <= 4);
  }
}

}  // namespace

Ints broadcast_sizes(std::string_view op, Inputs inputs) {
  size_t n = 0;
  for (const Tensor* t : inputs) n = std::max<size_t>(n, size_t(t->ndim()));
  Ints sizes(n, 1);
  for (const Tensor* t : inputs) {
    for (size_t d = 0; d < size_t(t->ndim()); d++) {
      int64_t have = t->sizes()[size_t(t->ndim()) - 1 - d];
      int64_t& want = sizes[n - 1 - d];
      if (have == want || have == 1) continue;
      if (want != 1) {
        std::string shapes;
        for (const Tensor* u : inputs)
          shapes += (shapes.empty() ? "" : " and ") + format("{}", u->sizes());
        fail<RuntimeError>(
            "{}: shapes must broadcast, got {} (sizes {} and {} in dim {} from the end)", op,
            shapes, want, have, d + 1);
      }
      want = have;
    }
  }
  return sizes;
}

Device mixed_device(std::string_view op, Inputs inputs, std::string_view names) {
  Device device{};
  bool first = true, zero_dim = true;
  for (const Tensor* t : inputs) {
    if (!t->defined()) continue;
    if (first || (zero_dim && !(t->device() == device) && t->ndim() > 0)) {
      device = t->device();
      zero_dim = t->ndim() == 0 && device.type == DeviceType::CPU;
      first = false;
    } else if (!(t->device() == device) &&
               !(t->ndim() == 0 && t->device().type == DeviceType::CPU)) {
      std::string list;
      size_t at = 0;
      for (const Tensor* u : inputs) {
        size_t end = std::min(names.find(' ', at), names.size());
        std::string name = at < names.size() ? std::string(names.substr(at, end - at)) : "a tensor";
        at = end + 1;
        if (u->defined()) list += format("{}{} on {}", list.empty() ? "" : ", ", name, u->device());
      }
      fail<RuntimeError>(
          "{}: all tensors must be on one device, got {}; move them with .to(device)", op, list);
    }
  }
  return device;
}

Device one_device(std::string_view op, Inputs inputs) {
  const Tensor* first = nullptr;
  for (const Tensor* t : inputs) {
    if (!t->defined()) continue;
    if (!first) first = t;
    FL_CHECK(t->device() == (*first).device(), RuntimeError,
             "{}: all tensors must be on one device, got {} and {}; move them with .to(device)", op,
             first->device(), t->device());
  }
  return first ? first->device() : Device{};
}

Device list_device(std::string_view op, TensorList tensors) {
  FL_CHECK(!tensors.empty(), ValueError, "{}: at least one tensor is needed, got an empty list",
           op);
  const Tensor& first = tensors[0];
  for (const Tensor& t : tensors)
    if (FL_UNLIKELY(!(t.defined() && t.device() == first.device())))
      check_devices(op, {&first, &t});
  return first.device();
}

namespace {

// The kernel that moves whole items in whatever order is fastest.
void copy_items(const Tensor& dst, const Tensor& src) {
  if (dst->contiguous() && src->contiguous() && dst.sizes() == src.sizes() &&
      dst.numel() * itemsize(dst.dtype()) <= 4096) {
    std::memcpy(dst->data, src->data, size_t(dst.numel() * itemsize(dst.dtype())));
    return;
  }
  int64_t strides[kMaxDims];
  for (int64_t d = 0; d < dst.ndim(); d++) {
    int64_t from = d - (dst.ndim() - src.ndim());
    strides[d] = from < 0 || src.size(from) == 1 ? 0 : src->strides[from];
  }
  copy_strided(itemsize(dst.dtype()), int(dst.ndim()), dst->sizes, src->data, strides, dst->data,
               dst->strides);
}

}  // namespace

void copy_elements(const Tensor& dst, const Tensor& src) {
  if (dst.numel() == 0 || !dst->data) return;
  FL_CHECK(src->data, RuntimeError, "copy: a tensor on {} of shape {} has no values to read",
           src.device(), src.sizes());
  if (dst.dtype() == src.dtype()) return copy_items(dst, src);
  Iteration it(dst.sizes());
  it.add(dst);
  it.add(src);
  it.plan();
  it.for_rows([&](char* const* at, int64_t n) {
    const Operand &to = it.operands[0], &from = it.operands[1];
    cast_strided(from.dtype, to.dtype, at[1], from.strides[0], at[0], to.strides[0], n);
  });
}

namespace {

// Does a number leave the dtype alone? A float does for floats, an integer for floats and integers.
bool keeps_dtype(const PointwiseOp& op, DType dtype, Numbers numbers) {
  int i = 0;
  for (const Scalar& s : numbers) {
    bool promotes = op.promoting >> i++ & 1;
    if (promotes && !(is_float(dtype) ? !s.is_complex() : dtype == DType::Int64 && s.is_integer()))
      return false;
  }
  return true;
}

// Contiguous tensors of one shape, dtype and device, which need neither promotion nor iteration.
bool is_uniform(const PointwiseOp& op, Inputs inputs) {
  const TensorImpl* a = (*inputs.begin())->impl();
  if (op.ignored || !a->contiguous() || a->is_number) return false;
  for (const Tensor* const* t = inputs.begin() + 1; t != inputs.end(); t++) {
    const TensorImpl* b = (*t)->impl();
    if (b->dtype != a->dtype || b->ndim != a->ndim || !b->contiguous() || b->is_number ||
        !(b->device == a->device))
      return false;
    for (int d = 0; d < a->ndim; d++) {
      if (a->sizes[d] != b->sizes[d]) return false;
    }
  }
  return true;
}

// The common small call, without the general machinery: one loop over uniform inputs.
class SmallCall {
 public:
  // False where it does not apply.
  bool prepare(const PointwiseOp& op, Inputs inputs, Numbers numbers) {
    const Tensor& first = **inputs.begin();
    DType dtype = first.dtype();
    if (!is_uniform(op, inputs) || first.numel() > kGrain || !first->data) return false;
    if (op.rule == DTypeRule::Real || !keeps_dtype(op, dtype, numbers)) return false;
    Compute compute = compute_type(dtype);
    const PointwiseTable& table = *op.tables[int(active_isa)];
    loop_ = RowLoop(table, dtype);
    if ((table.divides || table.powers) && !is_inexact(dtype)) return false;
    if (loop_.in() != dtype || !loop_ || (op.rule == DTypeRule::Float && !is_inexact(dtype)))
      return false;
    char* at = numbers_;
    for (const Scalar& s : numbers) {
      store_number(at, s, compute);
      at += itemsize(kNative[int(compute)]);
    }
    for (const Tensor* t : inputs) in_[count_++] = (*t)->data;
    return true;
  }
  void run(const Tensor& result) const {
    loop_.run(result->data, in_, count_, result.numel(), numbers_, itemsize(result.dtype()));
  }

 private:
  RowLoop loop_;
  int64_t count_ = 0;
  const void* in_[kMaxOperands];
  alignas(16) char numbers_[4 * 16];
};

// Into one of the inputs, or into memory that none of them shares.
bool small_uniform_into(const PointwiseOp& op, const Tensor& self, Inputs inputs, Numbers numbers) {
  if (op.rule == DTypeRule::Bool) return false;
  bool among = false;
  for (const Tensor* t : inputs) {
    bool same = t->is(self);
    if (!same && (*t)->storage == self->storage) return false;
    among = among || same;
  }
  SmallCall small;
  if (!among || !small.prepare(op, inputs, numbers)) return false;
  small.run(self);
  return true;
}

}  // namespace

Tensor pointwise(const PointwiseOp& op, Inputs inputs, Numbers numbers) {
  if (SmallCall small; FL_LIKELY(small.prepare(op, inputs, numbers))) {
    const Tensor& first = **inputs.begin();
    Tensor result = new_like(first, op.rule == DTypeRule::Bool ? DType::Bool : first.dtype());
    small.run(result);
    return result;
  }
  Call call(op);
  choose(call, inputs, numbers);
  Tensor result = fresh_result(call, inputs);
  execute(call, result, inputs);
  return result;
}

void pointwise_into(const PointwiseOp& op, const Tensor& self, Inputs inputs, Numbers numbers) {
  if (FL_LIKELY(small_uniform_into(op, self, inputs, numbers))) return;
  Call call(op);
  choose(call, inputs, numbers);
  bool real = op.rule == DTypeRule::Real && is_complex(call.common);
  FL_CHECK(can_cast(call.result, self.dtype()) && !real, RuntimeError,
           "{}_: the result is {} and does not fit in {}", op.name, call.result, self.dtype());
  check_devices(op.name, inputs, op.arguments);
  Ints sizes = broadcast_sizes(op.name, inputs);
  FL_CHECK(IntList(sizes) == self.sizes(), RuntimeError,
           "{}_: the result has shape {}, the written tensor has {}", op.name, sizes, self.sizes());
  Untangled u(op.name, self, inputs);
  execute_list(call, self, u);
}

Tensor& pointwise_out(const PointwiseOp& op, Tensor& out, Inputs inputs, Numbers numbers) {
  Call call(op);
  choose(call, inputs, numbers);
  FL_CHECK(can_cast(call.result, out.dtype()), RuntimeError,
           "{}: the result is {} and does not fit in out of {}", op.name, call.result, out.dtype());
  Device device = check_devices(op.name, inputs, op.arguments);
  FL_CHECK(out.device() == device, RuntimeError, "{}: out is on {}, the inputs on {}", op.name,
           out.device(), device);
  Ints sizes = broadcast_sizes(op.name, inputs);
  check_unshared(op.name, out);  // before it is resized, as torch does
  resize_out(op.name, out, sizes);
  Untangled u(op.name, out, inputs);
  execute_list(call, out, u);
  out->bump_version();
  return out;
}

}  // namespace flambeau
