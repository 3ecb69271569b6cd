// Writes a state dict: the pickle of an OrderedDict of tensors, and a record
// for each memory.
#include <cstring>
#include <unordered_map>

#include "flambeau/core/check.h"
#include "flambeau/generated/ops.h"
#include "flambeau/serialize/serialize.h"
#include "flambeau/serialize/storage_types.h"
#include "flambeau/serialize/zip.h"

namespace flambeau::serialize {
namespace {

// The few operations of pickle's protocol 2 that a state dict needs.
class Pickle {
 public:
  Pickle() : bytes_("\x80\x02") {}
  void op(char code) { bytes_ += code; }
  void global(std::string_view module, std::string_view name) {
    bytes_ += 'c';
    ((bytes_ += module) += '\n');
    ((bytes_ += name) += '\n');
  }
  void text(std::string_view s) {
    bytes_ += 'X';
    put(uint32_t(s.size()));
    bytes_ += s;
  }
  void integer(int64_t n) {
    if (n >= 0 && n < 256) {
      bytes_ += 'K';
      bytes_ += char(n);
    } else if (n == int32_t(n)) {
      bytes_ += 'J';
      put(int32_t(n));
    } else {
      bytes_ += "\x8a\x08";  // a number of eight bytes
      put(n);
    }
  }
  void tuple(IntList values) {
    bytes_ += '(';
    for (int64_t v : values) integer(v);
    bytes_ += 't';
  }
  void ordered_dict() {
    global("collections", "OrderedDict");
    bytes_ += ")R";
  }
  const std::string& bytes() const { return bytes_; }

 private:
  template <class T>
  void put(T number) {
    bytes_.append(reinterpret_cast<const char*>(&number), sizeof number);
  }
  std::string bytes_;
};

bool is_whole(const Tensor& t) {
  return t.is_contiguous() && t->offset() == 0 &&
         t->storage->bytes == size_t(t.numel() * itemsize(t.dtype()));
}

struct Writer {
  Pickle pickle;
  std::vector<Tensor> memories;                     // what is written under data/0, data/1 ...
  std::unordered_map<const Storage*, size_t> seen;  // whole tensors on it share a record

  void add(const std::string& name, const Tensor& value) {
    FL_CHECK(value.defined(), RuntimeError, "save: {} is an undefined tensor", name);
    pickle.text(name);
    NoGradGuard no_grad;
    Tensor t = value.device().type == DeviceType::CPU ? value : ops::to(value, Device{});
    if (!is_whole(t)) t = ops::clone(t, MemoryFormat::Contiguous);
    auto [place, fresh] = seen.try_emplace(t->storage, memories.size());
    if (fresh) memories.push_back(t);
    add_tensor(name, t, place->second, value.requires_grad() && !value->grad_fn);
  }

  void add_tensor(const std::string& name, const Tensor& t, size_t key, bool requires_grad) {
    std::string_view kind = storage_type(t.dtype());
    FL_CHECK(!kind.empty(), RuntimeError, "save: {} is {}, which torch's state dicts cannot hold",
             name, t.dtype());
    pickle.global("torch._utils", "_rebuild_tensor_v2");
    pickle.op('(');
    pickle.op('(');
    pickle.text("storage");
    pickle.global("torch", kind);
    pickle.text(std::to_string(key));
    pickle.text("cpu");
    pickle.integer(t.numel());
    pickle.op('t');
    pickle.op('Q');
    pickle.integer(0);
    pickle.tuple(t.sizes());
    pickle.tuple(t.strides());
    pickle.op(requires_grad ? '\x88' : '\x89');
    pickle.ordered_dict();
    pickle.op('t');
    pickle.op('R');
  }
};

std::string_view bytes_of(const Tensor& t) {
  return {t->storage->data, size_t(t.numel() * itemsize(t.dtype()))};
}

}  // namespace

void save(const StateDict& state, const std::string& path) {
  Writer writer;
  writer.pickle.ordered_dict();
  writer.pickle.op('(');
  for (const auto& [name, value] : state) writer.add(name, value);
  writer.pickle.op('u');
  writer.pickle.op('.');

  ZipWriter zip(path);
  zip.add("data.pkl", writer.pickle.bytes());
  zip.add(".format_version", "1");
  zip.add(".storage_alignment", "64");
  zip.add("byteorder", "little");
  for (size_t i = 0; i < writer.memories.size(); i++)
    zip.add("data/" + std::to_string(i), bytes_of(writer.memories[i]));
  zip.add("version", "3\n");
  zip.finish();
}

}  // namespace flambeau::serialize
