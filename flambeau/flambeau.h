// The whole library for C++ programs: tensors and their methods, ops,
// gradients, networks, optimizers, data, files.
#pragma once
#include "flambeau/core/generator.h"
#include "flambeau/core/threadpool.h"
#include "flambeau/data/data.h"
#include "flambeau/generated/method_bodies.h"
#include "flambeau/nn/nn.h"
#include "flambeau/ops/factories.h"
#include "flambeau/ops/index.h"
#include "flambeau/ops/operators.h"
#include "flambeau/ops/print.h"
#include "flambeau/optim/optim.h"
#include "flambeau/serialize/serialize.h"
#include "flambeau/tape/node.h"

namespace flambeau {
using namespace ops;

inline void manual_seed(uint64_t seed) { default_generator().manual_seed(seed); }

// Modules and state dicts in torch's file format.
using nn::load;
using nn::save;
using serialize::StateDict;
inline void save(const StateDict& state, const std::string& path) { serialize::save(state, path); }
inline StateDict load_state_dict(const std::string& path) { return serialize::load(path); }
}  // namespace flambeau
