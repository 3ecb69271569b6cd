// What the per-instruction-set sources *_shim.cpp offer to the tests, which are compiled once.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "flambeau/kernels/kernel.h"

namespace flambeau {

// out[i] = the function of that name at x[i] (and y[i]); false if it has no such name. n is a
// multiple of 16.
using EvalFloat = bool(std::string_view name, const float* x, const float* y, float* out,
                       int64_t n);
using EvalDouble = bool(std::string_view name, const double* x, const double* y, double* out,
                        int64_t n);
FL_KERNEL(eval_float, EvalFloat);
FL_KERNEL(eval_double, EvalDouble);

// The text of the first promise that the registers, the loops or the bodies break, "" if they keep
// all.
FL_KERNEL(broken_register_promise, const char*());
FL_KERNEL(broken_loop_promise, const char*());
FL_KERNEL(broken_body_promise, const char*());

}  // namespace flambeau
