// Hashes of contents: SHA-256, which names cache entries, and a fast 64-bit one that finds damage.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace thunder {

/// The digest of SHA-256 (FIPS 180-4).
std::array<uint8_t, 32> sha256(std::string_view bytes);
std::string to_hex(const std::array<uint8_t, 32>& digest);

/// About 5 GB/s, depends on every bit of `bytes` and on their number.  Not against an adversary.
uint64_t fast_hash(std::string_view bytes);

}  // namespace thunder
