// Streams that are late on purpose: what is put into one happens when somebody waits for it, and not before.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>

#include <c10/core/Stream.h>

namespace emulated {

constexpr c10::DeviceIndex kMostDevices = 16;

class Queue {
 public:
  // Add a task, and return its number: tasks are counted from 1.
  uint64_t push(std::function<void()> task);

  uint64_t pushed();
  bool done(uint64_t number);

  // Run the tasks up to this number, in the calling thread or beside another one that is at it.
  // Throws what a task threw, now and at every later call: a device that failed stays failed.
  void run(uint64_t number);
  void run() {
    run(pushed());
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  uint64_t finished_ = 0;
  bool running_ = false;
};

c10::DeviceIndex device_count();
void set_device_count(c10::DeviceIndex count);
c10::DeviceIndex current_device();
void set_current_device(c10::DeviceIndex device);

c10::Stream current_stream(c10::DeviceIndex device);
c10::Stream new_stream(c10::DeviceIndex device);
void set_current_stream(c10::Stream stream);

Queue& queue_of(c10::Stream stream);
Queue& current_queue(c10::DeviceIndex device);
void synchronize(c10::DeviceIndex device);

} // namespace emulated
