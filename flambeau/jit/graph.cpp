// Replay of a recorded computation, and its text.
#include "flambeau/jit/graph.h"

#include "flambeau/ops/factory.h"

namespace flambeau::jit {

namespace {

// The state of one replay.
class Replay {
 public:
  Replay(const Graph& graph, const std::vector<Tensor>& given)
      : graph_(graph), tensors_(graph.kinds.size()), sizes_(graph.symbols.size()) {
    FL_CHECK(given.size() == graph.inputs.size(), TypeError,
             "recording: {} tensors were recorded as inputs, got {}", graph.inputs.size(),
             given.size());
    for (size_t i = 0; i < given.size(); i++) set(graph.inputs[i], given[i]);
    for (const auto& [id, tensor] : graph.constants) set(id, tensor);
  }

  Graph::Results run() {
    size_t guard = 0;
    for (size_t i = 0; i < graph_.steps.size(); i++) {
      check_guards(guard, i);
      step(graph_.steps[i]);
    }
    check_guards(guard, graph_.steps.size());
    Graph::Results results;
    for (Id id : graph_.outputs) results.tensors.push_back(get(id));
    for (Id id : graph_.size_outputs) results.sizes.push_back(size(id));
    return results;
  }

 private:
  void set(Id id, const Tensor& t) {
    if (id >= 0) tensors_[size_t(id)] = t;
  }
  const Tensor& get(Id id) {
    static const Tensor none;
    return id < 0 ? none : tensors_[size_t(id)];
  }

  // Sizes are read when they are first needed, and do not change afterwards.
  int64_t size(Id id) {
    std::optional<int64_t>& known = sizes_[size_t(id)];
    if (!known) known = compute(graph_.symbols[size_t(id)]);
    return *known;
  }
  int64_t compute(const Symbol& s) {
    if (s.kind == Symbol::Literal) return s.a;
    if (s.kind == Symbol::Size) return get(Id(s.a)).size(s.b);
    int64_t a = size(Id(s.a)), b = size(Id(s.b));
    if (s.kind == Symbol::Add) return a + b;
    if (s.kind == Symbol::Sub) return a - b;
    if (s.kind == Symbol::Mul) return a * b;
    FL_CHECK(b != 0, RuntimeError, "recording: a size is divided by a size of 0");
    int64_t rest = (a % b + b) % b;  // of b's sign, as in Python
    return s.kind == Symbol::Mod ? rest : (a - rest) / b;
  }

  void check_guards(size_t& next, size_t step) {
    for (; next < graph_.guards.size() && graph_.guards[next].before <= step; next++) {
      const Guard& g = graph_.guards[next];
      int64_t a = size(g.a), b = size(g.b);
      bool holds = g.kind == Guard::Eq ? a == b : g.kind == Guard::Lt ? a < b : a <= b;
      constexpr const char* kSigns[] = {"==", "<", "<="};
      FL_CHECK(holds == g.taken, RuntimeError,
               "recording: the program asked whether {} {} {}; the answer was {} when it was "
               "recorded and is {} now",
               a, kSigns[g.kind], b, g.taken, holds);
    }
  }

  const Tensor& number_tensor(int64_t value) {
    return tensor_runs_.emplace_back(1, ops::number_tensor(Scalar(value), Device{}))[0];
  }

  Value value_of(const Argument& a) {
    Value v = a.value;
    switch (v.kind) {
      case Value::TensorRef:
        v.tensor = a.symbol(0) < 0 ? &get(a.tensors[0]) : &number_tensor(size(a.symbol(0)));
        break;
      case Value::TensorRun: {
        auto& run = tensor_runs_.emplace_back();
        for (Id id : a.tensors) run.push_back(get(id));
        v.tensor = run.data();
        break;
      }
      case Value::Int:
        if (a.symbol(0) >= 0) v.integer = size(a.symbol(0));
        break;
      case Value::Double:
        if (a.symbol(0) >= 0) v.real = double(size(a.symbol(0)));
        break;
      case Value::Number:
        v.scalar = a.symbol(0) < 0 ? a.scalars.data() : &numbers_.emplace_back(size(a.symbol(0)));
        break;
      case Value::IntRun: {
        auto& run = int_runs_.emplace_back(a.ints);
        for (size_t i = 0; i < run.size(); i++)
          if (a.symbol(i) >= 0) run[i] = size(a.symbol(i));
        v.ints = run.data();
        break;
      }
      case Value::BoolRun:
        v.ints = a.ints.data();
        break;
      case Value::NumberRun:
        v.scalar = a.scalars.data();
        break;
      case Value::DoubleRun:
        v.doubles = a.doubles.data();
        break;
      case Value::Text:
        v.text = a.text.data();
        break;
      default:
        break;
    }
    return v;
  }

  void step(const Step& s) {
    std::vector<Value> values;
    for (const Argument& a : s.arguments) values.push_back(value_of(a));
    Returns results;
    Restore<bool> grad(tls.grad, tls.grad && s.grad);
    s.op->call(s.op->function, values.data(), results);
    bind(s, results);
    for (Id id : s.unused) tensors_[size_t(id)] = Tensor();
    tensor_runs_.clear();
    int_runs_.clear();
    numbers_.clear();
  }

  void bind(const Step& s, const Returns& results) {
    if (results.kind == Returns::One || results.kind == Returns::Tuple) {
      for (size_t i = 0; i < s.results.size(); i++) set(s.results[i], results.tensors[i]);
    } else if (results.kind == Returns::List) {
      FL_CHECK(results.list.size() == s.results.size(), RuntimeError,
               "recording: {} gave {} tensors when it was recorded, now {}", s.op->name,
               s.results.size(), results.list.size());
      for (size_t i = 0; i < s.results.size(); i++) set(s.results[i], results.list[i]);
    } else if (s.read) {
      FL_CHECK(number_in(results)->to_complex() == s.read->to_complex(), RuntimeError,
               "recording: the program read a value with {}, and it is another one now",
               s.op->name);
    }
  }

  const Graph& graph_;
  std::vector<Tensor> tensors_;
  std::vector<std::optional<int64_t>> sizes_;
  // Memory of the arguments of one step; a deque's elements stay where they are.
  std::deque<std::vector<Tensor>> tensor_runs_;
  std::deque<std::vector<int64_t>> int_runs_;
  std::deque<Scalar> numbers_;
};

// ---- text ----

std::string name_of(Id id) { return id < 0 ? "None" : "%" + std::to_string(id); }

std::string text_of(const Graph& graph, Id id) {
  const Symbol& s = graph.symbols[size_t(id)];
  if (s.kind == Symbol::Literal) return std::to_string(s.a);
  if (s.kind == Symbol::Size) return format("size({}, {})", name_of(Id(s.a)), s.b);
  constexpr const char* kSigns[] = {"", "", "+", "-", "*", "//", "%"};
  return format("({} {} {})", text_of(graph, Id(s.a)), kSigns[s.kind], text_of(graph, Id(s.b)));
}

template <class List, class F>
std::string joined(const List& list, F&& text) {
  std::string all = "[";
  for (size_t i = 0; i < list.size(); i++) all += (i ? ", " : "") + text(i);
  return all + "]";
}

std::string text_of(const Graph& graph, const Argument& a) {
  const Value& v = a.value;
  if (v.kind != Value::IntRun && a.symbol(0) >= 0) return text_of(graph, a.symbol(0));
  auto number = [&](const Scalar& s) { return format("{}", s); };
  switch (v.kind) {
    case Value::None:
      return "None";
    case Value::TensorRef:
      return name_of(a.tensors[0]);
    case Value::TensorRun:
      return joined(a.tensors, [&](size_t i) { return name_of(a.tensors[i]); });
    case Value::Number:
      return number(a.scalars[0]);
    case Value::NumberRun:
      return joined(a.scalars, [&](size_t i) { return number(a.scalars[i]); });
    case Value::Bool:
      return v.integer ? "True" : "False";
    case Value::Double:
      return format("{}", v.real);
    case Value::IntRun:
    case Value::BoolRun:
      return joined(a.ints, [&](size_t i) {
        return a.symbol(i) < 0 ? std::to_string(a.ints[i]) : text_of(graph, a.symbol(i));
      });
    case Value::DoubleRun:
      return joined(a.doubles, [&](size_t i) { return format("{}", a.doubles[i]); });
    case Value::Text:
      return "'" + a.text + "'";
    case Value::Type:
      return std::string(name(DType(v.integer)));
    case Value::Place:
      return to_string(v.device);
    default:
      return std::to_string(v.integer);
  }
}

}  // namespace

std::optional<Scalar> number_in(const Returns& results) {
  switch (results.kind) {
    case Returns::Int:
    case Returns::Bool:
    case Returns::Type:
      return Scalar(results.integer);
    case Returns::Double:
      return Scalar(results.real);
    case Returns::Number:
      return results.scalar;
    default:
      return std::nullopt;
  }
}

Graph::Results Graph::run(const std::vector<Tensor>& given) const {
  return Replay(*this, given).run();
}

std::string Graph::text() const {
  std::string all;
  auto declared = [&](Id id) { return name_of(id) + ": " + kinds[size_t(id)]; };
  for (Id id : inputs) all += "input " + declared(id) + "\n";
  for (const auto& [id, tensor] : constants) all += "constant " + declared(id) + "\n";
  for (const Step& s : steps) {
    std::string results, arguments;
    for (Id id : s.results) results += (results.empty() ? "" : ", ") + name_of(id);
    for (const Argument& a : s.arguments)
      arguments += (arguments.empty() ? "" : ", ") + text_of(*this, a);
    std::string id = s.op->name;
    if (*s.op->overload) id += std::string(".") + s.op->overload;
    all += format("{}{}{}({})", results, results.empty() ? "" : " = ", id, arguments);
    if (s.op->inplace) all += format("  # writes {}", results);
    if (s.views >= 0) all += format("  # views {}", name_of(s.views));
    all += s.grad ? "\n" : "  # no grad\n";
  }
  for (const Guard& g : guards) {
    constexpr const char* kSigns[] = {"==", "<", "<="};
    all += format("guard ({} {} {}) is {}\n", text_of(*this, g.a), kSigns[g.kind],
                  text_of(*this, g.b), g.taken);
  }
  std::string returned;
  for (Id id : outputs) returned += (returned.empty() ? "" : ", ") + name_of(id);
  for (Id id : size_outputs) returned += (returned.empty() ? "" : ", ") + text_of(*this, id);
  return all + "return " + returned + "\n";
}

void Graph::find_last_uses() {
  std::vector<size_t> last(kinds.size(), 0);
  for (size_t i = 0; i < steps.size(); i++) {
    for (Id id : steps[i].results)
      if (id >= 0) last[size_t(id)] = i;
    for (const Argument& a : steps[i].arguments)
      for (Id id : a.tensors)
        if (id >= 0) last[size_t(id)] = i;
  }
  std::vector<bool> kept(kinds.size(), false);
  for (Id id : outputs)
    if (id >= 0) kept[size_t(id)] = true;
  for (const Symbol& s : symbols)
    if (s.kind == Symbol::Size) kept[size_t(s.a)] = true;
  for (size_t id = 0; id < last.size(); id++)
    if (!kept[id] && !steps.empty()) steps[last[id]].unused.push_back(Id(id));
}

}  // namespace flambeau::jit
