// Cost table: what a device and its networks take for work, as text.
//
// A line is a keyword and its operands; `#` begins a comment; of two lines about the same thing the later one counts.
//
//   device NAME CAPABILITY CUDNN             h200 9.0 91700: what executors choose kernels by
//   peak KIND DTYPE RATE                     product bf16 690TFLOP/s; KIND: product, convolution, attention,
//                                            attention_backward; a kind without a line is a product
//   memory RATE                              3.9TB/s: bytes that a kernel reads and writes
//   launch TIME                              2us: what each kernel takes besides
//   call NAME [TYPE...] TIME                 torch.linear bf16[8192,2048] bf16[5632,2048] 0.26ms: a measured call; NAME
//                                            is the operator's or the printed one, the types are its tensors'
//   contention SHARE                         0.35: of the speed of kernels that is lost beside communication
//   spread SHARE                             0.02: of the kernels' time, for which a step waits for the slowest device
//   fabric NAME COLLECTIVE alpha=TIME bandwidth=RATE [steps=ring|tree]
//                                            COLLECTIVE: all_gather, reduce_scatter, all_reduce, or * for all
//   node PROCESSES INSIDE [BETWEEN]          8 nvlink infiniband: processes of a node, and the fabrics
//   note TEXT                                what a reader of results has to know: what was measured, what estimated
//
// Times: s, ms, us, ns.  Rates: TFLOP/s, GFLOP/s; TB/s, GB/s, MB/s (powers of 10).  Bandwidth is one process's, in one
// direction.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/trace.h"

namespace thunder::distributed {

enum class Collective : uint8_t { AllGather, ReduceScatter, AllReduce };
std::string_view name_of(Collective c);  ///< "all_gather"

/// The kinds of work that are bound by arithmetic.
enum class Arithmetic : uint8_t { Product, Convolution, Attention, AttentionBackward };

class CostTable {
 public:
  /// The lines add to those of `onto`.  Error (Value): "[cost table] line 7: ...".
  static CostTable parse(std::string_view text, const CostTable& onto);
  static CostTable parse(std::string_view text) { return parse(text, CostTable()); }

  /// Seconds of one call by itself; 0 for what runs no kernel (views, `del`, starts, waits).
  /// Error (Value) if the table has no line that it takes; (NotImplemented) for a size that only a run can tell.
  double seconds(const Call& call) const;
  /// Seconds of one collective.  `bytes`: of a whole tensor, that is gathered, that is scattered, or that is reduced.
  ///
  /// One fabric, n processes, ring: alpha * (n - 1) + bytes * (n - 1) / n / bandwidth, and twice that for all_reduce
  /// (Thakur, Rabenseifner, Gropp 2005; the "bus bandwidth" of nccl-tests/doc/PERFORMANCE.md).  A tree has
  /// ceil(log2 n) steps.  Of several nodes, each process exchanges its share with those in its place on the other
  /// nodes, and the node's processes exchange the rest; both overlap, so that the slower one counts, and steps add up.
  ///
  /// `stride`: how far apart the processes are, in places; the replicas of shards over n processes, n.
  double seconds(Collective c, int64_t bytes, int64_t world, int64_t stride = 1) const;

  const std::string& device() const { return device_; }
  int capability() const { return capability_; }  ///< 90: 9.0
  int64_t cudnn_version() const { return cudnn_; }
  double contention() const { return contention_; }
  double spread() const { return spread_; }
  /// The fabrics of the line `node`: "nvlink+infiniband", "nvlink", or empty without such a line.
  std::string fabric() const { return between_.empty() ? inside_ : inside_ + "+" + between_; }
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  friend class CostTableParser;
  struct Link {
    double alpha = 0, bandwidth = 0;
    bool tree = false;
  };
  const Link& link(const std::string& fabric, Collective c) const;
  double peak(Arithmetic kind, DType dtype) const;
  double measured(const Call& call) const;

  std::string device_ = "unknown", inside_, between_;
  int capability_ = 90;
  int64_t cudnn_ = 0, node_ = 0;
  double memory_ = 0, launch_ = 0, contention_ = 0, spread_ = 0;
  std::map<std::pair<Arithmetic, DType>, double> peaks_;
  std::map<std::string, double> calls_;  // "torch.linear", "torch.linear bf16[4,4] bf16[4,4]"
  std::map<std::pair<std::string, Collective>, Link> links_;
  std::vector<std::string> notes_;
};

/// The text of a table that is built in: "h100", "h200".  Error (Value) lists those there are.
const std::string& built_in_cost_table(const std::string& device);

}  // namespace thunder::distributed
