// A pickle machine for what state dicts are made of. It knows a handful of
// names, runs nothing, and refuses the rest.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "flambeau/core/tensor.h"

namespace flambeau::serialize {

struct Object;
using ObjectPtr = std::shared_ptr<Object>;

struct None {};
struct Mark {};
struct Global {
  std::string name;  // "torch._utils._rebuild_tensor_v2"
};
struct Memory {  // a typed storage
  StoragePtr storage;
  DType dtype;
};
struct Sequence {
  std::vector<ObjectPtr> items;
};
struct Dict {
  std::vector<std::pair<ObjectPtr, ObjectPtr>> items;
};

struct Object {
  std::variant<None, Mark, bool, int64_t, double, std::string, Global, Memory, Sequence, Dict,
               Tensor>
      value;
};

class Unpickler {
 public:
  // What a persistent id ("storage", type, key, place, count) stands for.
  using Find = std::function<Memory(const Global& type, const std::string& key, int64_t count)>;
  Unpickler(std::string_view bytes, Find find) : bytes_(bytes), find_(std::move(find)) {}
  ObjectPtr load();

 private:
  bool step(uint8_t code);  // false: the pickle has ended
  bool simple_value(uint8_t code);
  bool container(uint8_t code);
  bool memo(uint8_t code);
  void reduce();
  void persistent();
  void set_items(std::vector<ObjectPtr> items);
  Tensor rebuilt(const Sequence& args);

  std::string_view take(uint64_t count);
  template <class T>
  T number();
  std::string line();
  void push(Object o);
  ObjectPtr pop();
  std::vector<ObjectPtr> pop_mark();
  ObjectPtr top() const;
  [[noreturn]] void damaged(const std::string& what) const;

  std::string_view bytes_;
  Find find_;
  uint64_t at_ = 0;
  std::vector<ObjectPtr> stack_;
  std::map<uint64_t, ObjectPtr> memo_;
};

// The part of a value that must be of type T, or an error that names `what`.
template <class T>
const T& expect(const ObjectPtr& o, const char* what) {
  const T* found = std::get_if<T>(&o->value);
  FL_CHECK(found, RuntimeError, "load: damaged pickle: {} is of the wrong type", what);
  return *found;
}

}  // namespace flambeau::serialize
