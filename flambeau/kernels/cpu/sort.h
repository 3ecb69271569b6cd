// Sorting and what follows from order: topk, kthvalue, median, mode, searchsorted, unique,
// counting. Compiled once: these work on integer keys, which the baseline instruction set handles
// as well. Rows are contiguous; real dtypes.
#pragma once
#include "flambeau/core/dtype.h"

namespace flambeau {

// Stable. values or indices may be null. NaN is larger than everything.
void sort_rows(DType dtype, const void* x, int64_t rows, int64_t cols, bool descending,
               void* values, int64_t* indices);

// The k largest or smallest of each row, best first; of equal elements the first ones.
void topk_rows(DType dtype, const void* x, int64_t rows, int64_t cols, int64_t k, bool largest,
               void* values, int64_t* indices);

// The k-th smallest, k from 1, and where it is (the k-th of a stable sort). cols >= k.
void kthvalue_rows(DType dtype, const void* x, int64_t rows, int64_t cols, int64_t k, void* values,
                   int64_t* indices);

// The lower median. A row with a NaN gives its first NaN, or, with ignore_nan, the median of its
// numbers. cols >= 1.
void median_rows(DType dtype, const void* x, int64_t rows, int64_t cols, bool ignore_nan,
                 void* values, int64_t* indices);

// The most frequent element, of equally frequent ones the smallest, and the last place where it is.
// cols >= 1.
void mode_rows(DType dtype, const void* x, int64_t rows, int64_t cols, void* values,
               int64_t* indices);

// out[r][i] = how many elements of the sorted row r are < values[r][i] (<= with `right`). With
// one_row the row is shared by all values. A NaN goes after everything.
void searchsorted_rows(DType dtype, const void* sorted, bool one_row, int64_t size,
                       const void* values, int64_t rows, int64_t per_row, bool right, int64_t* out);

// Distinct elements of x[n] in order; returns how many. `values` and `counts` have room for n;
// inverse[i] is the place of x[i] in values. inverse and counts may be null. Every NaN is distinct.
int64_t unique_sorted(DType dtype, const void* x, int64_t n, void* values, int64_t* inverse,
                      int64_t* counts);
// The same for runs of equal elements, in the order of x.
int64_t unique_consecutive(DType dtype, const void* x, int64_t n, void* values, int64_t* inverse,
                           int64_t* counts);
// Distinct rows of x[n][m] in lexicographic order (or distinct from the row before, with
// `consecutive`): firsts[u] is the position of row u's first occurrence.
int64_t unique_rows(DType dtype, const void* x, int64_t n, int64_t m, bool consecutive,
                    int64_t* firsts, int64_t* inverse, int64_t* counts);

// out[b] = how often b is in x; all of x is in [0, bins).
void bincount_items(const int64_t* x, int64_t n, int64_t bins, int64_t* out);
// out[b] = the sum of the weights where x is b, in order. Float32 or Float64.
void bincount_weighted(DType dtype, const int64_t* x, const void* weights, int64_t n, int64_t bins,
                       void* out);
// Counts of `bins` equal bins over [low, high], as floats; other elements are left out. Float32 or
// Float64.
void histc_items(DType dtype, const void* x, int64_t n, double low, double high, int64_t bins,
                 void* out);

}  // namespace flambeau
