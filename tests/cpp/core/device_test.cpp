// Devices: their text, and what "cuda" without an index means.
#include "core/device.h"

#include <doctest.h>

#include "core/error.h"
#include "core/errors.h"

namespace thunder {
namespace {

constexpr DeviceType kTypes[] = {DeviceType::cpu, DeviceType::cuda, DeviceType::meta,
                                 DeviceType::mps, DeviceType::xpu,  DeviceType::other};

// The message of the error that parse gives.
std::string error_of(std::string_view text) {
  return test::error_of(ErrorKind::Runtime, [&] { Device::parse(text); });
}

// Says which device is current for the length of a scope.
struct Current {
  explicit Current(CurrentIndex f) { set_current_index(f); }
  ~Current() { set_current_index(nullptr); }
};

TEST_CASE("device: the index is written where one was given") {
  CHECK(Device{}.str() == "cpu");
  CHECK(Device{DeviceType::cuda}.str() == "cuda");
  CHECK(Device{DeviceType::cuda, 0}.str() == "cuda:0");
  CHECK(Device{DeviceType::meta, 12}.str() == "meta:12");
  CHECK(cat(Device{DeviceType::xpu, 1}) == "xpu:1");
  CHECK(name(DeviceType::mps) == "mps");
}

TEST_CASE("device: parse is the reverse of str") {
  for (DeviceType type : kTypes)
    for (int index : {-1, 0, 1, 9, 10, 32767}) {
      const Device d{type, static_cast<int16_t>(index)};
      CAPTURE(d.str());
      CHECK(Device::parse(d.str()) == d);
    }
}

TEST_CASE("device: equal by type and index, and no index is another one than 0") {
  CHECK(Device{DeviceType::cuda, 1} == Device{DeviceType::cuda, 1});
  CHECK(Device{DeviceType::cuda, 1} != Device{DeviceType::cuda, 0});
  CHECK(Device{DeviceType::cuda} != Device{DeviceType::cuda, 0});
  CHECK(Device{DeviceType::cpu, 0} != Device{DeviceType::cuda, 0});
}

TEST_CASE("device: an unknown type is an error that lists the known ones") {
  const std::string head =
      "[device] Expected one of cpu, cuda, meta, mps, xpu, other device type at start of device "
      "string: ";
  for (std::string text : {"", "gpu", "CUDA", "gpu:0", ":0", " cpu", "cud"}) CHECK(error_of(text) == head + text);
}

TEST_CASE("device: an index that is no number, negative or too large is an error that shows the text") {
  for (std::string text :
       {"cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cuda: 1", "cuda:1:2", "cuda:+1", "cuda:32768", "cuda:01", "cuda:00"})
    CHECK(error_of(text) == "[device] Invalid device string: '" + text + "'");
}

TEST_CASE("with_index: leaves the device as it is where nobody says what is current") {
  CHECK(with_index({DeviceType::cuda}) == Device{DeviceType::cuda});
  CHECK(with_index({DeviceType::cuda, 2}) == Device{DeviceType::cuda, 2});
}

TEST_CASE("with_index: the current index for a device without one, which may stay open") {
  Current current([](DeviceType t) { return static_cast<int16_t>(t == DeviceType::cuda ? 3 : -1); });
  CHECK(with_index({DeviceType::cuda}) == Device{DeviceType::cuda, 3});
  CHECK(with_index({DeviceType::cuda, 0}) == Device{DeviceType::cuda, 0});
  CHECK(with_index({DeviceType::cpu}) == Device{DeviceType::cpu});
}

}  // namespace
}  // namespace thunder
