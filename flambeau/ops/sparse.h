// Sparse tensors: shells around strided ones, of which the tape sees the values alone. A shell's
// own memory is one zero, expanded to its sizes, so that whoever overlooks the layout reads zeros.
#pragma once
#include "flambeau/ops/op_info.h"
#include "flambeau/tape/meta.h"

namespace flambeau {

inline bool is_sparse(const Tensor& t) { return t.defined() && t->flags & kSparse; }

// Parts of a COO tensor: indices (dims, n) and values (n, *). Of a compressed matrix: where each
// row (CSR) or column (CSC) starts, the other index of each element, and values.
FL_API Tensor make_sparse(Layout layout, IntList sizes, std::vector<Tensor> parts,
                          bool is_coalesced);
inline const Tensor& sparse_values(const Tensor& t) { return t->meta->parts.back(); }
// The same places with other values.
FL_API Tensor with_values(const Tensor& like, const Tensor& values);
// The values that a tensor, dense or sparse, has at the places of another.
FL_API Tensor values_at(const Tensor& t, const Tensor& places_of);

// The slow path's answer to a call with a sparse argument: false where the op itself knows what to
// do with one. Ops that have no form for sparse tensors raise NotImplementedError.
bool call_sparse(const OpInfo& op, const Value* arguments, Returns& results);

}  // namespace flambeau
