#include "stream.h"

#include <array>
#include <atomic>
#include <exception>
#include <memory>
#include <vector>

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace emulated {
namespace {

std::mutex mutex;
std::atomic<c10::DeviceIndex> devices{2};
auto& queues = *new std::array<std::vector<std::unique_ptr<Queue>>, kMostDevices>; // never destroyed: they hold tensors
std::exception_ptr failure; // of the first task that failed

thread_local c10::DeviceIndex device_of_thread = 0;
thread_local std::array<c10::StreamId, kMostDevices> streams_of_thread{};

void run_apart(const std::function<void()>& task) {
  // Whoever happens to wait must not see the operators of a task in their own dispatch modes.
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const c10::impl::ExcludeDispatchKeyGuard unseen(
      c10::DispatchKeySet{c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot});
  try {
    task();
  } catch (...) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (!failure) {
      failure = std::current_exception();
    }
  }
}

void check_failure() {
  const std::lock_guard<std::mutex> lock(mutex);
  if (failure) {
    std::rethrow_exception(failure);
  }
}

} // namespace

uint64_t Queue::push(std::function<void()> task) {
  const std::lock_guard<std::mutex> lock(mutex_);
  tasks_.push_back(std::move(task));
  return finished_ + running_ + tasks_.size();
}

uint64_t Queue::pushed() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return finished_ + running_ + tasks_.size();
}

bool Queue::done(uint64_t number) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return finished_ >= number;
}

void Queue::run(uint64_t number) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (finished_ < number) {
    if (running_) {
      changed_.wait(lock);
      continue;
    }
    auto task = std::move(tasks_.front());
    tasks_.pop_front();
    running_ = true;
    lock.unlock();
    run_apart(task);
    task = nullptr; // what it held is freed before anybody is told
    lock.lock();
    running_ = false;
    ++finished_;
    changed_.notify_all();
  }
  lock.unlock();
  check_failure();
}

c10::DeviceIndex device_count() {
  return devices;
}

void set_device_count(c10::DeviceIndex count) {
  TORCH_CHECK(0 < count && count <= kMostDevices, "there can be 1 to ", int(kMostDevices), " emulated devices, not ", int(count));
  devices = count;
}

c10::DeviceIndex current_device() {
  return device_of_thread;
}

void set_current_device(c10::DeviceIndex device) {
  TORCH_CHECK(
      0 <= device && device < devices, "there is no device emulated:", int(device), ", only ", int(devices), " of them");
  device_of_thread = device;
}

static c10::Stream stream_of(c10::DeviceIndex device, c10::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::DeviceType::PrivateUse1, device), id);
}

c10::Stream current_stream(c10::DeviceIndex device) {
  return stream_of(device, streams_of_thread.at(device));
}

c10::Stream new_stream(c10::DeviceIndex device) {
  const std::lock_guard<std::mutex> lock(mutex);
  auto& of_device = queues.at(device);
  if (of_device.empty()) {
    of_device.push_back(std::make_unique<Queue>()); // the default stream is number 0
  }
  of_device.push_back(std::make_unique<Queue>());
  return stream_of(device, static_cast<c10::StreamId>(of_device.size() - 1));
}

void set_current_stream(c10::Stream stream) {
  streams_of_thread.at(stream.device_index()) = stream.id();
}

Queue& queue_of(c10::Stream stream) {
  const std::lock_guard<std::mutex> lock(mutex);
  auto& of_device = queues.at(stream.device_index());
  if (of_device.empty()) {
    of_device.push_back(std::make_unique<Queue>());
  }
  return *of_device.at(stream.id());
}

Queue& current_queue(c10::DeviceIndex device) {
  return queue_of(current_stream(device));
}

void synchronize(c10::DeviceIndex device) {
  for (size_t id = 0;; ++id) {
    Queue* queue = nullptr;
    {
      const std::lock_guard<std::mutex> lock(mutex);
      if (id >= queues.at(device).size()) {
        break;
      }
      queue = queues[device][id].get();
    }
    queue->run();
  }
  check_failure();
}

} // namespace emulated
