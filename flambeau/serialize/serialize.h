// State dicts in torch's file format (torch.save, zip): what both libraries
// read. The Python package has readers and writers of its own for everything
// else that a pickle may hold.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "flambeau/core/tensor.h"

namespace flambeau::serialize {

// Tensors by name, in order.
using StateDict = std::vector<std::pair<std::string, Tensor>>;

// Tensors on one memory share it in the file if each is the whole of it; others
// are copied.
FL_API void save(const StateDict& state, const std::string& path);
// A file that holds a dict of tensors by name. Throws RuntimeError for any
// other, and where the file contradicts itself; nothing in a file is ever run.
FL_API StateDict load(const std::string& path);

}  // namespace flambeau::serialize
