// Builds the parser's view of an op set: names, defaults, which forms of call it takes.
#include "python/src/signature.h"

#include <cstdlib>
#include <deque>
#include <limits>

#include "python/src/dtypes.h"

namespace flambeau::python {
namespace {

// Values of defaults live as long as the process.
template <class T>
const T* keep(std::vector<T> values) {
  static std::deque<std::vector<T>> kept;
  kept.push_back(std::move(values));
  return kept.back().data();
}

double parse_double(std::string_view text) {
  if (text == "inf" || text == "float('inf')") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  if (text == "True" || text == "False") return text == "True";
  return std::strtod(std::string(text).c_str(), nullptr);
}

int64_t parse_int(std::string_view text) {
  if (text == "Mean") return 1;
  if (text == "Sum") return 2;
  if (text == "True" || text == "False") return text == "True";
  return std::strtoll(std::string(text).c_str(), nullptr, 10);
}

Scalar parse_scalar(std::string_view text) {
  if (text == "True" || text == "False") return Scalar(text == "True");
  bool real = text.find_first_of(".enf") != text.npos;
  return real ? Scalar(parse_double(text)) : Scalar(parse_int(text));
}

std::vector<std::string> parse_list(std::string_view text) {
  std::vector<std::string> parts;
  if (!text.empty() && (text.front() == '[' || text.front() == '(')) {
    text.remove_prefix(1);
    text.remove_suffix(1);
  }
  while (!text.empty()) {
    size_t comma = std::min(text.find(','), text.size());
    std::string_view part = text.substr(0, comma);
    while (!part.empty() && part.front() == ' ') part.remove_prefix(1);
    if (!part.empty()) parts.emplace_back(part);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return parts;
}

void set_int_run(Value& v, const Param& p, std::string_view text) {
  std::vector<int64_t> ints;
  for (const std::string& part : parse_list(text)) ints.push_back(parse_int(part));
  if (ints.size() == 1 && p.size > 1) ints.resize(p.size, ints[0]);
  v.kind = p.kind == ArgKind::BoolList ? Value::BoolRun : Value::IntRun;
  v.count = uint32_t(ints.size());
  v.ints = keep(std::move(ints));
}

void set_text(Value& v, std::string_view text) {
  if (text.size() >= 2 && (text.front() == '"' || text.front() == '\''))
    text = text.substr(1, text.size() - 2);
  v.kind = Value::Text;
  v.count = uint32_t(text.size());
  v.text = keep(std::vector<char>(text.begin(), text.end()));
}

DType parse_dtype(std::string_view text) {
  if (text == "long" || text == "4") return DType::Int64;  // schemas hold torch's number
  if (text == "float") return DType::Float32;
  for (int i = 0; i < kDTypes; i++)
    if (name(DType(i)) == text) return DType(i);
  return DType::Float32;
}

MemoryFormat parse_format(std::string_view text) {
  return text == "preserve_format" ? MemoryFormat::Preserve
         : text == "channels_last" ? MemoryFormat::ChannelsLast
                                   : MemoryFormat::Contiguous;
}

Value parse_default(const Param& p) {
  Value v;
  std::string_view text = p.fallback;
  if (text.empty() || text == "None") return v;
  switch (p.kind) {
    case ArgKind::Scalar:
      Boxed<const Scalar&>::set(v, *keep(std::vector<Scalar>{parse_scalar(text)}));
      break;
    case ArgKind::Int:
      Boxed<int64_t>::set(v, parse_int(text));
      break;
    case ArgKind::Bool:
      Boxed<bool>::set(v, text == "True");
      break;
    case ArgKind::Double:
      Boxed<double>::set(v, parse_double(text));
      break;
    case ArgKind::IntList:
    case ArgKind::BoolList:
      set_int_run(v, p, text);
      break;
    case ArgKind::String:
      set_text(v, text);
      break;
    case ArgKind::DType:
      Boxed<DType>::set(v, parse_dtype(text));
      break;
    case ArgKind::Layout:
      Boxed<Layout>::set(v, Layout::Strided);
      break;
    case ArgKind::MemoryFormat:
      Boxed<MemoryFormat>::set(v, parse_format(text));
      break;
    default:
      break;
  }
  return v;
}

// Which positional parameter, if it is the only one besides self, is a list of ints?
int fold_of(const Signature& s, bool method) {
  int found = -1, count = 0;
  for (int i = 0; i < s.positional; i++) {
    if (method && i == s.self_index) continue;
    count++;
    found = i;
  }
  return count == 1 && s.params[found].param->kind == ArgKind::IntList ? found : -1;
}

bool has_word(std::string_view text, std::string_view word) { return text.find(word) != text.npos; }

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

// The schema as a user writes calls: no overload name, alias marks or schema types.
std::string shown(const OpInfo& op) {
  std::string text = op.schema;
  if (size_t dot = text.find('.'), open = text.find('('); dot < open) text.erase(dot, open - dot);
  for (const char* mark : {"(a!)", "(b!)", "(a)", "(a -> *)"}) replace_all(text, mark, "");
  replace_all(text, "Tensor self", "Tensor input");
  replace_all(text, "SymInt", "int");
  replace_all(text, "ScalarType", "dtype");
  return text.substr(0, text.rfind(" ->"));
}

Signature build(const OpInfo& op) {
  Signature s;
  s.op = &op;
  s.positional = op.positional;
  s.text = shown(op);
  bool holes = has_word(op.schema, "Tensor?[]");
  for (int i = 0; i < op.param_count; i++) {
    const Param& p = op.params[i];
    bool self = std::string_view(p.name) == "self";
    if (self) s.self_index = i;
    const char* shown_name = self && p.kind == ArgKind::Tensor ? "input" : p.name;
    s.params.push_back({checked(PyUnicode_InternFromString(shown_name)), &p, p.kind,
                        parse_default(p), holes && p.kind == ArgKind::TensorList});
    if (p.required) s.last_required = i;
    if (std::string_view(p.name) == "pin_memory") s.factory = true;
  }
  FL_ASSERT(op.param_count <= kMaxParams);
  // Methods of rows whose first tensor has another name (linalg's A) take it as their object.
  if (s.self_index < 0 && op.param_count && op.params[0].kind == ArgKind::Tensor) s.self_index = 0;
  s.method_fold = fold_of(s, true);
  s.function_fold = fold_of(s, false);
  return s;
}

bool takes_numbers(std::string_view name) {
  for (const char* known : {"add", "sub", "mul", "div", "subtract", "multiply", "divide",
                            "true_divide", "floor_divide"})
    if (name == known) return true;
  return false;
}

}  // namespace

const SignatureSet* built_signatures[kOpSets];

const SignatureSet& build_signatures(const OpSet& op, size_t index) {
  auto* fresh = new SignatureSet;  // lives as long as the process
  fresh->op = &op;
  fresh->numbers = takes_numbers(op.name);
  for (int i = 0; i < op.count; i++) fresh->overloads.push_back(build(op.overloads[i]));
  for (const Signature& s : fresh->overloads)
    for (const BoundParam& p : s.params)
      if (!fresh->knows(p.key)) fresh->keys.push_back(p.key);
  return *(built_signatures[index] = fresh);
}

bool answers_to(const BoundParam& param, PyObject* given) {
  if (param.key == given) return true;
  std::string_view name = text_of(given), own = param.param->name;
  if (name == own) return true;
  if (own == "dim") return name == "axis";
  if (own == "keepdim") return name == "keepdims";
  if (own == "other") return name == "x2";
  if (own == "self" || own == "input")
    return name == "input" || name == "x" || name == "a" || name == "x1";
  return false;
}

}  // namespace flambeau::python
