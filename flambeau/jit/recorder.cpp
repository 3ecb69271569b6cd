// Recording: the level that notes ops.
#include "flambeau/jit/recorder.h"

namespace flambeau::jit {

namespace {

std::string kind_of(const Tensor& t) {
  std::string text(name(t.dtype()));
  text += '[';
  for (int64_t d = 0; d < t.ndim(); d++) text += (d ? ", " : "") + std::to_string(t.size(d));
  return text + ']';
}

}  // namespace

Recorder::Recorder(const std::vector<Tensor>& inputs) {
  for (const Tensor& t : inputs) graph_.inputs.push_back(bind(t));
}

Id Recorder::bind(const Tensor& t) {
  if (!t.defined()) return -1;
  auto id = Id(graph_.kinds.size());
  graph_.kinds.push_back(kind_of(t));
  ids_[t.impl()] = id;
  memory_.emplace(t->storage, id);
  alive_.push_back(t);
  return id;
}

Id Recorder::id_of(const Tensor& t) {
  if (!t.defined()) return -1;
  auto known = ids_.find(t.impl());
  if (known != ids_.end()) return known->second;
  FL_CHECK(!memory_.count(t->storage), NotImplementedError,
           "recording: a tensor of shape {} shares memory with a recorded one, but no op made it "
           "(.data, set_)",
           t.sizes());
  auto id = Id(graph_.kinds.size());
  graph_.kinds.push_back(kind_of(t));
  ids_[t.impl()] = id;
  alive_.push_back(t);
  graph_.constants.emplace_back(id, t);
  return id;
}

Argument Recorder::keep(const Value& v, int slot) {
  Argument a;
  a.value = v;
  for (const Note& n : notes_) {
    if (n.slot != slot || n.passing > 0) continue;
    if (a.symbols.size() <= n.element) a.symbols.resize(n.element + 1, -1);
    a.symbols[n.element] = n.symbol;
  }
  switch (v.kind) {
    case Value::TensorRef:
      a.tensors = {a.symbol(0) < 0 ? id_of(*v.tensor) : -1};
      break;
    case Value::TensorRun:
      for (const Tensor& t : TensorList(v.tensor, v.count)) a.tensors.push_back(id_of(t));
      break;
    case Value::Number:
    case Value::NumberRun:
      a.scalars.assign(v.scalar, v.scalar + (v.kind == Value::Number ? 1 : v.count));
      break;
    case Value::IntRun:
    case Value::BoolRun:
      a.ints.assign(v.ints, v.ints + v.count);
      break;
    case Value::DoubleRun:
      a.doubles.assign(v.doubles, v.doubles + v.count);
      break;
    case Value::Text:
      a.text.assign(v.text, v.count);
      break;
    case Value::Random:
      fail<NotImplementedError>("recording: an op with a generator of its own cannot be recorded");
    default:
      break;
  }
  return a;
}

bool Recorder::handle(const OpInfo& op, const Value* arguments, Returns& results) {
  FL_CHECK(!tls.engine, NotImplementedError,
           "recording: backward() inside of what is recorded is not supported, at {}", op.name);
  Step step{};
  step.op = &op;
  step.grad = tls.grad;
  for (int i = 0; i < op.param_count; i++) step.arguments.push_back(keep(arguments[i], i));
  std::erase_if(notes_, [](Note& n) { return n.passing-- == 0; });
  op.call(op.function, arguments, results);
  bind_results(step, results);
  graph_.steps.push_back(std::move(step));
  return true;
}

void Recorder::bind_results(Step& step, const Returns& results) {
  auto add = [&](const Tensor& t) {
    auto owner = t.defined() ? memory_.find(t->storage) : memory_.end();
    if (owner != memory_.end()) step.views = owner->second;
    step.results.push_back(bind(t));
  };
  switch (results.kind) {
    case Returns::One:
    case Returns::Tuple:
      for (int i = 0; i < results.count; i++) add(results.tensors[i]);
      break;
    case Returns::List:
      for (const Tensor& t : results.list) add(t);
      break;
    case Returns::Written:
      step.results = {id_of(*results.written)};
      break;
    default:
      step.read = number_in(results);
  }
}

Id Recorder::size_symbol(const Tensor& t, int64_t dim) {
  Id tensor = id_of(t);
  for (const auto& [id, constant] : graph_.constants)  // its sizes are the same in every replay
    if (id == tensor) return add_symbol({Symbol::Literal, t.size(dim), 0});
  return add_symbol({Symbol::Size, tensor, dim});
}

Id Recorder::add_symbol(Symbol symbol) {
  for (size_t i = 0; i < graph_.symbols.size(); i++) {
    const Symbol& s = graph_.symbols[i];
    if (s.kind == symbol.kind && s.a == symbol.a && s.b == symbol.b) return Id(i);
  }
  graph_.symbols.push_back(symbol);
  return Id(graph_.symbols.size()) - 1;
}

void Recorder::add_guard(Guard::Kind kind, Id a, Id b, bool taken) {
  graph_.guards.push_back({kind, a, b, taken, graph_.steps.size()});
}

Graph Recorder::finish(const std::vector<Tensor>& outputs, std::vector<Id> sizes) {
  for (const Tensor& t : outputs) graph_.outputs.push_back(id_of(t));
  graph_.size_outputs = std::move(sizes);
  graph_.find_last_uses();
  return std::move(graph_);
}

}  // namespace flambeau::jit
