// Views and in-place writes: a view's history is rebuilt from its base and its own geometry.
#pragma once
#include "flambeau/tape/node.h"

namespace flambeau {

// After an in-place op on a view: the base gets a node that takes the written part from the view,
// and the view becomes a view of that. Other views of the base notice by its history number.
FL_API void rebase_view(const Tensor& view);
// Gives a view whose base was written through another view its history anew.
FL_API void refresh_view(const Tensor& view);
inline bool is_stale(const TensorImpl* t) {
  return t->base && t->history != t->base->history && !(t->flags & kNoGradView);
}

// The parts of attach(), for nodes that decide for every output: a sequence number once the edges
// are connected, then the history of each output (a reference each).
FL_API void number_node(Node* node);
FL_API void give_history(const Tensor& result, Node* node, uint16_t nr);

}  // namespace flambeau
