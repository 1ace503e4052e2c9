// Cost tables that are built in.  What is measured and what is estimated stands beside each figure, and in the notes.
#include <map>

#include "core/error.h"
#include "passes/distributed/cost_table.h"

namespace thunder::distributed {
namespace {

const std::string kH100 = R"(
device h100 9.0 91900

# Measured by thunder.distributed.costs on four H100 of 80 GB, TinyLlama and Llama 1B predicted by it within 3 %.
peak product bf16 693TFLOP/s
peak product f16 649TFLOP/s
peak product f32 51.5TFLOP/s
peak product f64 51TFLOP/s
# Estimated: as many times bf16's rate as on an H200.
peak product f8_e4m3fn 1310TFLOP/s
peak product f8_e5m2 1310TFLOP/s
peak attention bf16 370TFLOP/s
peak attention_backward bf16 302TFLOP/s
peak attention f16 359TFLOP/s
peak attention_backward f16 299TFLOP/s
launch 1us
memory 3009GB/s
spread 0.036
contention 0.117

# Measured: copies between four GPUs over NVLink of the fourth generation.  Estimated: eight as four.
fabric nvlink all_gather alpha=16us bandwidth=340GB/s
fabric nvlink reduce_scatter alpha=38us bandwidth=244GB/s
fabric nvlink all_reduce alpha=24us bandwidth=373GB/s
# Cited: 46 to 48 GB/s for a 400 Gbit/s adapter, one a process (github.com/NVIDIA/nccl-tests/issues/290).
# alpha: NCCL's own model of a ring's step over a network.
fabric infiniband * alpha=14us bandwidth=47GB/s
node 8 nvlink infiniband

note measured on four H100: products, attention (causal, heads of 64), pointwise kernels, launches, copies over NVLink
note measured on four H100: contention, and the wait for the slowest GPU
note estimated: products in float8; cited: InfiniBand
)";

const std::string kH200 = R"(
device h200 9.0 91700

# Measured: all products of a training step of TinyLlama-1.1B, 4 x 2048 tokens: 50.84 TFLOP in 73.2 ms in bf16; with all
# but the last layer in float8 38.7 ms.
peak product bf16 694TFLOP/s
peak product f8_e4m3fn 1310TFLOP/s
peak product f8_e5m2 1310TFLOP/s
# Estimated: as bf16.
peak product f16 694TFLOP/s
# Estimated: three quarters of the 67 TFLOP/s of NVIDIA's H200 data sheet.
peak product f32 50TFLOP/s
peak product f64 50TFLOP/s
# Measured: cuDNN, causal, 2048 x 2048, heads of 64, 0.19 ms forward and 0.61 ms backward of a layer of that model.
peak attention bf16 361TFLOP/s
peak attention_backward bf16 281TFLOP/s
# Estimated: as bf16.
peak attention f16 361TFLOP/s
peak attention_backward f16 281TFLOP/s

# Measured: pointwise kernels of that model move 4.0 to 4.5 TB/s.
memory 4.2TB/s
# Estimated.
launch 2us

# Cited: products beside NCCL are slower by 30 to 40 % (github.com/pytorch/pytorch/issues/179937).
contention 0.35

# Estimated: NCCL's rings over NVLink of the fourth generation, 450 GB/s in one direction, without multicast.  With
# multicast an all_reduce of 8 H200 was measured at 475 GB/s (github.com/NVIDIA/nccl-tests/issues/272).
# alpha: NCCL's own model of a ring's step (src/graph/tuning.cc: hwLat, "Simple").
fabric nvlink * alpha=3.4us bandwidth=370GB/s
# Cited: 46 to 48 GB/s for a 400 Gbit/s adapter, one a process (github.com/NVIDIA/nccl-tests/issues/290).
# alpha: NCCL's own model of a ring's step over a network.
fabric infiniband * alpha=14us bandwidth=47GB/s
node 8 nvlink infiniband

note measured on an H200: the rates of bf16 products, of cuDNN's attention (causal, heads of 64), of pointwise kernels
note estimated: other dtypes and attention, launches, NVLink; cited: InfiniBand, the steps of a ring, contention
note validated: memory against runs on the CPU; the kernels' time against one model on one H200; communication not yet
)";

}  // namespace

const std::string& built_in_cost_table(const std::string& device) {
  static const std::map<std::string, std::string> tables = {{"h100", kH100}, {"h200", kH200}};
  auto it = tables.find(device);
  if (it == tables.end()) {
    std::vector<std::string> names;
    for (const auto& [name, text] : tables) names.push_back("'" + name + "'");
    throw Error(ErrorKind::Value, cat("[simulate] there is no cost table for '", device, "'; there are ", join(names),
                                      ", and a table of your own as text"));
  }
  return it->second;
}

}  // namespace thunder::distributed
