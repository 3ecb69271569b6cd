// What each kind of recurrent cell makes of its sums, for a register of units, and the way back.
// All else about a layer is the same for all of them: recurrent.cpp.
#pragma once
#include "flambeau/kernels/cpu/recurrent.h"
#include "flambeau/kernels/math_exp.h"

namespace flambeau::FL_ISA {

// What the way back finds at a unit besides the values that forward() kept. A cell reads some.
template <class T>
struct UnitState {
  Vec<T> before, after, cell_before, cell;
};

// forward(x, h, state, cell, kept): x and h are the gates' products of input and state before. The
// result is the new state; `cell` changes to the new one, `kept` is for backward.
// backward(kept, at, g, c, gx, gh): from g, the slope of the state, to those of x and h; c changes
// from the slope of the cell to that of the one before. The result is the slope of the state before
// by other ways than h.
template <class T>
struct LstmCell {
  using V = Vec<T>;
  static constexpr RecurrentCell kCell = RecurrentCell::Lstm;
  static constexpr bool kReadsBefore = false, kReadsAfter = false;

  static V forward(const V* x, const V* h, V, V& cell, V* kept) {
    kept[0] = sigmoid(x[0] + h[0]);
    kept[1] = sigmoid(x[1] + h[1]);
    kept[2] = tanh(x[2] + h[2]);
    kept[3] = sigmoid(x[3] + h[3]);
    cell = fma(kept[1], cell, kept[0] * kept[2]);
    return kept[3] * tanh(cell);
  }
  static V backward(const V* kept, const UnitState<T>& at, V g, V& c, V* gx, V*) {
    const V in = kept[0], forget = kept[1], fresh = kept[2], out = kept[3];
    const V shown = tanh(at.cell);
    c = fma(g * out, 1 - shown * shown, c);
    gx[0] = c * fresh * in * (1 - in);
    gx[1] = c * at.cell_before * forget * (1 - forget);
    gx[2] = c * in * (1 - fresh * fresh);
    gx[3] = g * shown * out * (1 - out);
    c = c * forget;
    return V(0);
  }
};

template <class T>
struct GruCell {
  using V = Vec<T>;
  static constexpr RecurrentCell kCell = RecurrentCell::Gru;
  static constexpr bool kReadsBefore = true, kReadsAfter = false;

  static V forward(const V* x, const V* h, V state, V&, V* kept) {
    const V reset = sigmoid(x[0] + h[0]), update = sigmoid(x[1] + h[1]);
    const V fresh = tanh(fma(reset, h[2], x[2]));
    kept[0] = reset, kept[1] = update, kept[2] = fresh, kept[3] = h[2];
    return fma(update, state - fresh, fresh);
  }
  static V backward(const V* kept, const UnitState<T>& at, V g, V&, V* gx, V* gh) {
    const V reset = kept[0], update = kept[1], fresh = kept[2];
    gx[2] = g * (1 - update) * (1 - fresh * fresh);
    gx[1] = g * (at.before - fresh) * update * (1 - update);
    gx[0] = gx[2] * kept[3] * reset * (1 - reset);
    gh[0] = gx[0], gh[1] = gx[1], gh[2] = gx[2] * reset;
    return g * update;
  }
};

template <class T>
struct TanhCell {
  using V = Vec<T>;
  static constexpr RecurrentCell kCell = RecurrentCell::Tanh;
  static constexpr bool kReadsBefore = false, kReadsAfter = true;

  static V forward(const V* x, const V* h, V, V&, V*) { return tanh(x[0] + h[0]); }
  static V backward(const V*, const UnitState<T>& at, V g, V&, V* gx, V*) {
    gx[0] = g * (1 - at.after * at.after);
    return V(0);
  }
};

template <class T>
struct ReluCell {
  using V = Vec<T>;
  static constexpr RecurrentCell kCell = RecurrentCell::Relu;
  static constexpr bool kReadsBefore = false, kReadsAfter = true;

  static V forward(const V* x, const V* h, V, V&, V*) {
    const V sum = x[0] + h[0];
    return select(sum < 0, 0, sum);  // keeps NaN
  }
  static V backward(const V*, const UnitState<T>& at, V g, V&, V* gx, V*) {
    gx[0] = select(at.after > 0, g, 0);
    return V(0);
  }
};

}  // namespace flambeau::FL_ISA
