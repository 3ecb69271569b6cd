// Eigenvalues of Hermitian matrices and singular values, in batches of contiguous matrices.
#pragma once
#include "flambeau/core/dtype.h"
#include "flambeau/kernels/kernel.h"

namespace flambeau {

// Of a (batch, n, n) one triangle is read; values (batch, n) rise. With vectors, a becomes the
// eigenvectors as columns, else nothing of use. False if an iteration did not end.
FL_KERNEL(eigh_matrices,
          bool(DType, void* a, double* values, int64_t batch, int64_t n, bool upper, bool vectors));

// values (batch, k), k = min(rows, columns), are the singular values of a (batch, rows, columns),
// and fall. Unless null, u (batch, rows, lefts) and vh (batch, rights, columns) become the vectors,
// k on either side or, with full, all that the space has. False if an iteration did not end.
FL_KERNEL(svd_matrices, bool(DType, const void* a, void* u, double* values, void* vh, int64_t batch,
                             int64_t rows, int64_t columns, bool full));

}  // namespace flambeau
