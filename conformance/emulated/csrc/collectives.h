// The process group of the emulated device: what NCCL is to CUDA.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "stream.h"

namespace emulated {

// Takes tensors of the device alone; `transport`, a backend of the CPU, carries their bytes. Collectives are sent off at
// once and write their results late, in a stream of the group's own, for which Work.wait() makes the caller's stream wait.
class Collectives final : public c10d::Backend {
 public:
  using Work = c10::intrusive_ptr<c10d::Work>;
  using Tensors = std::vector<at::Tensor>;

  Collectives(c10::intrusive_ptr<c10d::Backend> transport, int rank, int size);

  const std::string getBackendName() const override {
    return "emulated_ccl";
  }
  Work broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  Work allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  Work reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  Work allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  Work _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override;
  Work gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) override;
  Work scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& options) override;
  Work reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ReduceScatterOptions& options) override;
  Work _reduce_scatter_base(at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) override;
  Work alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override;
  Work alltoall_base(
      at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_sizes, std::vector<int64_t>& input_sizes,
      const c10d::AllToAllOptions& options) override;
  Work send(Tensors& tensors, int to, int tag) override;
  Work recv(Tensors& tensors, int from, int tag) override;
  Work barrier(const c10d::BarrierOptions& options) override;
  void abort() override;
  void shutdown() override;

 private:
  // What a collective that may not have ended yet will write to, and its number in the group's stream.
  struct Pending {
    c10::StorageImpl* written;
    uint64_t number;
  };

  // CPU copies of what the device's tensors hold by now.
  Tensors staged(const Tensors& tensors);
  // Write `values` into `outputs` once the transport's work is done and `finish` has had the values.
  Work late(
      c10d::OpType kind, Work sent, Tensors outputs, Tensors values, c10::Device device,
      std::function<void(Tensors&)> finish = nullptr);
  // Send to each rank what of `flat` is its, in pieces of `lengths`, and write what arrives into `outputs`, one of each rank.
  Work exchanged(
      c10d::OpType kind, const Tensors& outputs, const Tensors& flat, std::vector<int64_t> lengths, c10::Device device,
      const c10d::AllToAllOptions& options = c10d::AllToAllOptions());
  // What turns sums into averages where `op` asks for these.
  std::function<void(Tensors&)> averaging(const c10d::ReduceOp& op) const;
  c10::Stream stream_on(c10::Device device);

  c10::intrusive_ptr<c10d::Backend> transport_;
  std::shared_ptr<std::atomic<bool>> ended_ = std::make_shared<std::atomic<bool>>(false);
  std::mutex mutex_;
  std::map<c10::DeviceIndex, c10::Stream> streams_;
  std::list<Pending> pending_;
};

} // namespace emulated
