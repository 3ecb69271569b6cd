// Datasets and loaders for C++ programs: batches of tensors, visited in order
// or shuffled with the draws of the Python DataLoader.
#pragma once
#include <iterator>
#include <optional>
#include <vector>

#include "flambeau/core/generator.h"
#include "flambeau/core/tensor.h"

namespace flambeau::data {

// Tensors of equal first size; sample i is row i of each.
class FL_API TensorDataset {
 public:
  explicit TensorDataset(std::vector<Tensor> tensors);
  const std::vector<Tensor>& tensors() const { return tensors_; }
  int64_t size() const { return tensors_[0].size(0); }

 private:
  std::vector<Tensor> tensors_;
};

struct DataLoaderOptions {
  int64_t batch_size = 1;
  bool shuffle = false, drop_last = false;
  // Draws the order; null: seeded afresh from the default generator each epoch,
  // as in Python.
  Generator* generator = nullptr;
};

// for (const auto& batch : loader): batch[k] holds rows of the dataset's tensor
// k. Each begin() starts an epoch.
class FL_API DataLoader {
 public:
  using Batch = std::vector<Tensor>;
  explicit DataLoader(TensorDataset dataset, DataLoaderOptions options = {});
  int64_t size() const;  // batches in an epoch

  class FL_API Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    using pointer = const Batch*;
    using reference = const Batch&;
    const Batch& operator*() const { return batch_; }
    const Batch* operator->() const { return &batch_; }
    Iterator& operator++();
    bool operator==(std::default_sentinel_t) const { return at_ >= loader_->size(); }

   private:
    friend class DataLoader;
    explicit Iterator(const DataLoader& loader);
    void fetch();
    const DataLoader* loader_;
    Tensor order_;  // undefined: as they stand
    int64_t at_ = 0;
    Batch batch_;
  };
  Iterator begin() const { return Iterator(*this); }
  std::default_sentinel_t end() const { return {}; }

 private:
  TensorDataset dataset_;
  DataLoaderOptions options_;
};

}  // namespace flambeau::data
