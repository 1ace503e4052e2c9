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

/// The index that a device of that type means where none is given; -1 leaves it open.
using CurrentIndex = int16_t (*)(DeviceType);
/// Tells the compiler which device is current: "cuda" is a place only with an index.
void set_current_index(CurrentIndex f);
/// The device with the current index where it has none.
Device with_index(Device d);

std::string_view name(DeviceType t);
inline std::ostream& operator<<(std::ostream& out, const Device& d) { return out << d.str(); }

}  // namespace thunder
