// Costly elements that a later phase of a row reads, and does not compute again: part of lowering (lower.cpp).
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "fuser/kernel_in_progress.h"

namespace thunder::fuser {

class KeptElements {
 public:
  explicit KeptElements(KernelInProgress& made) : made_(made) {}

  /// Costly elements may be kept in a buffer of a row (LowerOptions::row_buffer), or in registers.
  void keep_rows() { row_buffer_left_ = made_.options.row_buffer; }
  /// Names an element of an output in whose memory `phase` may keep a value of `type` until that output is stored; empty
  /// if there is none.
  using Lender = std::function<std::string(const std::string& type, size_t phase)>;
  /// `lender` is asked where no buffer has room for a row.
  void keep_in_outputs(Lender lender) { lender_ = std::move(lender); }

  /// Notes what the phase at hand has computed.
  void end_phase();
  /// An element that a phase before has computed, of the dtype `t`.
  std::optional<Scalar> from_earlier_phase(const std::string& key, DType t);
  /// An element of a new buffer for a row; empty where no room is left for one.
  std::string row_for(const std::string& type);

 private:
  bool keeps_registers() const { return made_.options.keep_costly && made_.kernel.cached; }
  std::string registers_for(const std::string& type);

  KernelInProgress& made_;
  struct Kept {
    size_t phase;
    std::string name, buffer;  // an element of the buffer, once it is asked for
  };
  std::map<std::string, Kept> earlier_;
  int64_t row_buffer_left_ = 0;
  Lender lender_;
};

}  // namespace thunder::fuser
