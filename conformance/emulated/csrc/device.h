// What registers the device with PyTorch, and its generators.
#pragma once

#include <ATen/core/Generator.h>

namespace emulated {

void register_device();

const at::Generator& default_generator(c10::DeviceIndex device);

// The generator on the CPU that makes the numbers of one of the device.
at::Generator numbers_of(const at::Generator& generator);

} // namespace emulated
