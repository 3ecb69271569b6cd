// The stack of levels and the recorder that counts ops.
#include "flambeau/ops/slow.h"

#include <algorithm>

#include "flambeau/ops/sparse.h"

namespace flambeau {

LevelScope::LevelScope(Level& level) : level_(level) {
  level.outer = tls.levels;
  tls.levels = &level;
  tls.mode |= kModeLevels;
}

LevelScope::~LevelScope() {
  tls.levels = level_.outer;
  if (!tls.levels) tls.mode &= uint8_t(~kModeLevels);
}

bool OpCounter::handle(const OpInfo& op, const Value*, Returns&) {
  ops_.push_back(&op);
  return false;
}

const OpSet* find_op(std::string_view name) {
  auto all = all_ops();  // sorted by name
  auto at = std::lower_bound(all.begin(), all.end(), name, [](const OpSet* s, std::string_view n) {
    return std::string_view(s->name) < n;
  });
  return at != all.end() && std::string_view((*at)->name) == name ? *at : nullptr;
}

Level* foreign_tensors;

namespace detail {

namespace {

// Without a level nobody can say what a batched tensor stands for.
void check_no_batch(const OpInfo& op, const Value* arguments) {
  bool batched = find_tensor(op, arguments, [](const Tensor& t) { return t->flags & kBatched; });
  FL_CHECK(!batched, RuntimeError, "{}: a tensor from inside a vmap that is over was used",
           op.name);
}

}  // namespace

bool ask_levels(const OpInfo& op, void* below, const Value* arguments, Returns& results) {
  Level* all = tls.levels;
  if (!all) check_no_batch(op, arguments);
  for (Level* level = all; level; level = level->outer) {
    if (tls.depth && !level->sees_inner) continue;
    Restore<Level*> outer(tls.levels,
                          level->outer);  // what a level calls itself goes to the levels outside it
    level->below = below;
    if (level->handle(op, arguments, results)) return true;
  }
  if (foreign_tensors && find_tensor(op, arguments, is_foreign)) {
    foreign_tensors->below = below;
    if (foreign_tensors->handle(op, arguments, results)) return true;
  }
  return call_sparse(op, arguments, results);
}

}  // namespace detail

}  // namespace flambeau
