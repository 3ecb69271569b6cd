// What eigenvalues and singular values share: the scale of a matrix, the order of the values, and
// vectors kept as rows whose length is whole registers.
#pragma once
#include "flambeau/kernels/cpu/lines.h"

namespace flambeau::FL_ISA {

// A power of two that brings the largest number near one, where squares might not be numbers.
template <class T>
double scale_of(const T* a, int64_t count) {
  double largest = 0;
  for (int64_t i = 0; i < count * kReals<T>; i++) {
    const double size = __builtin_fabs(double(reals(a)[i]));
    if (size > largest) largest = size;
  }
  if (largest == 0 || (largest > 1e-8 && largest < 1e8)) return 1;
  constexpr int kMost = sizeof(RealOf<T>) == 4 ? 120 : 1000;  // the scale is a number of the type
  const int exponent = -__builtin_ilogb(largest);
  return __builtin_ldexp(1.0, exponent > kMost ? kMost : exponent);
}

// Places in the order of rising values.
inline void sort_places(const double* values, int64_t n, int64_t* order) {
  for (int64_t i = 0; i < n; i++) order[i] = i;
  // Shell 1959, with Ciura's gaps: few values, nearly in order.
  for (int64_t gap : {1577, 701, 301, 132, 57, 23, 10, 4, 1}) {
    for (int64_t i = gap; i < n; i++) {
      const int64_t moved = order[i];
      int64_t j = i;
      for (; j >= gap && values[order[j - gap]] > values[moved]; j -= gap)
        order[j] = order[j - gap];
      order[j] = moved;
    }
  }
}

template <class T>
inline void copy_row(const T* from, int64_t count, T* to) {
  for (int64_t i = 0; i < count; i++) to[i] = from[i];
}
template <class T>
inline void set_identity(T* a, int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < columns; j++) a[i * columns + j] = T(i == j);
}

// Real numbers of a row of `count` elements and of what fills its last register.
template <class T>
inline int64_t padded_row(int64_t count) {
  constexpr int64_t kLanes = Vec<RealOf<T>>::kLanes;
  const int64_t row = ceil_div(count * kReals<T>, kLanes) * kLanes;
  // Rows whole pages apart would push each other out of the cache.
  return row * int64_t(sizeof(RealOf<T>)) % 1024 == 0 ? row + kLanes : row;
}

// Columns of a (rows x columns) become rows of y, and back in another order; tile by tile.
template <class T>
void turn_columns(const T* a, int64_t a_row, int64_t rows, int64_t columns, RealOf<T>* y,
                  int64_t row) {
  constexpr int64_t kTile = 16;
  for (int64_t i = 0; i < rows; i += kTile)
    for (int64_t j = 0; j < columns; j++)
      for (int64_t r = i; r < least(rows, i + kTile); r++)
        reinterpret_cast<T*>(y + j * row)[r] = a[r * a_row + j];
  for (int64_t j = 0; j < columns; j++)
    for (int64_t i = rows * kReals<T>; i < row; i++) y[j * row + i] = RealOf<T>(0);
}
template <class T>
void gather_columns(const RealOf<T>* y, int64_t row, const int64_t* order, int64_t rows,
                    int64_t columns, T* a, int64_t a_row) {
  constexpr int64_t kTile = 16;
  for (int64_t i = 0; i < rows; i += kTile)
    for (int64_t j = 0; j < columns; j++) {
      const T* from = reinterpret_cast<const T*>(y + order[j] * row);
      for (int64_t r = i; r < least(rows, i + kTile); r++) a[r * a_row + j] = from[r];
    }
}

}  // namespace flambeau::FL_ISA
