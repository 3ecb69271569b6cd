// Reads the directory of a zip file and refuses files that contradict
// themselves.
#include <cstring>
#include <iterator>

#include "flambeau/core/check.h"
#include "flambeau/serialize/crc32.h"
#include "flambeau/serialize/zip.h"

namespace flambeau::serialize {
namespace {

constexpr uint32_t kLarge = 0xFFFFFFFF;
constexpr uint64_t kEndSize = 22, kLocatorSize = 20, kEntrySize = 46, kLocalSize = 30;

}  // namespace

void ZipReader::damaged(const std::string& what) const {
  fail<RuntimeError>("load: {} is a damaged zip file: {}", path_, what);
}

template <class T>
T ZipReader::number(uint64_t at) const {
  if (at > bytes_.size() || bytes_.size() - at < sizeof(T)) damaged("it ends too early");
  T value;
  std::memcpy(&value, bytes_.data() + at, sizeof value);
  return value;
}

ZipReader::ZipReader(const std::string& path) : path_(path) {
  std::ifstream in(path, std::ios::binary);
  FL_CHECK(in, RuntimeError, "load: cannot read {}", path);
  bytes_.assign(std::istreambuf_iterator<char>(in), {});
  FL_CHECK(bytes_.starts_with("PK\3\4"), RuntimeError,
           "load: {} is not a zip file; only torch's format since 1.6 is read", path);
  size_t end = bytes_.rfind("PK\5\6");
  if (end == std::string::npos || bytes_.size() - end < kEndSize) damaged("it has no directory");
  uint64_t size = number<uint32_t>(end + 12), start = number<uint32_t>(end + 16);
  if (end >= kLocatorSize && bytes_.compare(end - kLocatorSize, 4, "PK\6\7") == 0) {
    uint64_t wide = number<uint64_t>(end - kLocatorSize + 8);
    size = number<uint64_t>(wide + 40);
    start = number<uint64_t>(wide + 48);
  }
  if (start > end || size > end - start) damaged("its directory lies outside of it");
  read_directory(start, start + size);
}

void ZipReader::read_directory(uint64_t at, uint64_t end) {
  while (at < end) {
    if (bytes_.compare(at, 4, "PK\1\2") != 0) damaged("an entry of its directory is none");
    uint16_t method = number<uint16_t>(at + 10), name_size = number<uint16_t>(at + 28);
    uint16_t extra_size = number<uint16_t>(at + 30), comment = number<uint16_t>(at + 32);
    Record r{number<uint32_t>(at + 42), number<uint32_t>(at + 24), number<uint32_t>(at + 16)};
    uint64_t extra = at + kEntrySize + name_size, wide = extra + 4;
    if (extra + extra_size > end) damaged("its directory ends too early");
    // The 64-bit field comes first where there is one: sizes, then the offset.
    if (r.size == kLarge) {
      r.size = number<uint64_t>(wide);
      wide += 16;
    }
    if (r.offset == kLarge) r.offset = number<uint64_t>(wide);
    std::string name = bytes_.substr(at + kEntrySize, name_size);
    if (method != 0) damaged(name + " is compressed, which torch does not write");

    if (r.offset > bytes_.size() || bytes_.compare(r.offset, 4, "PK\3\4") != 0)
      damaged(name + " is not where the directory says");
    r.offset += kLocalSize + number<uint16_t>(r.offset + 26) + number<uint16_t>(r.offset + 28);
    if (r.offset > bytes_.size() || r.size > bytes_.size() - r.offset)
      damaged(name + " ends outside of the file");
    records_[name.substr(name.find('/') + 1)] = r;
    at = extra + extra_size + comment;
  }
}

std::string_view ZipReader::read(const std::string& name) const {
  auto found = records_.find(name);
  FL_CHECK(found != records_.end(), RuntimeError, "load: {} has no record {}", path_, name);
  const Record& r = found->second;
  std::string_view bytes = std::string_view(bytes_).substr(r.offset, r.size);
  // 0 stands where the writer computed no checksums.
  if (r.crc && crc32(0, bytes.data(), bytes.size()) != r.crc)
    damaged("the checksum of " + name + " is wrong");
  return bytes;
}

}  // namespace flambeau::serialize
