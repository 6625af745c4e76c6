// Every other operator: the kernel of the CPU, on the device's memory. Results exist at once, and are written late.
#include <algorithm>
#include <cstring>
#include <map>

#include <ATen/ops/empty_strided.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include "device.h"
#include "memory.h"
#include "stream.h"
#include "tensors.h"

namespace emulated {
namespace {

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() && argument.alias_info()->isWrite();
}

// The arguments of one operator, as the CPU's kernel gets them.
class Arguments {
 public:
  Arguments(const c10::FunctionSchema& schema, torch::jit::Stack& stack) {
    const auto& expected = schema.arguments();
    const auto given = torch::jit::last(stack, expected.size());
    originals_.assign(given.begin(), given.end());
    std::optional<c10::Device> named;
    for (size_t i = 0; i < expected.size(); ++i) {
      each_tensor(originals_[i], [&](const at::Tensor& tensor) { note(tensor, is_written(expected[i])); });
      if (originals_[i].isDevice()) {
        named = originals_[i].toDevice();
      }
    }
    device_ = device_ ? device_ : placed(named);
    for (size_t i = 0; i < expected.size(); ++i) {
      const bool indices = originals_[i].isOptionalTensorList(); // these alone may lie on the CPU
      each_tensor(originals_[i], [&](const at::Tensor& tensor) {
        if (!indices || !tensor.is_cpu()) {
          check_device(tensor, *device_, !is_written(expected[i]));
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
      const auto& argument = schema.arguments()[i];
      if (is_written(argument) && argument.alias_info()->beforeSets() == alias->beforeSets()) {
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

void call(const char* name, torch::jit::Stack* stack) {
  c10::Dispatcher::singleton().findSchemaOrThrow(name, "").redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
}

// Call the CPU's kernel; convolutions have a name of their own on devices that are not PyTorch's.
void call_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& name = op.schema().name();
  if (name == "aten::convolution_overrideable") {
    call("aten::convolution", stack);
  } else if (name == "aten::convolution_backward_overrideable") {
    const auto arguments = stack->end() - static_cast<int64_t>(op.schema().arguments().size());
    const std::vector<int64_t> bias_sizes{arguments->toTensor().size(1)};
    stack->insert(arguments + 3, bias_sizes);
    call("aten::convolution_backward", stack);
  } else {
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  }
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
  call_on_cpu(op, stack);
  numbers.reset();

  arguments.write_back();
  const size_t first = stack->size() - schema.returns().size();
  for (size_t i = 0; i < schema.returns().size(); ++i) {
    (*stack)[first + i] = moved((*stack)[first + i], schema.returns()[i], schema, arguments);
  }
}

} // namespace

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>());
}

// For these PyTorch has kernels that only say that there is none.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("convolution_overrideable", torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>());
  library.impl("convolution_backward_overrideable", torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>());
}

} // namespace emulated
