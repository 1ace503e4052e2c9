#include "fuser/kept_elements.h"

namespace thunder::fuser {
namespace {

// Of a type that elements are computed in.
int64_t bytes_of(const std::string& type) { return type == "double" || type == "int64" ? 8 : 4; }

}  // namespace

void KeptElements::end_phase() {
  const std::vector<Phase>& phases = made_.kernel.phases;
  if (phases.empty() || (row_buffer_left_ <= 0 && !lender_ && !keeps_registers())) return;
  for (const auto& [key, s] : made_.statements.known_in_loop())
    if (s.costly && !Condition::is_part_of(key)) earlier_.try_emplace(key, Kept{phases.size() - 1, s.text, ""});
}

// A later phase reads what an earlier one has computed where computing it again takes longer.
std::optional<Scalar> KeptElements::from_earlier_phase(const std::string& key, DType t) {
  auto it = earlier_.find(key);
  if (it == earlier_.end() || made_.statements.in_finish() || !made_.condition.empty()) return std::nullopt;
  Kept& kept = it->second;
  const std::string type = compute_name(t);
  if (kept.buffer.empty()) {
    kept.buffer = keeps_registers() ? registers_for(type) : row_for(type);
    if (kept.buffer.empty() && lender_) kept.buffer = lender_(type, kept.phase);
    if (kept.buffer.empty()) return std::nullopt;
    made_.kernel.phases[kept.phase].lane.push_back(kept.buffer + " = " + kept.name + ";");
  }
  return made_.statements.define(type, kept.buffer, LoopScope::Lane);
}

// Of all chunks that a thread has.
std::string KeptElements::registers_for(const std::string& type) {
  const std::string name = made_.statements.fresh("x");
  made_.kernel.cached_vectors.push_back(type + " " + name + "[K][" + std::to_string(made_.options.lanes) + "];");
  made_.kernel.cached_bytes += made_.options.lanes * bytes_of(type);
  return name + "[k][j]";
}

std::string KeptElements::row_for(const std::string& type) {
  const Size& cols = made_.kernel.cols;
  if (!cols.is_number()) return {};
  const int64_t bytes = cols.number() * bytes_of(type);
  if (bytes > row_buffer_left_) return {};
  row_buffer_left_ -= bytes;
  const std::string name = made_.statements.fresh("row");
  made_.kernel.row_buffers.push_back(type + " " + name + "[" + made_.indices.text(cols) + "];");
  return name + "[q]";
}

}  // namespace thunder::fuser
