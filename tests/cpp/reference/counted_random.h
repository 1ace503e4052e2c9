// Philox 4x32-10, written from the paper's definition: Salmon, Moraes, Dror and Shaw, "Parallel Random Numbers: As Easy
// as 1, 2, 3", SC 2011.
#pragma once

#include <array>
#include <cstdint>

namespace thunder::reference {

using Words = std::array<uint32_t, 4>;
Words philox(Words counter, std::array<uint32_t, 2> key);

}  // namespace thunder::reference
