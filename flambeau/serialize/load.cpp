// Reads a state dict that torch.save, flambeau.save or serialize::save wrote.
#include <cstring>

#include "flambeau/core/check.h"
#include "flambeau/serialize/serialize.h"
#include "flambeau/serialize/storage_types.h"
#include "flambeau/serialize/unpickler.h"
#include "flambeau/serialize/zip.h"

namespace flambeau::serialize {
namespace {

// The memories of a file, each made once.
class Memories {
 public:
  explicit Memories(const ZipReader& zip) : zip_(zip) {}

  Memory find(const Global& type, const std::string& key, int64_t count) {
    std::optional<DType> dtype;
    if (type.name.starts_with("torch.")) dtype = dtype_of_storage(type.name.substr(6));
    FL_CHECK(dtype, RuntimeError, "load: {} is no storage that a state dict holds", type.name);
    auto [place, fresh] = known_.try_emplace(key);
    if (fresh) place->second = read(key);
    FL_CHECK(count >= 0 && uint64_t(count) <= place->second->bytes / size_t(itemsize(*dtype)),
             RuntimeError, "load: storage {} has {} bytes, not {} elements of {}", key,
             place->second->bytes, count, *dtype);
    return {place->second, *dtype};
  }

 private:
  StoragePtr read(const std::string& key) const {
    std::string_view bytes = zip_.read("data/" + key);
    StoragePtr storage(new_storage(bytes.size(), Device{}));
    if (!bytes.empty()) std::memcpy(storage->data, bytes.data(), bytes.size());
    return storage;
  }

  const ZipReader& zip_;
  std::map<std::string, StoragePtr> known_;
};

}  // namespace

StateDict load(const std::string& path) {
  ZipReader zip(path);
  if (zip.contains("byteorder"))
    FL_CHECK(zip.read("byteorder") == "little", RuntimeError,
             "load: {} is big-endian, which only the Python package reads", path);
  Memories memories(zip);
  Unpickler unpickler(zip.read("data.pkl"),
                      [&](const Global& type, const std::string& key, int64_t count) {
                        return memories.find(type, key, count);
                      });
  ObjectPtr root = unpickler.load();
  const Dict* dict = std::get_if<Dict>(&root->value);
  FL_CHECK(dict, RuntimeError, "load: {} holds no dict of tensors", path);
  StateDict state;
  for (const auto& [key, value] : dict->items) {
    const auto* name = std::get_if<std::string>(&key->value);
    const auto* tensor = std::get_if<Tensor>(&value->value);
    FL_CHECK(name && tensor, RuntimeError, "load: {} holds {} that is no tensor", path,
             name ? *name : "a key");
    state.emplace_back(*name, *tensor);
  }
  return state;
}

}  // namespace flambeau::serialize
