// Formatting of messages, notes that travel beside an exception, and the thread's block.
#include "flambeau/core/error.h"

#include <pthread.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "flambeau/core/check.h"
#include "flambeau/core/tls.h"

namespace flambeau {

thread_local constinit Tls tls;

void Tls::end_thread() {
  watched = false;
  delete static_cast<std::vector<std::string>*>(std::exchange(notes, nullptr));
  for (FreeList* list : {&tensors, &storages, &nodes}) {
    while (void* block = list->head) {
      list->head = *static_cast<void**>(block);
      std::free(block);
    }
    list->count = 0;
  }
}

// A thread-specific key instead of a destructor. Objects that die after it has run make it run once
// more.
void watch_thread_end() {
  static pthread_key_t key;
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  static bool usable;  // without a key the block's lists outlive their thread
  pthread_once(&once,
               [] { usable = pthread_key_create(&key, [](void*) { tls.end_thread(); }) == 0; });
  if (usable) pthread_setspecific(key, &tls);
  tls.watched = true;
}

namespace {

// The shortest text that reads back as v, with a point so that 2.0 is not taken for an integer.
void append_double(std::string& out, double v) {
  char text[32];
  for (int digits = 1; digits <= 17; digits++) {
    std::snprintf(text, sizeof text, "%.*g", digits, v);
    if (std::strtod(text, nullptr) == v) break;
  }
  out += text;
  if (std::isfinite(v) && std::string_view(text).find_first_of(".e") == std::string_view::npos)
    out += ".0";
}

void append_ints(std::string& out, IntList list) {
  out += '(';
  for (size_t i = 0; i < list.size(); i++) {
    if (i) out += ", ";
    out += std::to_string(list[i]);
  }
  out += list.size() == 1 ? ",)" : ")";
}

void append_scalar(std::string& out, const Scalar& s) {
  switch (s.kind()) {
    case Scalar::Kind::Bool:
      out += s.to_bool() ? "True" : "False";
      break;
    case Scalar::Kind::Int:
      out += std::to_string(s.to_int());
      break;
    case Scalar::Kind::UInt:
      out += std::to_string(uint64_t(s.to_int()));
      break;
    case Scalar::Kind::Double:
      append_double(out, s.to_double());
      break;
    case Scalar::Kind::Complex:
      append_double(out, s.to_complex().real());
      out += '+';
      append_double(out, s.to_complex().imag());
      out += 'j';
  }
}

using Notes = std::vector<std::string>;

}  // namespace

void FormatArg::append_to(std::string& out) const {
  switch (kind_) {
    case kInt:
      out += std::to_string(int_);
      break;
    case kUInt:
      out += std::to_string(uint64_t(int_));
      break;
    case kDouble:
      append_double(out, double_);
      break;
    case kText:
      out += text_;
      break;
    case kInts:
      append_ints(out, ints_);
      break;
    case kDevice:
      out += to_string(device_);
      break;
    case kScalar:
      append_scalar(out, *scalar_);
      break;
  }
}

std::string format_args(std::string_view pattern, const FormatArg* args, size_t count) {
  std::string out;
  size_t used = 0;
  for (size_t i = 0; i < pattern.size(); i++) {
    if (pattern.substr(i, 2) == "{}" && used < count) {
      args[used++].append_to(out);
      i++;
    } else {
      out += pattern[i];
    }
  }
  return out;
}

void assertion_failed(const char* condition, const char* file, int line) {
  throw RuntimeError(
      format("internal error, please report it: {} at {}:{}", condition, file, line));
}

void add_error_note(std::string note) {
  if (!tls.watched) watch_thread_end();
  if (!tls.notes) tls.notes = new Notes;
  static_cast<Notes*>(tls.notes)->push_back(std::move(note));
}

std::string take_error_notes() {
  std::string joined;
  if (!tls.notes) return joined;
  for (const std::string& note : *static_cast<Notes*>(tls.notes)) {
    if (!joined.empty()) joined += '\n';
    joined += note;
  }
  delete static_cast<Notes*>(tls.notes);
  tls.notes = nullptr;
  return joined;
}

}  // namespace flambeau
