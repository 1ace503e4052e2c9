// Devices: a type ("cpu", "cuda", "meta", ...) and an index (-1: none was given).
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>

namespace thunder {

enum class DeviceType : uint8_t { cpu, cuda, meta, mps, xpu, other };

struct Device {
  DeviceType type = DeviceType::cpu;
  int16_t index = -1;

  friend bool operator==(const Device&, const Device&) = default;
  /// "cuda:0", "cpu".
  std::string str() const;
  /// The reverse of str(); Error (Runtime) names what is wrong.
  static Device parse(std::string_view text);
};

std::string_view name(DeviceType t);
inline std::ostream& operator<<(std::ostream& out, const Device& d) { return out << d.str(); }

}  // namespace thunder
