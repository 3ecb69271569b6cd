// Writes zip files: records one after the other, the directory at the end.
#include <algorithm>

#include "flambeau/core/check.h"
#include "flambeau/serialize/crc32.h"
#include "flambeau/serialize/zip.h"

namespace flambeau::serialize {
namespace {

constexpr uint64_t kAlignment = 64;
constexpr uint32_t kLarge = 0xFFFFFFFF;  // the mark for "see the 64-bit field"
constexpr uint16_t kFlags = 0x0808;      // UTF-8 names; sizes and checksum follow the bytes

// Little-endian numbers put together to a header.
class Header {
 public:
  explicit Header(std::string_view signature) : bytes_(signature) {}
  template <class... T>
  Header& add(T... values) {
    (bytes_.append(reinterpret_cast<const char*>(&values), sizeof values), ...);
    return *this;
  }
  Header& text(std::string_view bytes) {
    bytes_ += bytes;
    return *this;
  }
  operator std::string_view() const { return bytes_; }
  size_t size() const { return bytes_.size(); }

 private:
  std::string bytes_;
};

using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;

u32 shortened(u64 n) { return u32(std::min<u64>(n, kLarge)); }

// torch names the root folder after the file.
std::string root_of(const std::string& path) {
  size_t slash = path.find_last_of('/');
  std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  size_t dot = name.find_last_of('.');
  if (dot != std::string::npos && dot > 0) name.resize(dot);
  bool ascii = std::all_of(name.begin(), name.end(), [](char c) { return c > 0; });
  return ascii && !name.empty() ? name : "archive";
}

}  // namespace

ZipWriter::ZipWriter(const std::string& path)
    : path_(path), root_(root_of(path)), out_(path, std::ios::binary) {
  FL_CHECK(out_, RuntimeError, "save: cannot write {}", path_);
}

void ZipWriter::put(std::string_view bytes) {
  out_.write(bytes.data(), std::streamsize(bytes.size()));
  at_ += bytes.size();
}

void ZipWriter::add(const std::string& name, std::string_view data) {
  Entry entry{root_ + "/" + name, crc32(0, data.data(), data.size()), data.size(), at_};
  bool large = entry.size >= kLarge;
  Header extra("");
  if (large) extra.add(u16(1), u16(16), entry.size, entry.size);
  u64 start = at_ + 30 + entry.name.size() + extra.size() + 4;
  u16 padding = u16((kAlignment - start % kAlignment) % kAlignment);
  extra.text("FB").add(padding).text(std::string(padding, 'Z'));

  u32 size = large ? kLarge : 0;
  put(Header("PK\3\4")
          .add(u16(0), kFlags, u16(0), u16(0), u16(0), u32(0), size, size)
          .add(u16(entry.name.size()), u16(extra.size()))
          .text(entry.name)
          .text(extra));
  put(data);
  Header tail("PK\7\10");
  if (large)
    put(tail.add(entry.crc, entry.size, entry.size));
  else
    put(tail.add(entry.crc, u32(entry.size), u32(entry.size)));
  entries_.push_back(std::move(entry));
}

void ZipWriter::put_directory_entry(const Entry& e) {
  Header wide("");
  if (e.size >= kLarge) wide.add(e.size, e.size);
  if (e.offset >= kLarge) wide.add(e.offset);
  Header extra("");
  if (wide.size()) extra.add(u16(1), u16(wide.size())).text(wide);
  u32 size = shortened(e.size);
  put(Header("PK\1\2")
          .add(u16(0), u16(0), kFlags, u16(0), u16(0), u16(0), e.crc, size, size)
          .add(u16(e.name.size()), u16(extra.size()), u16(0), u16(0), u16(0), u32(0))
          .add(shortened(e.offset))
          .text(e.name)
          .text(extra));
}

void ZipWriter::finish() {
  u64 start = at_, count = entries_.size();
  for (const Entry& entry : entries_) put_directory_entry(entry);
  u64 end = at_, size = end - start;
  put(Header("PK\6\6").add(u64(44), u16(0x031E), u16(45), u32(0), u32(0), count, count, size,
                           start));
  put(Header("PK\6\7").add(u32(0), end, u32(1)));
  u16 few = u16(std::min<u64>(count, 0xFFFF));
  put(Header("PK\5\6").add(u16(0), u16(0), few, few, shortened(size), shortened(start), u16(0)));
  out_.close();
  FL_CHECK(out_, RuntimeError, "save: could not write all {} bytes of {}", at_, path_);
}

}  // namespace flambeau::serialize
