// What PyTorch asks of an accelerator: a device guard with streams and events, generators, pinned memory.
#include <atomic>
#include <chrono>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "device.h"
#include "memory.h"
#include "stream.h"

namespace emulated {
namespace {

constexpr auto kDevice = c10::DeviceType::PrivateUse1;

struct Event {
  Queue* queue;
  uint64_t number; // of the last task before it
  std::shared_ptr<std::atomic<int64_t>> nanoseconds; // when it was reached
};

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override {
    return kDevice;
  }
  c10::Device exchangeDevice(c10::Device device) const override {
    const auto old = getDevice();
    set_current_device(device.index());
    return old;
  }
  c10::Device getDevice() const override {
    return {kDevice, current_device()};
  }
  void setDevice(c10::Device device) const override {
    set_current_device(device.index());
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    set_current_device(device.index()); // which was the current one before
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    return device_count();
  }

  c10::Stream getStream(c10::Device device) const override {
    return current_stream(index_of(device));
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, c10::Device(kDevice, index_of(device)));
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return new_stream(index_of(device));
  }
  c10::Stream getNewStream(c10::Device device, int) const override {
    return new_stream(index_of(device));
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const auto old = current_stream(stream.device_index());
    set_current_stream(stream);
    return old;
  }
  bool queryStream(const c10::Stream& stream) const override {
    auto& queue = queue_of(stream);
    return asked(queue, queue.pushed());
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    queue_of(stream).run();
  }
  void synchronizeDevice(const c10::DeviceIndex device) const override {
    synchronize(device);
  }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex, const c10::EventFlag) const override {
    if (!*event) {
      *event = new Event();
    }
    auto& recorded = *static_cast<Event*>(*event);
    recorded.queue = &queue_of(stream);
    recorded.nanoseconds = std::make_shared<std::atomic<int64_t>>();
    recorded.number = recorded.queue->push([reached = recorded.nanoseconds] {
      *reached = std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
    });
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (const auto* awaited = static_cast<Event*>(event)) {
      queue_of(stream).push([queue = awaited->queue, number = awaited->number] { queue->run(number); });
    }
  }
  bool queryEvent(void* event) const override {
    const auto* asked_for = static_cast<Event*>(event);
    return !asked_for || asked(*asked_for->queue, asked_for->number);
  }
  void synchronizeEvent(void* event) const override {
    if (const auto* awaited = static_cast<Event*>(event)) {
      awaited->queue->run(awaited->number);
    }
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<Event*>(event);
  }
  double elapsedTime(void* start, void* end, const c10::DeviceIndex) const override {
    synchronizeEvent(start);
    synchronizeEvent(end);
    const auto* from = static_cast<Event*>(start);
    const auto* to = static_cast<Event*>(end);
    return static_cast<double>(*to->nanoseconds - *from->nanoseconds) / 1e6;
  }

 private:
  static c10::DeviceIndex index_of(c10::Device device) {
    return device.has_index() ? device.index() : current_device();
  }
  // Asking makes the work go on, so that a loop that asks comes to an end.
  static bool asked(Queue& queue, uint64_t number) {
    const bool done = queue.done(number);
    queue.run(number);
    return done;
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

// The numbers are those of the CPU's generator, in a sequence of its own.
struct Random final : c10::GeneratorImpl {
  explicit Random(c10::DeviceIndex device, at::Generator numbers = at::detail::createCPUGenerator())
      : GeneratorImpl(c10::Device(kDevice, device), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
        numbers(std::move(numbers)) {}
  void set_current_seed(uint64_t seed) override {
    numbers.set_current_seed(seed);
  }
  void set_offset(uint64_t offset) override {
    numbers.set_offset(offset);
  }
  uint64_t get_offset() const override {
    return numbers.get_offset();
  }
  uint64_t current_seed() const override {
    return numbers.current_seed();
  }
  uint64_t seed() override {
    return numbers.seed();
  }
  void set_state(const c10::TensorImpl& state) override {
    numbers.unsafeGetGeneratorImpl()->set_state(state);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    return numbers.unsafeGetGeneratorImpl()->get_state();
  }
  Random* clone_impl() const override {
    return new Random(device().index(), numbers.clone());
  }

  at::Generator numbers;
};

struct Hooks final : at::PrivateUse1HooksInterface {
  void init() const override {}
  bool isBuilt() const override {
    return true;
  }
  bool isAvailable() const override {
    return true;
  }
  bool hasPrimaryContext(c10::DeviceIndex) const override {
    return true;
  }
  c10::DeviceIndex deviceCount() const override {
    return device_count();
  }
  void setCurrentDevice(c10::DeviceIndex device) const override {
    set_current_device(device);
  }
  c10::DeviceIndex getCurrentDevice() const override {
    return current_device();
  }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    const auto old = current_device();
    set_current_device(device);
    return old;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override {
    return exchangeDevice(device);
  }
  c10::Device getDeviceFromPtr(void* address) const override {
    return {kDevice, find_block(address)->device};
  }
  bool isPinnedPtr(const void* address) const override {
    return is_pinned(address);
  }
  c10::Allocator* getPinnedMemoryAllocator() const override {
    return &pinned_allocator();
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex device) const override {
    return default_generator(device < 0 ? current_device() : device);
  }
  at::Generator getNewGenerator(c10::DeviceIndex device) const override {
    return at::make_generator<Random>(device < 0 ? current_device() : device);
  }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t size) const override {
    resize_storage(*storage.unsafeGetStorageImpl(), size);
  }
};

} // namespace

const at::Generator& default_generator(c10::DeviceIndex device) {
  static const auto generators = [] {
    std::vector<at::Generator> made;
    for (c10::DeviceIndex index = 0; index < kMostDevices; ++index) {
      made.push_back(at::make_generator<Random>(index));
    }
    return made;
  }();
  return generators.at(device);
}

at::Generator numbers_of(const at::Generator& generator) {
  return static_cast<Random*>(generator.unsafeGetGeneratorImpl())->numbers;
}

void register_device() {
  static Hooks hooks;
  at::RegisterPrivateUse1HooksInterface(&hooks);
  c10::SetAllocator(kDevice, &device_allocator());
}

} // namespace emulated
