// The checksum of zip files: CRC-32 with the reflected polynomial 0xEDB88320.
#pragma once
#include <cstddef>
#include <cstdint>

#include "flambeau/core/config.h"

namespace flambeau::serialize {

// The checksum of `size` more bytes after those that gave `crc`; 0 begins.
FL_API uint32_t crc32(uint32_t crc, const void* data, size_t size);

}  // namespace flambeau::serialize
