// Batching rules that follow from shapes: broadcasting, reductions and whatever counts dims, views,
// copies and factories.
#include "flambeau/autograd/batch_call.h"

namespace flambeau {

Ints with_first(int64_t first, IntList rest) {
  Ints all{first};
  for (int64_t n : rest) all.push_back(n);
  return all;
}

Tensor folded(const Tensor& values) {
  Ints sizes{values.size(0) * values.size(1)};
  for (int64_t d = 2; d < values.ndim(); d++) sizes.push_back(values.size(d));
  return ops::reshape(values, sizes);
}

Tensor unfolded(const Tensor& t, int64_t batch) {
  Ints sizes{batch, t.size(0) / batch};
  for (int64_t d = 1; d < t.ndim(); d++) sizes.push_back(t.size(d));
  return ops::reshape(t, sizes);
}

namespace {

// The dtype that the operands promote to; `example`: as one example sees them, 0-d ones included.
DType promoted(const BatchCall& c, bool example) {
  ResultType type;
  for (int i = 0; i < c.count(); i++)
    if (c.is_tensor(i)) type.add(example ? c.tensor(i) : c.values(i));
  return type.get();
}

}  // namespace

void pointwise_rule(BatchCall& c) {
  int64_t ndim = 0;
  for (int i = 0; i < c.count(); i++)
    if (c.is_tensor(i)) ndim = std::max(ndim, c.ndim(i));
  // The batch dim turns a 0-d operand into one with dims, which counts more in promotion.
  DType type = promoted(c, true);
  bool recast = type != promoted(c, false);
  for (int i = 0; i < c.count(); i++) {
    if (!c.is_tensor(i)) continue;
    Tensor t = c.op.inplace && i == 0 ? c.values(i) : c.padded(i, ndim);
    if (recast && c.batched(i) && c.ndim(i) == 0 && t.dtype() != DType::Bool &&
        !(c.op.inplace && i == 0))
      t = ops::to(t, type);
    c.set(i, t);
  }
  c.run();
}

void same_rule(BatchCall& c) {
  int tensors = 0;
  for (int i = 0; i < c.count(); i++) tensors += c.is_tensor(i) || c.is_list(i);
  for (int i = 0; i < c.count(); i++) {
    if (c.is_tensor(i)) c.set(i, tensors == 1 ? c.values(i) : c.full(i));
    if (c.is_list(i)) {
      std::vector<Tensor> list;
      for (uint32_t k = 0; k < c.given[i].count; k++) list.push_back(c.full(c.given[i].tensor[k]));
      c.set(i, std::move(list));
    }
  }
  // A memory format counts the dims of one example.
  int format = c.find("memory_format");
  if (format >= 0 && c.given[format].kind == Value::Format) {
    auto wanted = MemoryFormat(c.integer(format));
    if (wanted != MemoryFormat::Contiguous) c.clear(format);
  }
  c.run();
}

// ---- dims ----

namespace {

bool is_dim_name(std::string_view name) {
  for (const char* known : {"dim", "dims", "dim0", "dim1", "dim2", "dimension", "axis0", "axis1"})
    if (name == known) return true;
  return false;
}

bool has_dims(const OpInfo& op) {
  for (int i = 0; i < op.param_count; i++)
    if (is_dim_name(op.params[i].name)) return true;
  return false;
}

bool has_param(const OpInfo& op, std::string_view name) {
  for (int i = 0; i < op.param_count; i++)
    if (name == op.params[i].name) return true;
  return false;
}

// The overload that does along dims what `op` does over everything.
const OpInfo& along_dims(const OpInfo& op) {
  const OpSet* set = find_op(op.name);
  for (int k = 0; set && k < set->count; k++) {
    const OpInfo& other = set->overloads[k];
    bool fits = has_param(other, "dim");
    for (int i = 0; i < op.param_count; i++) fits = fits && has_param(other, op.params[i].name);
    if (fits) return other;
  }
  fail<NotImplementedError>("{}: vmap knows no overload along dims", op.name);
}

// (B, all numbers of an example)
Tensor flattened(const BatchCall& c, int i) {
  return ops::reshape(c.full(i), {c.size(), c.tensor(i).numel()});
}

// A reduction of everything: of the only dim of the flattened examples.
void reduce_all(BatchCall& c) {
  const OpInfo& other = c.find("dim") < 0 ? along_dims(c.op) : c.op;
  Tensor flat = flattened(c, 0);
  int64_t one = 1;
  std::vector<Value> values(other.param_count);
  for (int i = 0; i < other.param_count; i++) {
    std::string_view name = other.params[i].name;
    int own = c.find(name);
    if (name == "dim")
      other.params[i].kind == ArgKind::IntList ? Boxed<IntList>::set(values[size_t(i)], {&one, 1})
                                               : Boxed<int64_t>::set(values[size_t(i)], 1);
    else if (own == 0)
      Boxed<const Tensor&>::set(values[size_t(i)], flat);
    else if (own > 0 && name != "keepdim")
      values[size_t(i)] = c.given[own];
    else if (name == "keepdim")
      Boxed<bool>::set(values[size_t(i)], false);
  }
  c.run(other, values.data());
  std::string_view name(c.op.name);
  bool value_only = name == "max" || name == "min" || name == "median" || name == "nanmedian";
  if (c.results.kind == Returns::Tuple && value_only && c.find("dim") < 0) {
    c.give(Tensor(c.results.tensors[0]));
  }
  int keepdim = c.find("keepdim");
  if (keepdim < 0 || !c.integer(keepdim)) return;
  Ints ones{c.size()};
  ones.resize(size_t(1 + c.ndim(0)), 1);
  for (int i = 0; i < c.results.count; i++)
    c.results.tensors[size_t(i)] = ops::reshape(c.results.tensors[size_t(i)], ones);
}

// An optional int that is not given means everything; an optional or empty list too.
bool means_all(const BatchCall& c, int i) {
  if (c.op.params[i].kind == ArgKind::IntList)
    return c.given[i].kind == Value::None || c.given[i].count == 0;
  return c.given[i].kind == Value::None;
}

void shift(BatchCall& c, int i, int64_t ndim) {
  if (c.op.params[i].kind != ArgKind::IntList)
    return c.set(i, wrap_dim(c.op.name, c.integer(i), ndim) + 1);
  Ints dims;
  for (int64_t d : c.ints(i)) dims.push_back(wrap_dim(c.op.name, d, ndim) + 1);
  c.set(i, std::move(dims));
}

// Every tensor of several at its full size; 0-d examples get a dim to work along.
void load_for_dims(BatchCall& c, bool lift) {
  int tensors = 0;
  for (int i = 0; i < c.count(); i++) tensors += c.is_tensor(i);
  for (int i = 0; i < c.count(); i++) {
    if (!c.is_tensor(i)) continue;
    Tensor t = tensors == 1 ? c.values(i) : c.full(i);
    c.set(i, lift && t.ndim() == 1 ? ops::unsqueeze(t, 1) : t);
  }
}

void drop_lifted(BatchCall& c) {
  auto drop = [](Tensor& t) {
    if (t.defined() && t.ndim() == 2) t = ops::squeeze(t, 1);
  };
  for (int i = 0; i < c.results.count; i++) drop(c.results.tensors[size_t(i)]);
  for (Tensor& t : c.results.list) drop(t);
}

// The number of dims of one example of the first tensor.
int64_t example_dims(const BatchCall& c) {
  for (int i = 0; i < c.count(); i++)
    if (c.is_tensor(i)) return c.ndim(i);
  return 0;
}

}  // namespace

void dims_rule(BatchCall& c) {
  if (!has_dims(c.op)) return reduce_all(c);
  int64_t ndim = example_dims(c);
  int first = -1;
  for (int i = 0; i < c.count() && first < 0; i++)
    if (is_dim_name(c.op.params[i].name)) first = i;
  if (means_all(c, first)) return reduce_all(c);
  load_for_dims(c, ndim == 0);
  for (int i = 0; i < c.count(); i++)
    if (is_dim_name(c.op.params[i].name)) shift(c, i, ndim);
  c.run();
  if (ndim == 0) drop_lifted(c);
}

namespace {

// ---- views ----

void view_rule(BatchCall& c) {
  int size = c.find("size");
  if (size < 0) return same_rule(c);  // view(dtype)
  c.load();
  c.set(size, with_first(c.size(), c.ints(size)));
  c.run();
}

void expand_rule(BatchCall& c) {
  int64_t ndim = int64_t(c.ints(1).size());
  c.set(0, c.padded(0, ndim));
  c.set(1, with_first(c.size(), c.ints(1)));
  c.run();
}

void permute_rule(BatchCall& c) {
  Ints dims{0};
  for (int64_t d : c.ints(1)) dims.push_back(wrap_dim("permute", d, c.ndim(0)) + 1);
  c.give(ops::permute(c.values(0), dims));
}

void squeeze_rule(BatchCall& c) {
  const Tensor& self = c.tensor(0);
  Ints dims;
  if (c.count() == 1) {
    for (int64_t d = 0; d < self.ndim(); d++)
      if (self.size(d) == 1) dims.push_back(d + 1);
  } else if (c.op.params[1].kind == ArgKind::IntList) {
    for (int64_t d : c.ints(1)) dims.push_back(wrap_dim("squeeze", d, self.ndim()) + 1);
  } else {
    dims.push_back(wrap_dim("squeeze", c.integer(1), self.ndim()) + 1);
  }
  if (self.ndim() == 0) dims.clear();
  c.give(ops::squeeze(c.values(0), IntList(dims)));
}

void unsqueeze_rule(BatchCall& c) {
  c.give(ops::unsqueeze(c.values(0), wrap_dim("unsqueeze", c.integer(1), c.ndim(0) + 1) + 1));
}

void as_strided_rule(BatchCall& c) {
  Tensor self = c.values(0);
  Ints strides = with_first(self.stride(0), c.ints(2));
  std::optional<int64_t> offset;  // of an example it counts from the first element
  if (c.given[3].kind != Value::None) offset = self->offset() + c.integer(3);
  c.give(ops::as_strided(self, with_first(c.size(), c.ints(1)), strides, offset));
}

// ---- rearrangements ----

void repeat_rule(BatchCall& c) {
  c.set(0, c.padded(0, int64_t(c.ints(1).size())));
  c.set(1, with_first(1, c.ints(1)));
  c.run();
}

void roll_rule(BatchCall& c) {
  int dims = c.find("dims");
  if (c.ints(dims).size()) return dims_rule(c);
  c.set(0, flattened(c, 0));
  c.set(dims, Ints{1});
  c.run();
  c.give(ops::reshape(c.results.tensors[0], with_first(c.size(), c.tensor(0).sizes())));
}

void flip_rule(BatchCall& c) {
  if (!c.ints(1).empty()) return dims_rule(c);
  same_rule(c);
}

void repeat_interleave_rule(BatchCall& c) {
  int repeats = c.find("repeats");
  FL_CHECK(
      !c.batched(repeats), RuntimeError,
      "repeat_interleave: inside vmap repeats that differ by example give results of different "
      "sizes");
  c.level.decompose(c.op, c.given, c.results);
  c.finished = true;
}

// Dims of the result, which has one more.
void diag_embed_rule(BatchCall& c) {
  c.load();
  for (const char* name : {"dim1", "dim2"}) shift(c, c.find(name), c.ndim(0) + 1);
  c.run();
}

void cat_rule(BatchCall& c) {
  std::vector<Tensor> list;
  int64_t ndim = 0;
  for (uint32_t k = 0; k < c.given[0].count; k++)
    ndim = std::max(ndim, c.given[0].tensor[k].ndim());
  for (uint32_t k = 0; k < c.given[0].count; k++) {
    const Tensor& t = c.given[0].tensor[k];
    bool ignored = ndim > 1 && t.ndim() == 1 && t.size(0) == 0;  // torch joins these with anything
    if (!ignored) list.push_back(c.full(t));
  }
  c.set(0, std::move(list));
  c.set(1, wrap_dim("cat", c.integer(1), ndim) + 1);
  c.run();
}

// ---- copies, factories ----

void new_of_rule(BatchCall& c) {
  c.load();
  int size = c.find("size");
  c.set(size, with_first(c.size(), c.ints(size)));
  c.run();
}

void fill_rule(BatchCall& c) {
  if (!c.is_tensor(1)) return same_rule(c);
  Tensor self = c.full(0);
  Tensor value = ops::to(c.padded(1, c.ndim(0)), self.dtype());
  c.give(ops::clone(ops::expand(value, self.sizes())));
}

// Written in place: the examples' own values.
void write_same_rule(BatchCall& c) {
  c.load();
  c.run();
}

void copy_rule(BatchCall& c) {
  const Tensor& self = c.tensor(0);
  FL_CHECK(c.ndim(1) <= self.ndim(), RuntimeError,
           "{}: the source of shape {} does not broadcast to {}", c.op.name, c.tensor(1).sizes(),
           self.sizes());
  c.set(0, c.values(0));
  c.set(1, c.padded(1, self.ndim()));
  c.run();
}

void fill_in_place_rule(BatchCall& c) {
  if (!c.is_tensor(1)) return write_same_rule(c);
  Tensor self = c.values(0);
  ops::copy_(self, c.padded(1, c.ndim(0)));
}

void masked_fill_rule(BatchCall& c) {
  c.set(0, c.values(0));
  c.set(1, c.padded(1, c.ndim(0)));
  if (c.is_tensor(2) && c.batched(2)) {
    Tensor self = c.values(0);
    ops::copy_(self, ops::where(c.padded(1, c.ndim(0)), c.padded(2, c.ndim(0)), self));
    return;
  }
  c.run();
}

void no_example_rule(BatchCall& c) {
  fail<RuntimeError>(
      "{}: inside vmap the size of the result would depend on the values of each example",
      c.op.name);
}

// The other tensors are the same for all examples.
void tables_rule(BatchCall& c) {
  for (int i = 1; i < c.count(); i++)
    if (c.batched(i)) return loop_rule(c);
  const int64_t ndim = c.ndim(0);
  c.load();
  for (int i = 0; i < c.count(); i++)
    if (is_dim_name(c.op.params[i].name)) shift(c, i, ndim);
  c.run();
}

void searchsorted_rule(BatchCall& c) {
  if (!c.is_tensor(1) || c.ndim(0) != c.ndim(1)) {
    bool shared = c.ndim(0) == 1 && !c.batched(0) && c.given[c.find("sorter")].kind == Value::None;
    return shared ? tables_rule(c) : loop_rule(c);
  }
  same_rule(c);
}

}  // namespace

void add_shape_rules(BatchRules& rules) {
  add_rules(rules,
            {"all",
             "any",
             "nansum",
             "std",
             "std_mean",
             "var",
             "var_mean",
             "median",
             "nanmedian",
             "linalg_vector_norm",
             "cummax",
             "cummin",
             "cumprod",
             "cumsum",
             "logcumsumexp",
             "logsumexp",
             "softmax",
             "log_softmax",
             "_softmax_backward",
             "sort",
             "topk",
             "kthvalue",
             "mode",
             "diagonal",
             "select",
             "slice",
             "split",
             "transpose",
             "unbind",
             "unfold",
             "diagonal_scatter",
             "select_scatter",
             "slice_scatter"},
            dims_rule);
  add_rules(rules,
            {"clone",
             "_to_copy",
             "detach",
             "_piecewise",
             "view_as_real",
             "view_as_complex",
             "tril",
             "triu",
             "round",
             "linalg_qr",
             "geqrf",
             "linalg_lu_factor_ex",
             "linalg_cholesky_ex",
             "linalg_svd",
             "linalg_eig",
             "linalg_eigh",
             "_linalg_eigvalsh",
             "_linalg_svdvals",
             "linalg_ldl_factor_ex",
             "linalg_ldl_solve",
             "linalg_det",
             "_linalg_solve",
             "_linalg_solve_triangular",
             "_permutation",
             "frexp",
             "constant_pad_nd",
             "empty_like",
             "full_like",
             "ones_like",
             "zeros_like",
             "one_hot"},
            same_rule);
  add_rules(rules, {"complex", "div"}, pointwise_rule);
  add_rules(rules, {"new_empty", "new_full", "new_ones", "new_zeros"}, new_of_rule);
  add_rules(rules, {"zero_"}, write_same_rule);
  add_rules(rules, {"nonzero", "masked_select", "_unique2", "unique_consecutive", "unique_dim"},
            no_example_rule);
  add_rules(rules, {"bucketize", "isin", "_resample"}, tables_rule);
  rules["searchsorted"] = searchsorted_rule;
  rules["view"] = view_rule;
  rules["expand"] = expand_rule;
  rules["permute"] = permute_rule;
  rules["squeeze"] = squeeze_rule;
  rules["unsqueeze"] = unsqueeze_rule;
  rules["as_strided"] = as_strided_rule;
  rules["repeat"] = repeat_rule;
  rules["roll"] = roll_rule;
  rules["diag_embed"] = diag_embed_rule;
  rules["cat"] = cat_rule;
  rules["fill"] = fill_rule;
  rules["copy_"] = copy_rule;
  rules["fill_"] = fill_in_place_rule;
  rules["masked_fill_"] = masked_fill_rule;
  add_rules(rules, {"flip", "_fft_c2c", "_fft_c2r", "_fft_r2c"}, flip_rule);
  rules["repeat_interleave"] = repeat_interleave_rule;
  add_rules(rules, {"_dirichlet_grad", "_standard_gamma_grad"}, same_rule);
  add_rules(rules,
            {"as_strided_scatter", "nonzero_static", "bincount", "histc", "histogram",
             "_pack_padded_sequence", "_pad_packed_sequence", "_pseudo_inverse", "cholesky_inverse",
             "cholesky_solve", "hash_tensor"},
            loop_rule);
}

}  // namespace flambeau
