// Simulator: how long a scheduled program takes on a device and networks that are not here, and what memory it needs.
//
// Precondition: the traces are a pipeline's last ones, whose sizes are known; nothing is run.
//
// One process is simulated, as all do the same.  Its kernels run one after another, in the trace's order.  Each group
// of the trace has a communicator: a start is queued behind that communicator's earlier ones, and begins no sooner than
// the kernels before it have ended.  A wait holds the kernels back until the communication has ended.  While a
// communicator has something to do, kernels lose the share of their speed that the cost table says (contention).  A
// step that communicates ends by waiting for the slowest device, for the share of its kernels' time that the table says
// (spread).
// Communicators do not slow each other, and the host is always ahead of the device.
//
// Memory: the program's inputs stay for good, results live until the `del` that names their last view, what is
// communicated lives until the wait.  Without optimizer states, workspaces of libraries and fragmentation.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "passes/distributed/cost_table.h"

namespace thunder::distributed {

/// A wait for a collective, or a collective that nobody waits for.
struct SimulatedWait {
  std::string name;    ///< what is communicated: "h.0.attn.weight and 3 more"
  std::string future;  ///< as the trace prints it: "p11"
  std::string group;
  Collective kind = Collective::AllGather;
  bool backward = false;
  bool waited = true;
  int64_t bytes = 0;   ///< of the whole tensors
  double seconds = 0;  ///< of the collective
  double exposed = 0;  ///< seconds for which kernels stood still
};

struct MemoryPoint {
  double seconds = 0;
  int64_t bytes = 0;
};

struct Simulation {
  double step = 0;     ///< seconds; compute + slowed + exposed + spread
  double compute = 0;  ///< of the kernels by themselves
  double slowed = 0;   ///< that contention adds to them
  double exposed = 0;  ///< for which kernels stood still, what is left to communicate in the end included
  double spread = 0;   ///< for which the slowest device is waited for in the end
  double forward = 0;  ///< when the forward's last kernel ended
  std::map<std::string, double> communicators;  ///< by group: seconds for which it communicates
  std::vector<SimulatedWait> waits;             ///< in the order of the waits
  std::vector<MemoryPoint> memory;              ///< whenever it changes
  int64_t inputs = 0;                           ///< bytes
  int64_t peak = 0;                             ///< bytes
  std::string peak_at;                          ///< "backward: t12 = torch.matmul(...)"
  std::vector<std::string> notes;               ///< of the cost table

  /// For readers: the totals, a line for each wait, and the notes.
  std::string report() const;
};

/// `backward`: of the same compilation; null if there is none.
/// Error (Value) where the table has no line for what the program does; (NotImplemented) for sizes that only a run can
/// tell.
Simulation simulate(const Trace& forward, const Trace* backward, const CostTable& table);

}  // namespace thunder::distributed
