#include "runtime/host_memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <pthread.h>

#include <cstdlib>
#include <cstring>
#include <string_view>

namespace thunder {
namespace {

constexpr size_t kLeastBytes = 32 << 10;  // smaller ones the C library keeps well enough

thread_local int depth = 0;  // of scopes

class HostAllocator final : public c10::Allocator {
 public:
  explicit HostAllocator(c10::Allocator& below) : below_(below) {}

  c10::DataPtr allocate(size_t bytes) override {
    if (depth == 0 || bytes < kLeastBytes) return below_.allocate(bytes);
    void* data = host_cache().take(bytes);
    // PyTorch's profiler, if it records memory, sees tensors come and go, not blocks.
    c10::profiledCPUMemoryReporter().New(data, bytes);
    return {data, data, &give_back, c10::Device(c10::DeviceType::CPU)};
  }
  // That of all memory but the cache's; given the cache's, it frees it, which the cache finds out.
  c10::DeleterFnPtr raw_deleter() const override { return below_.raw_deleter(); }
  void copy_data(void* to, const void* from, size_t bytes) const override { std::memcpy(to, from, bytes); }

  BlockCache::Memory fresh(size_t bytes) {
    c10::DataPtr memory = below_.allocate(bytes);
    void* data = memory.get();
    c10::profiledCPUMemoryReporter().Delete(data);  // a block as yet, no tensor
    return {data, memory.move_context()};
  }

  static void give_back(void* data) {
    c10::profiledCPUMemoryReporter().Delete(data);
    host_cache().give_back(data);
  }

 private:
  c10::Allocator& below_;
};

// Null if the environment says so.  Never destroyed: tensors outlive the library.
HostAllocator* allocator() {
  static HostAllocator* const made = []() -> HostAllocator* {
    const char* text = std::getenv("THUNDER_HOST_CACHE");
    if (text && std::string_view(text) == "0") return nullptr;
    auto* a = new HostAllocator(*c10::GetCPUAllocator());
    c10::SetCPUAllocator(a);
    // A child needs nothing of what is kept, and while it has it each page that the parent writes to is copied.
    pthread_atfork([] { host_cache().lock(); }, [] { host_cache().unlock(); },
                   [] {
                     host_cache().unlock();
                     host_cache().clear();
                   });
    return a;
  }();
  return made;
}

}  // namespace

BlockCache& host_cache() {
  static auto* const cache = new BlockCache([](size_t bytes) { return allocator()->fresh(bytes); });
  return *cache;
}

bool is_own_host_memory(const c10::DataPtr& memory) {
  const c10::DeleterFnPtr deleter = memory.get_deleter();
  return memory.get() == memory.get_context() &&
         (deleter == &HostAllocator::give_back || deleter == c10::GetCPUAllocator()->raw_deleter());
}

HostMemoryScope::HostMemoryScope() : active_(allocator() != nullptr) {
  if (!active_) return;
  ++depth;
  host_cache().begin_run();
}

HostMemoryScope::~HostMemoryScope() {
  if (active_) --depth;
}

}  // namespace thunder
