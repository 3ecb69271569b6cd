// The names that pickles give to memory by its dtype: torch.FloatStorage and
// the like.
#pragma once
#include <array>
#include <optional>
#include <string_view>

#include "flambeau/core/dtype.h"

namespace flambeau::serialize {

inline constexpr std::array<std::string_view, kDTypes> kStorageTypes = {"BoolStorage",
                                                                        "ByteStorage",
                                                                        "CharStorage",
                                                                        "ShortStorage",
                                                                        "IntStorage",
                                                                        "LongStorage",
                                                                        "",
                                                                        "",
                                                                        "",
                                                                        "HalfStorage",
                                                                        "BFloat16Storage",
                                                                        "FloatStorage",
                                                                        "DoubleStorage",
                                                                        "ComplexFloatStorage",
                                                                        "ComplexDoubleStorage"};

// Empty where torch has no such name.
inline std::string_view storage_type(DType t) { return kStorageTypes[size_t(t)]; }
inline std::optional<DType> dtype_of_storage(std::string_view name) {
  for (size_t i = 0; i < kStorageTypes.size(); i++)
    if (!name.empty() && kStorageTypes[i] == name) return DType(i);
  return std::nullopt;
}

}  // namespace flambeau::serialize
