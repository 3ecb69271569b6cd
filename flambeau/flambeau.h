// The whole library for C++ programs: tensors, ops, gradients.
#pragma once
#include "flambeau/core/generator.h"
#include "flambeau/core/threadpool.h"
#include "flambeau/ops/operators.h"
#include "flambeau/tape/node.h"

namespace flambeau {
using namespace ops;
}
