// What is known of every overload at run time: the generated table behind schemas, bindings and
// recorders.
#pragma once
#include "flambeau/ops/value.h"

namespace flambeau {

enum class ArgKind : uint8_t {
  Tensor,
  Scalar,
  Int,
  Bool,
  Double,
  IntList,
  TensorList,
  ScalarList,
  DoubleList,
  BoolList,
  String,
  DType,
  Device,
  Layout,
  MemoryFormat,
  Generator
};

struct Param {
  const char* name;
  ArgKind kind;
  bool optional = false;  // None is taken
  bool keyword_only = false;
  bool required = true;
  uint8_t size = 0;           // int[2]: one int stands for two; 1 for int[1]
  const char* fallback = "";  // the default as schema text
};

enum class OpKind : uint8_t {
  Pointwise,
  Reduce,
  Structured,
  View,
  Composite,
  Factory,
  Random,
  Other
};

struct OpInfo {
  const char* name;      // "add"
  const char* overload;  // "Tensor"
  const char* schema;    // "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
  OpKind kind;
  const Param* params;
  uint8_t param_count;
  uint8_t positional;        // how many may be given by position
  const char* result_names;  // "values indices" where the result is a named tuple
  void* function;            // with the adapter that calls it
  Adapter call;
  void* out_function;  // takes the outs first; null where the form does not exist
  Adapter call_out;
  uint8_t out_count;
  bool inplace;        // writes its first argument
  bool taped = false;  // has a node of its own
  bool inner = false;  // to be seen as the ops that it calls (autograd/below.h)
};

// The first tensor of a call for which `test` holds, or null.
template <class F>
const Tensor* find_tensor(const OpInfo& op, const Value* arguments, F test) {
  for (int i = 0; i < op.param_count; i++) {
    const Value& v = arguments[i];
    uint32_t count = v.kind == Value::TensorRef ? 1 : v.kind == Value::TensorRun ? v.count : 0;
    for (uint32_t k = 0; k < count; k++)
      if (v.tensor[k].defined() && test(v.tensor[k])) return &v.tensor[k];
  }
  return nullptr;
}

// All overloads of one base name, in resolution order.
struct OpSet {
  const char* name;
  const OpInfo* overloads;
  uint8_t count;
  const char* forms;  // "function method out", or a namespace: "nn method"
  const char* operator_symbol;
  const char* doc;
};

FL_API std::span<const OpSet* const> all_ops();
FL_API const OpSet* find_op(std::string_view name);

}  // namespace flambeau
