// Tensors on the CPU over the device's own view of its memory: what kernels and copies work with.
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

namespace emulated {

// A tensor like `tensor`, over `storage`, without autograd.
at::Tensor on_host(const at::Tensor& tensor, c10::Storage storage);

// The device's own view of a tensor; a tensor of the CPU, over its own storage, otherwise.
at::Tensor opened(const at::Tensor& tensor);

// Write `value`, on the CPU, into a tensor of the device: late, in its current stream.
void write_late(const at::Tensor& tensor, at::Tensor value);

// The device that an argument `device` means.
c10::Device placed(std::optional<c10::Device> device);

// Refuse tensors of more than one device; a number (a tensor of no dimensions) may lie on the CPU.
void check_device(const at::Tensor& tensor, c10::Device device, bool may_be_number);

} // namespace emulated
