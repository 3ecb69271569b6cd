// Zip files of stored records below one root folder, their bytes at multiples
// of 64: the outer layer of torch's files.
#pragma once
#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace flambeau::serialize {

class ZipWriter {
 public:
  explicit ZipWriter(const std::string& path);
  void add(const std::string& name, std::string_view data);
  // Writes the directory; the file is complete only afterwards.
  void finish();

 private:
  struct Entry {
    std::string name;
    uint32_t crc;
    uint64_t size, offset;
  };
  void put(std::string_view bytes);
  void put_directory_entry(const Entry& entry);

  std::string path_, root_;
  std::ofstream out_;
  uint64_t at_ = 0;
  std::vector<Entry> entries_;
};

class ZipReader {
 public:
  explicit ZipReader(const std::string& path);
  bool contains(const std::string& name) const { return records_.contains(name); }
  // The bytes of a record, its checksum verified.
  std::string_view read(const std::string& name) const;
  const std::string& path() const { return path_; }

 private:
  struct Record {
    uint64_t offset, size;
    uint32_t crc;
  };
  void read_directory(uint64_t start, uint64_t end);
  [[noreturn]] void damaged(const std::string& what) const;
  // A little-endian number in the file.
  template <class T>
  T number(uint64_t at) const;

  std::string path_, bytes_;
  std::map<std::string, Record> records_;
};

}  // namespace flambeau::serialize
