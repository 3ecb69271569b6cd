// What the files of sparse tensors share.
#pragma once
#include "flambeau/ops/sparse.h"

namespace flambeau::ops {

// Indices (dims, n) in int64, whatever the layout.
Tensor coordinates(const Tensor& sparse);
// Each column of indices as one number, row-major.
Tensor flat_places(const Tensor& indices, IntList sizes);
// The other way: (dims, n).
Tensor unflattened(const Tensor& places, IntList sizes);
// The first dims as one.
Tensor flat_rows(const Tensor& dense, int64_t dims);
// (rows, *): the sums of the values with one place.
Tensor summed_rows(int64_t rows, const Tensor& places, const Tensor& values);

// A vector of indices.
Tensor tensor_of_ints(IntList list, Device device);

void check_sparse(std::string_view op, const Tensor& t);
void check_coo(std::string_view op, const Tensor& t);
std::string_view layout_name(const Tensor& t);
int64_t sparse_dims(const Tensor& sparse);

}  // namespace flambeau::ops
