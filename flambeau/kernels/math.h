// Every elementary function of a register: the front of the math_*.h headers. Accurate to one unit
// in the last place for floats, except lgamma and digamma near their zeros, and to about two for
// doubles; special values are the C library's. Functions marked noinline are too big to repeat in
// every body: next to them a call per register costs little.
#pragma once
#include "flambeau/kernels/math_complex.h"
#include "flambeau/kernels/math_division.h"
#include "flambeau/kernels/math_exp.h"
#include "flambeau/kernels/math_log.h"
#include "flambeau/kernels/math_power.h"
#include "flambeau/kernels/math_rare.h"
#include "flambeau/kernels/math_short.h"
#include "flambeau/kernels/math_special.h"
#include "flambeau/kernels/math_trig.h"
