// Distributions over contiguous memory, drawn from a generator exactly as torch draws them. Each
// call holds the generator's lock. Parameters are checked by the op; probabilities given as a
// tensor are checked here, before anything is drawn.
#pragma once
#include "flambeau/core/dtype.h"
#include "flambeau/core/generator.h"

namespace flambeau {

// Floating dtypes; a complex one is filled as twice as many real numbers.
FL_API void fill_uniform(Generator& generator, DType dtype, void* out, int64_t n, double from,
                         double to);

// torch takes another path for 16 or more elements whose memory is contiguous; `dense` says that
// theirs is. A complex dtype's variance is shared by its two parts.
FL_API void fill_normal(Generator& generator, DType dtype, void* out, int64_t n, double mean,
                        double std, bool dense = true);

// Ones with probability p, every dtype.
FL_API void fill_bernoulli(Generator& generator, DType dtype, void* out, int64_t n, double p);
FL_API void fill_bernoulli(Generator& generator, DType dtype, void* out, int64_t n, DType p_dtype,
                           const void* p);

// Integers in every real dtype: base + [0, range), a range of 0: all 2^64 integers, whatever the
// base. Wraps when cast to a narrower dtype.
FL_API void fill_integers(Generator& generator, DType dtype, void* out, int64_t n, int64_t base,
                          uint64_t range);
// Where the dtype cannot tell all of [low, high) apart, moves the bounds to the nearest inside that
// it has, so that no number is rounded out of the range. The op checks low < high.
FL_API void narrow_to_dtype(DType dtype, int64_t& low, int64_t& high);
// All that the dtype holds from 0 on; in floating dtypes as far as every integer has a value.
FL_API void fill_integers(Generator& generator, DType dtype, void* out, int64_t n);

FL_API void fill_exponential(Generator& generator, DType dtype, void* out, int64_t n,
                             double lambda);
FL_API void fill_cauchy(Generator& generator, DType dtype, void* out, int64_t n, double median,
                        double sigma);
FL_API void fill_log_normal(Generator& generator, DType dtype, void* out, int64_t n, double mean,
                            double std);
FL_API void fill_geometric(Generator& generator, DType dtype, void* out, int64_t n, double p);

// A permutation of 0 .. n-1.
FL_API void fill_permutation(Generator& generator, DType dtype, void* out, int64_t n);

// Samplers whose parameters are tensors of the result's dtype (floating).
FL_API void sample_poisson(Generator& generator, DType dtype, const void* rate, void* out,
                           int64_t n);
FL_API void sample_binomial(Generator& generator, DType dtype, const void* count, const void* p,
                            void* out, int64_t n);
FL_API void sample_gamma(Generator& generator, DType dtype, const void* alpha, void* out,
                         int64_t n);
FL_API void sample_dirichlet(Generator& generator, DType dtype, const void* alpha, void* out,
                             int64_t rows, int64_t columns);

// `samples` column numbers for each row of weights, which need not sum to one.
FL_API void sample_multinomial(Generator& generator, DType dtype, const void* weights, int64_t rows,
                               int64_t columns, int64_t samples, bool replacement, int64_t* out);

}  // namespace flambeau
