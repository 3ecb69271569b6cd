// Random ops inside a map, and the loop over the examples that ops without a rule get.
#include "flambeau/autograd/batch_call.h"
#include "flambeau/core/generator.h"

namespace flambeau {

void count_batch_loop(const char* name);

namespace {

bool is_one_of(std::string_view name, std::initializer_list<const char*> names) {
  for (const char* known : names)
    if (name == known) return true;
  return false;
}

bool is_dropout(std::string_view name) {
  return name.find("dropout") != name.npos || name.starts_with("rrelu");
}

// One draw per sample and channel.
bool is_by_channel(std::string_view name) { return name.find("feature") != name.npos; }

Generator& generator_of(const BatchCall& c) {
  int i = c.find("generator");
  Generator* given = i < 0 ? nullptr : Boxed<Generator*>::get(c.given[i]);
  return given ? *given : default_generator();
}

// The arguments of one example.
void load_example(BatchCall& c, int64_t b) {
  auto one = [&](const Tensor& t) {
    return c.level.owns(t) ? ops::select(batch_values(t), 0, b) : t;
  };
  for (int i = 0; i < c.count(); i++) {
    if (c.is_tensor(i)) c.set(i, one(c.tensor(i)));
    if (!c.is_list(i)) continue;
    std::vector<Tensor> list;
    for (uint32_t k = 0; k < c.given[i].count; k++) list.push_back(one(c.given[i].tensor[k]));
    c.set(i, std::move(list));
  }
}

// One call per example; `same`: all of them draw the same numbers.
void loop(BatchCall& c, bool same) {
  count_batch_loop(c.op.name);
  std::vector<uint8_t> state;
  if (same) state = generator_of(c).get_state();
  std::vector<std::vector<Tensor>> rows;
  for (int64_t b = 0; b < c.size(); b++) {
    if (same) generator_of(c).set_state({state.data(), state.size()});
    load_example(c, b);
    c.run();
    bool list = c.results.kind == Returns::List;
    auto* first = c.results.tensors.data();
    rows.push_back(list ? c.results.list : std::vector<Tensor>(first, first + c.results.count));
  }
  auto kind = c.results.kind;
  c.clear_results();
  c.results.kind = kind;
  for (size_t i = 0; i < rows[0].size(); i++) {
    std::vector<Tensor> column;
    for (const auto& row : rows) column.push_back(row.at(i));
    Tensor all = column[0].defined() ? ops::stack(column) : Tensor();
    if (kind == Returns::List)
      c.results.list.push_back(all);
    else
      c.results.tensors[c.results.count++] = all;
  }
}

void loop_same(BatchCall& c) { loop(c, true); }

// The values of examples that a random op fills, all alike.
void fill_alike(BatchCall& c) {
  Tensor self = c.values(0);
  Tensor one = ops::clone(ops::select(self, 0, 0));
  c.set(0, one);
  c.run();
  ops::copy_(self, ops::unsqueeze(one, 0));
  c.results.kind = Returns::Written;
}

void in_place(BatchCall& c, bool same) {
  FL_CHECK(c.batched(0), RuntimeError,
           "{}: inside vmap with randomness='different' a tensor that is not mapped cannot be "
           "filled; make it from a mapped one",
           c.op.name);
  bool others = false;
  for (int i = 1; i < c.count(); i++) others = others || c.batched(i);
  if (same && !others) return fill_alike(c);
  if (same || is_by_channel(c.op.name)) return loop(c, same);
  Tensor self = c.values(0);
  c.set(0, self);
  for (int i = 1; i < c.count(); i++)
    if (c.is_tensor(i)) c.set(i, c.padded(i, c.ndim(0)));
  c.run();
}

// Every example its own numbers, in one call.
void draw_different(BatchCall& c) {
  std::string_view name(c.op.name);
  int size = c.find("size");
  bool tensors = false;
  for (int i = 0; i < c.count(); i++) tensors = tensors || c.is_tensor(i);
  if (size >= 0 && !tensors) {
    c.set(size, with_first(c.size(), c.ints(size)));
    return c.run();
  }
  if (is_by_channel(name)) {
    c.set(0, folded(c.full(0)));
    c.run();
    return c.give(unfolded(c.results.tensors[0], c.size()));
  }
  int high = c.find("high");
  bool by_example =
      is_one_of(name, {"multinomial", "randperm"}) || (high >= 0 && c.is_tensor(high));
  if (by_example) return loop(c, false);
  bool pointwise = is_one_of(name, {"normal", "binomial"});
  if (!pointwise) return same_rule(c);
  if (!c.any_batched()) {
    for (int i = 0; i < c.count(); i++)
      if (c.is_tensor(i)) c.set_full(i);
    return c.run();
  }
  pointwise_rule(c);
}

}  // namespace

void loop_rule(BatchCall& c) { loop(c, false); }

bool draws_random(const BatchCall& c) {
  std::string_view name(c.op.name);
  if (is_dropout(name)) {
    int train = std::max(c.find("train"), c.find("training"));
    int p = c.find("p");
    bool off = train >= 0 && c.given[train].kind == Value::Bool && !c.integer(train);
    return !off && !(p >= 0 && c.given[p].kind == Value::Double && c.given[p].real == 0);
  }
  return c.op.kind == OpKind::Random ||
         is_one_of(name,
                   {"bernoulli_", "cauchy_", "exponential_", "geometric_", "log_normal_", "normal_",
                    "random_", "uniform_", "poisson", "_standard_gamma", "_sample_dirichlet"});
}

bool random_rule(BatchCall& c) {
  bool any = c.any_batched();
  Randomness how = c.level.randomness();
  FL_CHECK(how != Randomness::Error, RuntimeError,
           "{}: draws random numbers inside vmap; say whether examples get the same or different "
           "ones with vmap(..., randomness='same') or 'different'",
           c.op.name);
  bool same = how == Randomness::Same;
  if (std::string_view(c.op.name).back() == '_')
    in_place(c, same);
  else if (same && any)
    loop_same(c);
  else
    draw_different(c);
  return true;
}

void add_random_rules(BatchRules& rules) {
  add_rules(rules,
            {"native_dropout", "poisson", "_standard_gamma", "_sample_dirichlet", "dropout",
             "alpha_dropout"},
            same_rule);
}

}  // namespace flambeau
