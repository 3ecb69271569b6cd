// Eigenvalues of Hermitian matrices, in batches of contiguous matrices.
#pragma once
#include "flambeau/core/dtype.h"
#include "flambeau/kernels/kernel.h"

namespace flambeau {

// Of a (batch, n, n) one triangle is read; values (batch, n) rise. With vectors, a becomes the
// eigenvectors as columns, else nothing of use. False if an iteration did not end.
FL_KERNEL(eigh_matrices,
          bool(DType, void* a, double* values, int64_t batch, int64_t n, bool upper, bool vectors));

}  // namespace flambeau
