#include "memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>

#include <c10/core/CPUAllocator.h>

#include "stream.h"

namespace emulated {
namespace {

// What nobody has written reads as NaN, and as -1 in integers.
constexpr int kUnwritten = 0xFF;

// Never destroyed: tensors may outlive what static objects do at the end of a process.
std::mutex mutex;
auto& blocks = *new std::map<uintptr_t, std::shared_ptr<Block>>; // by address
auto& pinned = *new std::map<uintptr_t, size_t>; // sizes by address
c10::CachingDeviceAllocator::DeviceStats stats[kMostDevices];
std::atomic<pid_t> user{0}; // the process that first used the device

size_t whole_pages(size_t size) {
  const size_t page = sysconf(_SC_PAGESIZE);
  return (size + page - 1) / page * page;
}

// The entry that holds `address` in a map by start, or its end.
template <typename Entries, typename Size>
auto holding(Entries& entries, const void* address, Size size) {
  const auto place = reinterpret_cast<uintptr_t>(address);
  auto next = entries.upper_bound(place);
  if (next == entries.begin()) {
    return entries.end();
  }
  --next;
  return place < next->first + size(next->second) ? next : entries.end();
}

void count(c10::DeviceIndex device, int64_t size) {
  const auto all = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  auto& of_device = stats[device];
  for (auto* bytes : {&of_device.allocated_bytes, &of_device.active_bytes, &of_device.reserved_bytes, &of_device.requested_bytes}) {
    size > 0 ? (*bytes)[all].increase(size) : (*bytes)[all].decrease(-size);
  }
}

void release(void* address) {
  std::shared_ptr<Block> last; // unmapped after the lock is gone
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = blocks.find(reinterpret_cast<uintptr_t>(address));
  last = found->second;
  blocks.erase(found);
  count(last->device, -static_cast<int64_t>(last->size));
}

void release_pinned(void* address) {
  {
    const std::lock_guard<std::mutex> lock(mutex);
    pinned.erase(reinterpret_cast<uintptr_t>(address));
  }
  std::free(address);
}

struct DeviceMemory final : c10::DeviceAllocator {
  c10::DataPtr allocate(size_t size) override {
    TORCH_CHECK(!in_bad_fork(), "the emulated device cannot be used in a process forked from one that has used it");
    user = getpid();
    const c10::Device device(c10::DeviceType::PrivateUse1, current_device());
    if (size == 0) {
      return {nullptr, device};
    }
    auto block = std::make_shared<Block>(size, device.index());
    const std::lock_guard<std::mutex> lock(mutex);
    count(device.index(), static_cast<int64_t>(size));
    blocks[reinterpret_cast<uintptr_t>(block->address)] = block;
    return {block->address, block->address, &release, device};
  }
  void copy_data(void* to, const void* from, std::size_t size) const override {
    current_queue(find_block(from)->device).run();
    std::memcpy(find_block(to)->bytes, find_block(from)->bytes, size);
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return &release;
  }
  bool initialized() override {
    return true;
  }
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    const std::lock_guard<std::mutex> lock(mutex);
    return stats[device];
  }
  void resetAccumulatedStats(c10::DeviceIndex device) override {
    reset(device, &c10::CachingAllocator::Stat::reset_accumulated);
  }
  void resetPeakStats(c10::DeviceIndex device) override {
    reset(device, &c10::CachingAllocator::Stat::reset_peak);
  }

 private:
  void reset(c10::DeviceIndex device, void (c10::CachingAllocator::Stat::*how)()) {
    const std::lock_guard<std::mutex> lock(mutex);
    auto& all = stats[device];
    for (auto* bytes : {&all.allocated_bytes, &all.active_bytes, &all.reserved_bytes, &all.requested_bytes}) {
      for (auto& stat : *bytes) {
        (stat.*how)();
      }
    }
  }
};

struct PinnedMemory final : c10::Allocator {
  c10::DataPtr allocate(size_t size) override {
    void* address = size ? std::aligned_alloc(64, (size + 63) / 64 * 64) : nullptr;
    if (address) {
      std::memset(address, kUnwritten, size);
      const std::lock_guard<std::mutex> lock(mutex);
      pinned[reinterpret_cast<uintptr_t>(address)] = size;
    }
    return {address, address, &release_pinned, c10::DeviceType::CPU};
  }
  void copy_data(void* to, const void* from, std::size_t size) const override {
    std::memcpy(to, from, size);
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return &release_pinned;
  }
};

} // namespace

Block::Block(size_t size, c10::DeviceIndex device) : size(size), device(device) {
  const size_t length = whole_pages(size);
  void* own = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  void* second = own == MAP_FAILED ? own : mremap(own, 0, length, MREMAP_MAYMOVE); // of size 0: the same pages once more
  TORCH_CHECK(second != MAP_FAILED, "the emulated device is out of memory: no ", size, " bytes could be mapped");
  mprotect(second, length, PROT_NONE);
  bytes = static_cast<char*>(own);
  address = static_cast<char*>(second);
  std::memset(bytes, kUnwritten, size);
}

Block::~Block() {
  munmap(bytes, whole_pages(size));
  munmap(address, whole_pages(size));
}

std::shared_ptr<Block> find_block(const void* address) {
  if (!address) {
    return nullptr;
  }
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = holding(blocks, address, [](const auto& block) { return block->size; });
  TORCH_CHECK(found != blocks.end(), "the address ", address, " is not in memory of the emulated device");
  return found->second;
}

c10::Storage open(const c10::Storage& storage) {
  auto* address = static_cast<const char*>(storage.data());
  auto block = find_block(address);
  c10::DataPtr bytes(nullptr, c10::DeviceType::CPU);
  if (block) {
    auto* held = new std::shared_ptr<Block>(block);
    bytes = c10::DataPtr(
        block->bytes + (address - block->address),
        held,
        [](void* context) { delete static_cast<std::shared_ptr<Block>*>(context); },
        c10::DeviceType::CPU);
  }
  return c10::Storage(c10::Storage::use_byte_size_t(), storage.nbytes(), std::move(bytes), nullptr, false);
}

void resize_storage(c10::StorageImpl& storage, size_t size) {
  const auto old = find_block(storage.data());
  auto memory = device_allocator().allocate(size);
  if (old && size) {
    current_queue(old->device).run();
    std::memcpy(find_block(memory.get())->bytes, old->bytes, std::min(size, storage.nbytes()));
  }
  storage.set_data_ptr_noswap(std::move(memory));
  storage.set_nbytes(size);
}

c10::DeviceAllocator& device_allocator() {
  static DeviceMemory memory;
  return memory;
}

c10::Allocator& pinned_allocator() {
  static PinnedMemory memory;
  return memory;
}

bool is_pinned(const void* address) {
  const std::lock_guard<std::mutex> lock(mutex);
  return holding(pinned, address, [](size_t size) { return size; }) != pinned.end();
}

bool in_bad_fork() {
  return user && user != getpid();
}

} // namespace emulated
