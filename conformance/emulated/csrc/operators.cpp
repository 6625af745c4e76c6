// Operators: kernels of the CPU on the device's memory. Results exist at once, and are written late.
#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_copy_from_native.h>
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

#include <map>
#include <optional>

#include "device.h"
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

namespace {

c10::Device placed(std::optional<c10::Device> device) {
  return {c10::DeviceType::PrivateUse1, device && device->has_index() ? device->index() : current_device()};
}

// The arguments of one operator, as the CPU's kernel gets them.
class Arguments {
 public:
  Arguments(const c10::FunctionSchema& schema, torch::jit::Stack& stack) {
    const auto& expected = schema.arguments();
    const auto given = torch::jit::last(stack, expected.size());
    originals_.assign(given.begin(), given.end());
    for (size_t i = 0; i < expected.size(); ++i) {
      const bool written = expected[i].alias_info() && expected[i].alias_info()->isWrite();
      each_tensor(originals_[i], [&](const at::Tensor& tensor) { note(tensor, written); });
    }
    for (const auto& original : originals_) {
      if (!device_ && original.isDevice()) {
        device_ = placed(original.toDevice());
      }
    }
    device_ = placed(device_);
    for (size_t i = 0; i < expected.size(); ++i) {
      const bool written = expected[i].alias_info() && expected[i].alias_info()->isWrite();
      const bool indices = originals_[i].isOptionalTensorList(); // these alone may lie on the CPU
      each_tensor(originals_[i], [&](const at::Tensor& tensor) {
        if (!indices || !tensor.is_cpu()) {
          check_device(tensor, *device_, !written);
        }
      });
    }
  }

  c10::Device device() const {
    return *device_;
  }

  const at::Generator* generator() const {
    for (const auto& original : originals_) {
      if (original.isGenerator()) {
        generator_ = original.toGenerator();
        TORCH_CHECK(
            generator_.device().type() == device_->type(),
            "Expected a '", c10::DeviceTypeName(device_->type(), true), "' device type for generator but found '",
            generator_.device().type(), "'");
        return &generator_;
      }
    }
    return nullptr;
  }

  // Put tensors on the CPU in the place of the device's.
  void open(torch::jit::Stack& stack) {
    const size_t first = stack.size() - originals_.size();
    for (size_t i = 0; i < originals_.size(); ++i) {
      auto& argument = stack[first + i];
      const auto& original = originals_[i];
      if (original.isTensor()) {
        argument = host(original.toTensor());
      } else if (original.isTensorList()) {
        c10::List<at::Tensor> hosts;
        for (const at::Tensor& tensor : original.toTensorList()) {
          hosts.push_back(host(tensor));
        }
        argument = std::move(hosts);
      } else if (original.isOptionalTensorList()) {
        c10::List<std::optional<at::Tensor>> hosts;
        for (const std::optional<at::Tensor>& tensor : original.toOptionalTensorList()) {
          hosts.push_back(tensor ? std::make_optional(host(*tensor)) : std::nullopt);
        }
        argument = std::move(hosts);
      } else if (original.isDevice()) {
        argument = c10::Device(c10::DeviceType::CPU);
      }
    }
  }

  // Write back what the kernel has written.
  void write_back() {
    for (auto& [tensor, host] : written_) {
      if (tensor.sizes() != host.sizes() || tensor.strides() != host.strides()) {
        tensor.resize_(host.sizes());
        tensor.unsafeGetTensorImpl()->set_sizes_and_strides(host.sizes(), host.strides());
      }
      write_late(tensor, host);
    }
  }

  const c10::IValue& original(size_t i) const {
    return originals_[i];
  }

  // Whether a result lies in the memory of an argument.
  bool hold(const at::Tensor& result) const {
    for (const auto& [_, storage] : storages_) {
      if (storage.unsafeGetStorageImpl() == result.storage().unsafeGetStorageImpl()) {
        return true;
      }
    }
    return false;
  }

 private:
  template <typename See>
  static void each_tensor(const c10::IValue& value, const See& see) {
    if (value.isTensor() && value.toTensor().defined()) {
      see(value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorList()) {
        see(tensor);
      }
    } else if (value.isOptionalTensorList()) {
      for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorList()) {
        if (tensor && tensor->defined()) {
          see(*tensor);
        }
      }
    }
  }

  void note(const at::Tensor& tensor, bool written) {
    if (tensor.is_privateuseone()) {
      device_ = device_ ? device_ : tensor.device();
      auto& changes = changes_[tensor.storage().unsafeGetStorageImpl()];
      changes = changes || written;
      if (written) {
        outputs_.push_back(tensor.unsafeGetTensorImpl());
      }
    }
  }

  // Kernels work on a copy of what they change, so that the change can be late.
  c10::Storage host_storage(const c10::Storage& storage) {
    auto* key = storage.unsafeGetStorageImpl();
    auto found = storages_.find(key);
    if (found == storages_.end()) {
      auto host = emulated::open(storage);
      if (changes_[key]) {
        auto* allocator = c10::GetAllocator(c10::DeviceType::CPU);
        c10::Storage copy(c10::Storage::use_byte_size_t(), host.nbytes(), allocator, true);
        if (host.nbytes()) {
          std::memcpy(copy.mutable_data(), host.data(), host.nbytes());
        }
        host = std::move(copy);
      }
      found = storages_.emplace(key, std::move(host)).first;
    }
    return found->second;
  }

  at::Tensor host(const at::Tensor& tensor) {
    if (!tensor.defined() || tensor.is_cpu()) {
      return tensor;
    }
    auto made = on_host(tensor, host_storage(tensor.storage()));
    if (std::find(outputs_.begin(), outputs_.end(), tensor.unsafeGetTensorImpl()) != outputs_.end()) {
      written_.emplace_back(tensor, made);
    }
    return made;
  }

  std::vector<c10::IValue> originals_;
  std::optional<c10::Device> device_;
  mutable at::Generator generator_;
  std::map<c10::StorageImpl*, bool> changes_; // whether the operator writes there
  std::map<c10::StorageImpl*, c10::Storage> storages_;
  std::vector<c10::TensorImpl*> outputs_;
  std::vector<std::pair<at::Tensor, at::Tensor>> written_;
};

// While a random operator runs, the CPU's default generator goes on where the device's has stopped.
class Borrowed {
 public:
  explicit Borrowed(const at::Generator& lender) : lender_(numbers_of(lender)), cpu_(at::detail::getDefaultCPUGenerator()) {
    own_ = cpu_.get_state();
    cpu_.set_state(lender_.get_state());
  }
  ~Borrowed() {
    lender_.set_state(cpu_.get_state());
    cpu_.set_state(own_);
  }

 private:
  at::Generator lender_;
  at::Generator cpu_;
  at::Tensor own_;
};

at::Tensor moved(at::Tensor result, const Arguments& arguments) {
  if (!result.defined()) {
    return result;
  }
  TORCH_CHECK_NOT_IMPLEMENTED(
      result.layout() == c10::kStrided, "the emulated device has no ", result.layout(), " tensors");
  if (arguments.hold(result)) {
    result = result.clone();
  }
  result = result.resolve_conj().resolve_neg();
  auto tensor = at::empty_strided(result.sizes(), result.strides(), result.options().device(arguments.device()));
  write_late(tensor, std::move(result));
  return tensor;
}

c10::IValue moved(const c10::IValue& result, const c10::Argument& expected, const c10::FunctionSchema& schema, const Arguments& arguments) {
  if (const auto* alias = expected.alias_info()) {
    TORCH_CHECK_NOT_IMPLEMENTED(alias->isWrite(), schema.operator_name(), " is a view that the emulated device lacks");
    for (size_t i = 0; i < schema.arguments().size(); ++i) {
      const auto* of_argument = schema.arguments()[i].alias_info();
      if (of_argument && of_argument->isWrite() && of_argument->beforeSets() == alias->beforeSets()) {
        return arguments.original(i);
      }
    }
  }
  if (result.isTensor()) {
    return moved(result.toTensor(), arguments);
  }
  if (result.isTensorList()) {
    c10::List<at::Tensor> tensors;
    for (const at::Tensor& each : result.toTensorList()) {
      tensors.push_back(moved(each, arguments));
    }
    return tensors;
  }
  return result;
}

void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  Arguments arguments(schema, *stack);
  const c10::DeviceGuard guard(arguments.device());
  current_queue(arguments.device().index()).run(); // what this stream has written; of other streams nobody knows
  arguments.open(*stack);

  std::optional<Borrowed> numbers;
  const auto* generator = arguments.generator();
  if (generator || op.hasTag(at::Tag::nondeterministic_seeded)) {
    numbers.emplace(generator ? *generator : default_generator(arguments.device().index()));
    for (auto& argument : torch::jit::last(*stack, schema.arguments().size())) {
      if (argument.isGenerator()) {
        const_cast<c10::IValue&>(argument) = c10::IValue();
      }
    }
  }
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  numbers.reset();

  arguments.write_back();
  const size_t first = stack->size() - schema.returns().size();
  for (size_t i = 0; i < schema.returns().size(); ++i) {
    (*stack)[first + i] = moved((*stack)[first + i], schema.returns()[i], schema, arguments);
  }
}

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

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>());
}

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
