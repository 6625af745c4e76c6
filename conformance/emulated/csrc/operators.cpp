// Operators of the device's own: memory, views and copies.
#include <ATen/EmptyTensor.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <optional>

#include "memory.h"
#include "stream.h"
#include "tensors.h"

namespace emulated {

at::Tensor on_host(const at::Tensor& tensor, c10::Storage storage) {
  auto host = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
  host.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  host._set_conj(tensor.is_conj());
  host._set_neg(tensor.is_neg());
  return host;
}

at::Tensor opened(const at::Tensor& tensor) {
  return on_host(tensor, tensor.is_cpu() ? tensor.storage() : open(tensor.storage()));
}

void write_late(const at::Tensor& tensor, at::Tensor value) {
  current_queue(tensor.device().index()).push([to = opened(tensor), value = std::move(value)] { to.copy_(value); });
}

void check_device(const at::Tensor& tensor, c10::Device device, bool may_be_number) {
  const bool number = may_be_number && tensor.is_cpu() && tensor.dim() == 0;
  TORCH_CHECK(
      tensor.device() == device || number,
      "Expected all tensors to be on the same device, but found at least two devices, ", device, " and ", tensor.device(), "!");
}

c10::Device placed(std::optional<c10::Device> device) {
  return {c10::DeviceType::PrivateUse1, device && device->has_index() ? device->index() : current_device()};
}

namespace {

at::Tensor empty(
    at::IntArrayRef size, std::optional<c10::ScalarType> dtype, std::optional<c10::Layout>, std::optional<c10::Device> device,
    std::optional<bool> pin_memory, std::optional<c10::MemoryFormat> memory_format) {
  TORCH_CHECK(!pin_memory.value_or(false), "Only dense CPU tensors can be pinned");
  const c10::DeviceGuard guard(placed(device));
  return at::detail::empty_generic(
      size, &device_allocator(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), c10::dtype_or_default(dtype), memory_format);
}

at::Tensor empty_strided(
    at::IntArrayRef size, at::IntArrayRef stride, std::optional<c10::ScalarType> dtype, std::optional<c10::Layout>,
    std::optional<c10::Device> device, std::optional<bool> pin_memory) {
  TORCH_CHECK(!pin_memory.value_or(false), "Only dense CPU tensors can be pinned");
  const c10::DeviceGuard guard(placed(device));
  return at::detail::empty_strided_generic(
      size, stride, &device_allocator(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), c10::dtype_or_default(dtype));
}

const at::Tensor& resize_(const at::Tensor& self, at::IntArrayRef size, std::optional<c10::MemoryFormat> memory_format) {
  auto* tensor = self.unsafeGetTensorImpl();
  tensor->set_sizes_contiguous(size);
  if (memory_format) {
    tensor->empty_tensor_restride(*memory_format);
  }
  const auto needed = at::detail::computeStorageNbytes(
      tensor->sizes(), tensor->strides(), tensor->dtype().itemsize(), tensor->storage_offset());
  if (self.storage().nbytes() < needed) {
    const c10::DeviceGuard guard(self.device());
    resize_storage(*self.storage().unsafeGetStorageImpl(), needed);
  }
  return self;
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source, int64_t offset, at::IntArrayRef size, at::IntArrayRef stride) {
  const auto needed = stride.empty() ? at::detail::computeStorageNbytesContiguous(size, self.dtype().itemsize(), offset)
                                     : at::detail::computeStorageNbytes(size, stride, self.dtype().itemsize(), offset);
  if (source.nbytes() < needed) {
    const c10::DeviceGuard guard(source.device());
    resize_storage(*source.unsafeGetStorageImpl(), needed);
  }
  return at::native::set_storage_cpu_(self, std::move(source), offset, size, stride);
}

at::Tensor& set_nothing(at::Tensor& self) {
  const c10::DeviceGuard guard(self.device());
  c10::Storage nothing(c10::Storage::use_byte_size_t(), 0, &device_allocator(), true);
  return set_storage(self, std::move(nothing), 0, {0}, {});
}

// One stream waits for what another has been given so far.
void wait_for(Queue& waiting, Queue& awaited) {
  if (&waiting != &awaited) {
    waiting.push([&awaited, number = awaited.pushed()] { awaited.run(number); });
  }
}

at::Tensor copy_from(const at::Tensor& source, const at::Tensor& target, bool non_blocking) {
  if (source.is_privateuseone() && target.is_privateuseone()) {
    auto& sending = current_queue(source.device().index());
    auto& receiving = current_queue(target.device().index());
    wait_for(sending, receiving);
    sending.push([from = opened(source), to = opened(target)] { to.copy_(from); });
    wait_for(receiving, sending);
    return target;
  }
  auto& queue = current_queue((source.is_cpu() ? target : source).device().index());
  const auto& host = source.is_cpu() ? source : target;
  if (non_blocking && is_pinned(host.storage().data())) {
    queue.push([from = opened(source), to = opened(target)] { to.copy_(from); });
  } else if (source.is_cpu()) {
    auto staged = at::empty_like(source);
    staged.copy_(source);
    queue.push([from = std::move(staged), to = opened(target)] { to.copy_(from); });
    if (!non_blocking) {
      queue.run();
    }
  } else {
    queue.run();
    opened(target).copy_(opened(source));
  }
  return target;
}

at::Tensor copy_from_and_resize(const at::Tensor& source, const at::Tensor& target) {
  target.resize_(source.sizes());
  return copy_from(source, target, false);
}

void record_stream(at::Tensor&, c10::Stream) {} // whoever uses memory keeps it alive

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", &empty);
  library.impl("empty_strided", &empty_strided);
  library.impl("resize_", &resize_);
  library.impl("set_.source_Storage_storage_offset", &set_storage);
  library.impl("set_.source_Storage", static_cast<at::Tensor& (*)(at::Tensor&, at::Storage)>(&at::native::set_));
  library.impl("set_.source_Tensor", &at::native::set_tensor_);
  library.impl("set_", &set_nothing);
  library.impl("_copy_from", &copy_from);
  library.impl("_copy_from_and_resize", &copy_from_and_resize);
  library.impl("record_stream", &record_stream);
  // A view that goes by the CPU would be a copy.
  library.impl("as_strided", &at::native::as_strided_tensorimpl);
  library.impl("view", &at::native::view);
  library.impl("_reshape_alias", &at::native::_reshape_alias);
  library.impl("unfold", &at::native::unfold);
  library.impl("view_as_real", &at::native::view_as_real);
  library.impl("view_as_complex", &at::native::view_as_complex);
}

// A copy resolves conjugates and negatives itself.
TORCH_LIBRARY_IMPL(aten, Conjugate, library) {
  library.impl("_copy_from", torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, Negative, library) {
  library.impl("_copy_from", torch::CppFunction::makeFallthrough());
}

} // namespace emulated
