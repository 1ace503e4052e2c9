#include "core/device.h"

#include <charconv>

#include "core/error.h"

namespace thunder {
namespace {
constexpr std::string_view kNames[] = {"cpu", "cuda", "meta", "mps", "xpu", "other"};
CurrentIndex current_index = nullptr;
}  // namespace

void set_current_index(CurrentIndex f) { current_index = f; }

Device with_index(Device d) {
  if (d.index < 0 && current_index) d.index = current_index(d.type);
  return d;
}

std::string_view name(DeviceType t) { return kNames[static_cast<size_t>(t)]; }

std::string Device::str() const {
  std::string s(name(type));
  if (index >= 0) s += ":" + std::to_string(index);
  return s;
}

Device Device::parse(std::string_view text) {
  Device d;
  size_t colon = text.find(':');
  std::string_view type = text.substr(0, colon);
  bool found = false;
  for (size_t i = 0; i < std::size(kNames); ++i)
    if (kNames[i] == type) {
      d.type = static_cast<DeviceType>(i);
      found = true;
    }
  THUNDER_CHECK(found, Runtime, "device", "Expected one of ", join(kNames),
                " device type at start of device string: ", text);
  if (colon == std::string_view::npos) return d;
  std::string_view digits = text.substr(colon + 1);
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), d.index);
  const bool leading_zero = digits.size() > 1 && digits[0] == '0';
  THUNDER_CHECK(error == std::errc() && end == digits.data() + digits.size() && d.index >= 0 && !leading_zero, Runtime,
                "device", "Invalid device string: '", text, "'");
  return d;
}

}  // namespace thunder
