// Cost tables that are built in.  What is measured and what is estimated stands beside each figure, and in the notes.
#include "core/error.h"
#include "passes/distributed/cost_table.h"

namespace thunder::distributed {
namespace {

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
  THUNDER_CHECK(device == "h200", Value, "simulate", "there is no cost table for '", device,
                "'; there is one for 'h200', and a table of your own as text");
  return kH200;
}

}  // namespace thunder::distributed
