// Lists of integers: IntList borrows, Ints owns (inline up to six, as tensors rarely have more
// dims).
#pragma once
#include <algorithm>
#include <initializer_list>
#include <stdexcept>
#include <vector>

#include "flambeau/core/config.h"

namespace flambeau {

// Copies a few numbers. Compilers make a call of memmove of such a loop, which costs more than the
// loop itself; the empty statement keeps them from it.
inline void copy_few(const int64_t* from, size_t count, int64_t* to) {
  for (size_t i = 0; i < count; i++) {
    to[i] = from[i];
    asm volatile("");
  }
}

class IntList {
 public:
  constexpr IntList() = default;
  constexpr IntList(const int64_t* data, size_t size) : data_(data), size_(size) {}
  // A braced list lives until the end of the full expression: right for an argument, wrong for a
  // variable.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winit-list-lifetime"
  IntList(std::initializer_list<int64_t> list) : data_(list.begin()), size_(list.size()) {}
#pragma GCC diagnostic pop
  IntList(const std::vector<int64_t>& v) : data_(v.data()), size_(v.size()) {}

  const int64_t* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const int64_t* begin() const { return data_; }
  const int64_t* end() const { return data_ + size_; }
  int64_t operator[](size_t i) const { return data_[i]; }
  int64_t back() const { return data_[size_ - 1]; }
  bool operator==(IntList o) const {
    if (size_ != o.size_) return false;
    for (size_t i = 0; i < size_; i++)  // a call of memcmp costs more than these few steps
      if (data_[i] != o.data_[i]) return false;
    return true;
  }

 private:
  const int64_t* data_ = nullptr;
  size_t size_ = 0;
};

class Ints {
 public:
  Ints() = default;
  explicit Ints(size_t size, int64_t value = 0) { resize(size, value); }
  Ints(IntList list) { assign(list); }
  Ints(std::initializer_list<int64_t> list) { assign(IntList(list)); }
  Ints(const Ints& o) { assign(o); }
  Ints(Ints&& o) noexcept { take(o); }
  Ints& operator=(const Ints& o) {
    if (this != &o) assign(o);
    return *this;
  }
  Ints& operator=(Ints&& o) noexcept {
    if (this != &o) {
      release();
      take(o);
    }
    return *this;
  }
  ~Ints() { release(); }

  operator IntList() const { return {data(), size_}; }
  const int64_t* data() const { return heap_ ? heap_ : inline_; }
  int64_t* data() { return heap_ ? heap_ : inline_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  int64_t* begin() { return data(); }
  int64_t* end() { return data() + size_; }
  const int64_t* begin() const { return data(); }
  const int64_t* end() const { return data() + size_; }
  int64_t operator[](size_t i) const { return data()[i]; }
  int64_t& operator[](size_t i) { return data()[i]; }
  int64_t back() const { return data()[size_ - 1]; }
  bool operator==(const Ints& o) const { return IntList(*this) == IntList(o); }

  void push_back(int64_t v) {
    resize(size_ + 1);
    data()[size_ - 1] = v;
  }
  void insert(size_t at, int64_t v) {
    resize(size_ + 1);
    std::copy_backward(begin() + at, end() - 1, end());
    data()[at] = v;
  }
  void erase(size_t at) {
    std::copy(begin() + at + 1, end(), begin() + at);
    size_--;
  }
  void clear() { size_ = 0; }
  void resize(size_t size, int64_t value = 0) {
    if (size > capacity_) grow(size);
    int64_t* numbers = data();
    for (size_t i = size_; i < size; i++) {
      numbers[i] = value;
      asm volatile("");  // see copy_few
    }
    size_ = uint32_t(size);
  }

 private:
  static constexpr uint32_t kInline = 6;
  static constexpr size_t kMost = size_t{1} << 31;
  void assign(IntList list) {
    if (list.size() > capacity_) grow(list.size());
    copy_few(list.data(), list.size(), data());
    size_ = uint32_t(list.size());
  }
  void grow(size_t size) {
    if (size >= kMost) throw std::length_error("Ints");  // what would not fit into 32 bits
    uint32_t capacity = uint32_t(std::max<size_t>(size, 2 * size_t(capacity_)));
    int64_t* fresh = new int64_t[capacity];
    std::copy(begin(), end(), fresh);
    delete[] heap_;
    heap_ = fresh;
    capacity_ = capacity;
  }
  void release() {
    delete[] heap_;
    heap_ = nullptr;
    capacity_ = kInline;
  }
  void take(Ints& o) {
    heap_ = o.heap_;
    size_ = o.size_;
    capacity_ = o.capacity_;
    if (!heap_) copy_few(o.inline_, size_, inline_);
    o.heap_ = nullptr;
    o.size_ = 0;
    o.capacity_ = kInline;
  }

  int64_t* heap_ = nullptr;
  uint32_t size_ = 0, capacity_ = kInline;
  int64_t inline_[kInline];
};

}  // namespace flambeau
