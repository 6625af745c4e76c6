// Device memory: the host sees addresses that it may not touch; the device reaches the same bytes elsewhere.
#pragma once

#include <memory>

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Storage.h>

namespace emulated {

// One allocation, mapped twice: `address` is what tensors hold and faults when touched, `bytes` is the device's own view.
struct Block {
  Block(size_t size, c10::DeviceIndex device);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  size_t size;
  c10::DeviceIndex device;
  char* address;
  char* bytes;
};

// The block that holds an address of the device; null for a null pointer.
std::shared_ptr<Block> find_block(const void* address);

// Storage on the CPU over the device's own view of a storage. It keeps the memory alive.
c10::Storage open(const c10::Storage& storage);

void resize_storage(c10::StorageImpl& storage, size_t size);

c10::DeviceAllocator& device_allocator();
c10::Allocator& pinned_allocator();
bool is_pinned(const void* address);

// Whether this process was forked from one that had used the device, which leaves the device unusable here.
bool in_bad_fork();

} // namespace emulated
