#include "runtime/own_streams.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <map>
#include <mutex>

namespace thunder {
namespace {

constexpr int64_t kPlaces = 32;  // of a pool
constexpr int kPlaceBit = 5;     // of a stream's id, from which on its place stands

class StreamPool {
 public:
  c10::Stream take(c10::Device device) {
    const std::lock_guard lock(mutex_);
    const c10::Stream stream = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
    const int64_t place = stream.id() >> kPlaceBit;
    others_ = others_ || place != next_;
    next_ = (place + 1) % kPlaces;
    return stream;
  }
  bool others_took(c10::Device device) {
    take(device);
    const std::lock_guard lock(mutex_);
    return others_;
  }

 private:
  std::mutex mutex_;
  int64_t next_ = 0;
  bool others_ = false;
};

StreamPool& pool_of(c10::Device& device) {
  if (!device.has_index()) device = c10::impl::VirtualGuardImpl(device.type()).getDevice();
  static std::mutex mutex;
  static auto* pools = new std::map<c10::DeviceIndex, StreamPool>;  // threads may outlive static objects
  const std::lock_guard lock(mutex);
  return (*pools)[device.index()];
}

}  // namespace

c10::Stream take_stream(c10::Device device) { return pool_of(device).take(device); }

bool others_took_streams(c10::Device device) { return pool_of(device).others_took(device); }

}  // namespace thunder
