// How a convolution is laid out for the register tile: the input is copied, with its padding, onto
// a lattice where every tap of the kernel is a fixed distance from the output, whatever the stride
// and dilation.
#pragma once
#include "flambeau/kernels/cpu/conv.h"
#include "flambeau/kernels/cpu/tile_kernel.h"

namespace flambeau::FL_ISA {

// The lattice points [begin, end) of one phase that exist in the source; those before and after are
// padding. first: source coordinate of the first lattice point.
struct Inside {
  int64_t begin, end, first;
  int64_t used;  // whether some tap reads the phase
  bool has(int64_t i) const { return begin <= i && i < end; }
};

// One spatial dim. Output o reads, for tap t, lattice point o + shift[t] of phase[t]; point i of
// phase f is source[i * step + f], or zero outside. With stride 2 the even and the odd columns are
// so two images of stride 1.
struct Axis {
  int64_t source, step;
  int64_t low, extent;  // the lattice points that some output reads: [low, low + extent)
  int64_t outs;         // outputs, which go to places out_first + o * out_step
  int64_t out_first, out_step;
  int64_t taps;
  int64_t *tap, *phase, *shift;
  Inside* inside;  // of each phase

  int64_t points() const { return extent * step; }
};

struct Plan {
  Axis axis[3];
  int64_t channels, rows;  // of input and output, per group
  int64_t taps;
  int64_t plane;     // lattice elements of one channel
  int64_t chunk;     // channels summed in one run of the tile; partial sums go through memory
  int64_t* places;   // where each tap stands in a kernel of w
  int64_t* offsets;  // where the lattice row of each (channel of the chunk, tap) begins
  int64_t segments;  // vectors that cover the output of one channel
  int64_t *segment_in, *segment_out, *segment_lanes;
  bool flat;  // rows of output follow each other at the lattice's pitch, gaps included
  int64_t out_depth, out_height;  // strides of one channel of the computed output
  int64_t out_plane;

  // Whether the computed output has no gaps.
  bool dense() const { return out_height == axis[2].outs; }
  // Makes the computed output dense, whatever `flat` says; the segments no longer hold.
  void lay_rows_out() {
    flat = false;
    out_height = axis[2].outs;
    out_depth = axis[1].outs * out_height;
    out_plane = axis[0].outs * out_depth;
  }
};

inline int64_t floor_div(int64_t a, int64_t b) { return (a - ((a % b) + b) % b) / b; }

struct TableRoom {
  int64_t* next;
  int64_t* take(int64_t count) {
    int64_t* p = next;
    next += count;
    return p;
  }
};

// The axis of the forward pass, and that of the input's gradient at positions first, first + stride
// ...
Axis forward_axis(const ConvArgs& g, int dim, TableRoom& room);
Axis backward_axis(const ConvArgs& g, int dim, int64_t first, TableRoom& room);
// Where gy lies with all the padding that some of those read, and the axis on it instead of on gy.
Axis padded_axis(const ConvArgs& g, int dim, TableRoom& room);
void lay_on(const Axis& padded, Axis& a);

// Words of table that a plan may take. lanes: elements of a vector.
int64_t table_words(const ConvArgs& g, const int64_t (&outs)[3], int64_t channels, int lanes);
// Fills in everything but the axes, channels and rows.
void finish_plan(Plan& plan, const int64_t (&kernel)[3], int lanes, int64_t depth, TableRoom& room);

// Strides of an image in memory, in elements.
struct ImageStrides {
  int64_t image, channel, axis[3];
};
inline ImageStrides image_strides(bool channels_last, int64_t channels, const int64_t (&size)[3]) {
  const int64_t plane = size[0] * size[1] * size[2];
  const int64_t inner = channels_last ? channels : 1;
  return {channels * plane,
          channels_last ? 1 : plane,
          {size[1] * size[2] * inner, size[2] * inner, inner}};
}

inline int64_t volume(const int64_t (&size)[3]) { return size[0] * size[1] * size[2]; }

// A kernel of one tap that moves nothing: a matrix product in disguise.
inline bool is_pointwise(const ConvArgs& g) {
  for (int d = 0; d < 3; d++) {
    if (g.kernel[d] != 1 || g.stride[d] != 1 || g.pad[d] != 0) return false;
  }
  return true;
}
inline bool is_product(const ConvArgs& g) {
  return is_pointwise(g) && g.channels_last && g.groups == 1;
}

// Types without a register tile: conv_plain.cpp.
void conv_forward_plain(const ConvArgs& g);
void conv_backward_input_plain(const ConvArgs& g);
void conv_backward_weight_plain(const ConvArgs& g);

}  // namespace flambeau::FL_ISA
