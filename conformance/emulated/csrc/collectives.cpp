#include "collectives.h"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <numeric>

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/view_as_real.h>
#include <c10/core/StreamGuard.h>

#include "memory.h"
#include "tensors.h"

namespace emulated {
namespace {

using c10d::OpType;
using c10d::ReduceOp;
using Tensors = Collectives::Tensors;

void check_dtype(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kByte:
    case at::kChar:
    case at::kInt:
    case at::kLong:
    case at::kHalf:
    case at::kFloat:
    case at::kDouble:
    case at::kBFloat16:
    case at::kBool:
      return;
    default:
      C10_THROW_ERROR(
          TypeError, c10::str("Input tensor data type is not supported for emulated_ccl process group: ", tensor.scalar_type()));
  }
}

// The device of tensors that may go into one collective.
c10::Device checked(const Tensors& tensors) {
  TORCH_CHECK(!tensors.empty(), "emulated_ccl needs at least one tensor");
  for (const auto& tensor : tensors) {
    TORCH_CHECK(
        tensor.is_privateuseone() && tensor.layout() == c10::kStrided, "Tensors must be dense and on the emulated device, not on ",
        tensor.device());
    TORCH_CHECK(tensor.is_non_overlapping_and_dense(), "Tensors must be contiguous");
    TORCH_CHECK(
        tensor.device() == tensors.front().device(), "Tensors of one collective must be on the same device, not on ",
        tensors.front().device(), " and ", tensor.device());
    check_dtype(tensor);
  }
  return tensors.front().device();
}

c10::Device checked(const Tensors& outputs, const Tensors& inputs, size_t size) {
  Tensors all = outputs;
  all.insert(all.end(), inputs.begin(), inputs.end());
  const auto device = checked(all);
  for (const auto& tensor : all) {
    TORCH_CHECK(tensor.scalar_type() == all.front().scalar_type(), "Tensors of one collective must have one dtype");
  }
  TORCH_CHECK(
      outputs.size() == size || inputs.size() == size, "a list of tensors must have one for each of ", size, " ranks");
  return device;
}

const at::Tensor& single(const Tensors& tensors) {
  TORCH_CHECK(tensors.size() == 1, "emulated_ccl takes one tensor a rank, not ", tensors.size());
  return tensors.front();
}

const Tensors& single(const std::vector<Tensors>& lists) {
  TORCH_CHECK(lists.size() == 1, "emulated_ccl takes one list of tensors a rank, not ", lists.size());
  return lists.front();
}

// A complex tensor goes as pairs of reals into what can be done with these.
at::Tensor as_real(const at::Tensor& tensor, const ReduceOp& op = ReduceOp::SUM) {
  TORCH_CHECK(
      !tensor.is_complex() || op == ReduceOp::SUM || op == ReduceOp::AVG, "emulated_ccl can only sum complex tensors");
  return tensor.is_complex() ? at::view_as_real(tensor) : tensor;
}

// What the transport does for `op`, which has no average, and no arithmetic of bools.
ReduceOp transported(const ReduceOp& op, const at::Tensor& tensor) {
  const bool is_bool = tensor.scalar_type() == at::kBool;
  switch (op.op_) {
    case ReduceOp::SUM:
      return is_bool ? ReduceOp::MAX : ReduceOp::SUM;
    case ReduceOp::AVG:
      TORCH_CHECK_TYPE(!is_bool, "Cannot use ReduceOp.AVG with bool inputs");
      return ReduceOp::SUM;
    case ReduceOp::PRODUCT:
      return is_bool ? ReduceOp::MIN : ReduceOp::PRODUCT;
    case ReduceOp::MIN:
    case ReduceOp::MAX:
      return op;
    default:
      C10_THROW_ERROR(ValueError, "Cannot use this ReduceOp with emulated_ccl: it has SUM, AVG, PRODUCT, MIN and MAX");
  }
}

void divide(at::Tensor& sum, int size) {
  if (at::isFloatingType(sum.scalar_type())) {
    sum.div_(size);
  } else {
    sum.floor_divide_(size);
  }
}

// As NCCL's watchdog: a collective that failed ends the process, whatever its host is doing.
void end_process(int rank, OpType kind, const std::string& why) {
  const char* handling = std::getenv("TORCH_NCCL_ASYNC_ERROR_HANDLING");
  if (!handling || std::string(handling) != "0") {
    std::cerr << "[emulated_ccl] rank " << rank << ": " << c10d::opTypeToString(kind) << " failed, which ends the process: " << why
              << std::endl;
    std::abort();
  }
}

bool uneven(const Tensors& tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [&](const auto& each) { return each.sizes() != tensors.front().sizes(); });
}

class LateWork final : public c10d::Work {
 public:
  LateWork(int rank, OpType kind, c10::Stream stream, uint64_t number, Tensors outputs, c10::Device device)
      : Work(rank, kind), stream_(stream), number_(number), outputs_(std::move(outputs)), device_(device) {}

  bool isCompleted() override {
    auto& queue = queue_of(stream_);
    const bool done = queue.done(number_);
    queue.run(number_); // asking makes the work go on
    return done;
  }
  bool isSuccess() const override {
    return queue_of(stream_).done(number_);
  }
  void synchronize() override {
    if (opType_ == OpType::BARRIER) {
      queue_of(stream_).run(number_);
    } else {
      current_queue(device_.index()).push([queue = &queue_of(stream_), number = number_] { queue->run(number); });
    }
  }
  bool wait(std::chrono::milliseconds) override {
    synchronize();
    return true;
  }
  Tensors result() override {
    return outputs_;
  }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    auto future = c10::make_intrusive<c10::ivalue::Future>(
        c10::ListType::create(c10::TensorType::get()), std::vector<c10::Device>{device_});
    const c10::StreamGuard guard(stream_);
    future->markCompleted(c10::IValue(outputs_));
    return future;
  }

 private:
  c10::Stream stream_;
  uint64_t number_;
  Tensors outputs_;
  c10::Device device_;
};

} // namespace

Collectives::Collectives(c10::intrusive_ptr<c10d::Backend> transport, int rank, int size)
    : Backend(rank, size), transport_(std::move(transport)) {}

c10::Stream Collectives::stream_on(c10::Device device) {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto found = streams_.find(device.index());
  if (found == streams_.end()) {
    found = streams_.emplace(device.index(), new_stream(device.index())).first;
  }
  return found->second;
}

Tensors Collectives::staged(const Tensors& tensors) {
  const auto device = tensors.front().device().index();
  auto& queue = queue_of(stream_on(tensors.front().device()));
  uint64_t number = 0; // of the last collective of this group that writes to one of them
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    pending_.remove_if([&](const Pending& pending) { return queue.done(pending.number); });
    for (const auto& pending : pending_) {
      for (const auto& tensor : tensors) {
        number = tensor.storage().unsafeGetStorageImpl() == pending.written ? pending.number : number;
      }
    }
  }
  queue.run(number);
  current_queue(device).run();
  Tensors copies;
  for (const auto& tensor : tensors) {
    auto copy = at::empty_like(opened(tensor), at::MemoryFormat::Preserve);
    copies.push_back(copy.copy_(opened(tensor)));
  }
  return copies;
}

Collectives::Work Collectives::late(
    OpType kind, Work sent, Tensors outputs, Tensors values, c10::Device device, std::function<void(Tensors&)> finish) {
  const auto rank = rank_;
  if (auto future = kind == OpType::SEND || kind == OpType::RECV ? nullptr : sent->getFuture()) {
    future->addCallback([=, ended = ended_](c10::ivalue::Future& done) {
      if (done.hasError() && !*ended) {
        end_process(rank, kind, done.tryRetrieveErrorMessage());
      }
    });
  }
  Tensors targets;
  for (const auto& output : outputs) {
    targets.push_back(opened(output));
  }
  const auto stream = stream_on(device);
  const auto number = queue_of(stream).push([=, ended = ended_]() mutable {
    try {
      sent->wait();
    } catch (const std::exception& error) {
      if (!*ended) {
        end_process(rank, kind, error.what());
      }
      throw;
    }
    if (finish) {
      finish(values);
    }
    for (size_t i = 0; i < targets.size(); ++i) {
      targets[i].copy_(values[i]);
    }
  });
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& output : outputs) {
      pending_.push_back({output.storage().unsafeGetStorageImpl(), number});
    }
  }
  return c10::make_intrusive<LateWork>(rank_, kind, stream, number, std::move(outputs), device);
}

Collectives::Work Collectives::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  const Tensors real{as_real(single(tensors))};
  const auto device = checked(real);
  auto values = staged(real);
  return late(OpType::BROADCAST, transport_->broadcast(values, options), real, values, device);
}

Collectives::Work Collectives::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  const Tensors real{as_real(single(tensors), options.reduceOp)};
  const auto device = checked(real);
  auto inner = options;
  inner.reduceOp = transported(options.reduceOp, real[0]);
  auto values = staged(real);
  return late(OpType::ALLREDUCE, transport_->allreduce(values, inner), real, values, device, averaging(options.reduceOp));
}

Collectives::Work Collectives::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  const Tensors real{as_real(single(tensors), options.reduceOp)};
  const auto device = checked(real);
  auto inner = options;
  inner.reduceOp = transported(options.reduceOp, real[0]);
  auto values = staged(real);
  auto sent = transport_->reduce(values, inner);
  return late(OpType::REDUCE, sent, rank_ == options.rootRank ? real : Tensors{}, values, device, averaging(options.reduceOp));
}

Collectives::Work Collectives::allgather(
    std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  const auto& targets = single(outputs);
  const auto device = checked(targets, {single(inputs)}, size_);
  auto own = staged(inputs);
  if (uneven(targets)) { // Gloo takes one size alone, NCCL any
    TORCH_CHECK(own[0].numel() == targets[rank_].numel(), "a rank's place in an all_gather must be as large as its tensor");
    const Tensors copies(size_, own[0].flatten());
    const std::vector<int64_t> lengths(size_, own[0].numel());
    return exchanged(OpType::ALLGATHER, targets, copies, lengths, device);
  }
  std::vector<Tensors> values{staged(targets)};
  return late(OpType::ALLGATHER, transport_->allgather(values, own, options), targets, values[0], device);
}

Collectives::Work Collectives::_allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) {
  TORCH_CHECK(
      output.numel() == input.numel() * size_, "output tensor size must be equal to world_size times input tensor size");
  std::vector<Tensors> outputs{output.view(-1).chunk(size_)};
  Tensors inputs{input.view(-1)};
  return allgather(outputs, inputs, options);
}

Collectives::Work Collectives::gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) {
  const bool root = rank_ == options.rootRank;
  const Tensors targets = root ? single(outputs) : Tensors{};
  const auto device = root ? checked(targets, {single(inputs)}, size_) : checked(inputs);
  auto own = staged(inputs);
  auto values = root ? std::vector<Tensors>{staged(targets)} : std::vector<Tensors>{};
  auto sent = transport_->gather(values, own, options);
  return late(OpType::GATHER, sent, targets, root ? values[0] : Tensors{}, device);
}

Collectives::Work Collectives::scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& options) {
  const bool root = rank_ == options.rootRank;
  const auto device = root ? checked({single(outputs)}, single(inputs), size_) : checked({single(outputs)});
  auto values = staged(outputs);
  auto own = root ? std::vector<Tensors>{staged(inputs[0])} : std::vector<Tensors>{};
  return late(OpType::SCATTER, transport_->scatter(values, own, options), outputs, values, device);
}

Collectives::Work Collectives::reduce_scatter(
    Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ReduceScatterOptions& options) {
  const auto& output = single(outputs);
  const auto& parts = single(inputs);
  const auto device = checked(outputs, parts, size_);
  TORCH_CHECK(parts[rank_].numel() == output.numel(), "a rank's part of a reduce_scatter must be as large as its result");
  c10d::AllreduceOptions inner;
  inner.reduceOp = transported(options.reduceOp, output);
  Tensors flat;
  std::vector<int64_t> lengths;
  for (const auto& part : staged(parts)) {
    lengths.push_back(part.numel());
    flat.push_back(part.flatten());
  }
  Tensors all{at::cat(flat)};
  Tensors own{all[0].split_with_sizes(lengths)[rank_].view(output.sizes())};
  return late(
      OpType::REDUCE_SCATTER, transport_->allreduce(all, inner), outputs, own, device, averaging(options.reduceOp));
}

Collectives::Work Collectives::_reduce_scatter_base(
    at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) {
  TORCH_CHECK(
      input.numel() == output.numel() * size_, "input tensor must be the same size as output size times world size");
  Tensors outputs{output.view(-1)};
  std::vector<Tensors> inputs{input.view(-1).chunk(size_)};
  return reduce_scatter(outputs, inputs, options);
}

Collectives::Work Collectives::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) {
  const auto device = checked(outputs, inputs, size_);
  std::vector<int64_t> lengths;
  Tensors flat;
  for (const auto& input : staged(inputs)) {
    lengths.push_back(input.numel());
    flat.push_back(input.flatten());
  }
  return exchanged(OpType::ALLTOALL, outputs, flat, lengths, device, options);
}

Collectives::Work Collectives::exchanged(
    OpType kind, const Tensors& outputs, const Tensors& flat, std::vector<int64_t> lengths, c10::Device device,
    const c10d::AllToAllOptions& options) {
  std::vector<int64_t> expected;
  for (const auto& output : outputs) {
    expected.push_back(output.numel());
  }
  auto all = at::cat(flat);
  auto arrived = at::empty(std::accumulate(expected.begin(), expected.end(), int64_t(0)), all.options());
  auto values = arrived.split_with_sizes(expected);
  auto sent = transport_->alltoall_base(arrived, all, expected, lengths, options);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = values[i].view(outputs[i].sizes());
  }
  return late(kind, sent, outputs, values, device);
}

Collectives::Work Collectives::alltoall_base(
    at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_sizes, std::vector<int64_t>& input_sizes,
    const c10d::AllToAllOptions& options) {
  const auto device = checked({output, input});
  auto own = staged({input})[0];
  Tensors values{staged({output})};
  auto sent = transport_->alltoall_base(values[0], own, output_sizes, input_sizes, options);
  return late(OpType::ALLTOALL_BASE, sent, {output}, values, device);
}

Collectives::Work Collectives::send(Tensors& tensors, int to, int) {
  const auto device = checked({single(tensors)});
  auto values = staged(tensors);
  return late(OpType::SEND, transport_->send(values, to, 0), {}, values, device); // tags mean nothing to NCCL
}

Collectives::Work Collectives::recv(Tensors& tensors, int from, int) {
  const auto device = checked({single(tensors)});
  auto values = staged(tensors);
  return late(OpType::RECV, transport_->recv(values, from, 0), tensors, values, device);
}

Collectives::Work Collectives::barrier(const c10d::BarrierOptions& options) {
  const c10::Device device(c10::DeviceType::PrivateUse1, current_device());
  current_queue(device.index()).run();
  return late(OpType::BARRIER, transport_->barrier(options), {}, {}, device);
}

void Collectives::abort() {
  *ended_ = true;
  transport_->abort();
}

void Collectives::shutdown() {
  for (const auto& [_, stream] : streams_) {
    queue_of(stream).run(); // peers may still wait for what this rank has sent off
  }
  *ended_ = true;
  transport_->shutdown();
}

std::function<void(Tensors&)> Collectives::averaging(const ReduceOp& op) const {
  if (op != ReduceOp::AVG) {
    return nullptr;
  }
  return [size = size_](Tensors& sums) {
    for (auto& sum : sums) {
      divide(sum, size);
    }
  };
}

} // namespace emulated
