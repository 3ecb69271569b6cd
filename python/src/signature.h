// What the parser knows of an op set: the generated table with interned names and parsed defaults.
// Built when a set is first called, so that importing costs nothing.
#pragma once
#include <algorithm>

#include "flambeau/generated/infos.h"
#include "flambeau/ops/op_info.h"
#include "python/src/py.h"

namespace flambeau::python {

inline constexpr int kMaxParams = 40;
inline constexpr int kMaxOuts = 6;

struct BoundParam {
  PyObject* key;  // the interned name; a Tensor `self` is called `input` in Python
  const Param* param;
  ArgKind kind;  // the parameter's
  Value fallback;
  bool holes = false;  // a list of tensors that may hold None
};

struct Signature {  // one overload
  const OpInfo* op;
  std::vector<BoundParam> params;
  int self_index = -1;  // the parameter that a method's object takes
  int positional = 0;
  int last_required = -1;  // later ones have defaults
  // The only positional parameter is a list of ints, so loose ints fold into it: of the method, of
  // the function.
  int method_fold = -1, function_fold = -1;
  bool factory = false;  // takes requires_grad=
  std::string text;      // as messages show it
};

struct SignatureSet {
  const OpSet* op;
  std::vector<Signature> overloads;
  bool numbers = false;         // plain numbers may stand where tensors are wanted: torch.add(1, x)
  std::vector<PyObject*> keys;  // the names of all parameters of all overloads
  bool knows(PyObject* name) const {
    return std::find(keys.begin(), keys.end(), name) != keys.end();
  }
};

extern const SignatureSet* built_signatures[kOpSets];
const SignatureSet& build_signatures(const OpSet& op, size_t index);
inline const SignatureSet& signatures_of(const OpSet& op, size_t index) {
  const SignatureSet* built = built_signatures[index];
  return FL_LIKELY(built) ? *built : build_signatures(op, index);
}

// Does `given` name the parameter, by itself or by one of the aliases every op takes?
bool answers_to(const BoundParam& param, PyObject* given);

}  // namespace flambeau::python
