#include "fuser/chunk_vectors.h"

#include <algorithm>

namespace thunder::fuser {

std::string ChunkVectors::vector(const std::string& key, const std::string& type, const std::string& text,
                                 int64_t kept_bytes, bool early) {
  auto [it, is_new] = names_.emplace(key, "");
  if (!is_new) return it->second;
  Kernel& kernel = made_.kernel;
  it->second = made_.statements.fresh("x");
  if (kernel.cached && kept_bytes > 0 && !made_.statements.in_finish()) {
    kernel.cached_vectors.push_back(type + " " + it->second + "[K];");
    kernel.cached_bytes += kept_bytes * made_.options.lanes;
    it->second += "[k]";
    (early ? kernel.cached_loads : made_.statements.at(LoopScope::Chunk)).push_back(it->second + " = " + text);
    kept_.insert(key);
  } else {
    made_.statements.at(LoopScope::Chunk).push_back("const " + type + " " + it->second + " = " + text);
  }
  return it->second;
}

std::string ChunkVectors::under_condition(const std::string& key, const std::string& of, const Index& start,
                                          const std::string& array) {
  std::string& known = names_[key];
  if (known.empty()) known = one_of_two(of, start, array);
  return known;
}

// Of two loads from an array of which one happens where the other does not, as in the halves of a rotation, one is
// made, from a place that depends on the condition.  A condition's name lives in its phase, and so does the vector.
std::string ChunkVectors::one_of_two(const std::string& of, const Index& start, const std::string& array) {
  const std::string& condition = made_.condition.text();
  const bool negated = condition[0] == '!';
  const std::string opposite = negated ? condition.substr(1) : "!" + condition, load = "th_load_vector" + of + "(",
                    declared = "const Vec" + of + " ", address = made_.indices.text(start);
  std::vector<std::string>& chunk = made_.statements.at(LoopScope::Chunk);
  std::vector<Conditional>& waiting = conditional_[array + of + opposite];
  if (!waiting.empty() && made_.indices.fixed(start, true)) {
    const Conditional first = waiting.back();
    waiting.pop_back();
    chunk[first.statement] = declared + first.name + " = " + load + array + " + (" + opposite + " ? " + first.address +
                             " : " + address + "));";
    return first.name;
  }
  const std::string name = made_.statements.fresh("x");
  if (condition.find('(') == std::string::npos)
    conditional_[array + of + condition].push_back({name, address, chunk.size()});
  chunk.push_back(declared + name + " = " + load + array + " + (" + address + "), " + condition + ");");
  return name;
}

std::string ChunkVectors::single(const std::string& key, DType t, const std::string& text, LoopScope scope) {
  auto [it, is_new] = names_.emplace(key, "");
  if (!is_new) return it->second;
  const bool each_lane = scope == LoopScope::Lane;
  const std::string name = made_.statements.fresh("x");
  made_.kernel.cached_vectors.push_back(compute_name(t) + " " + name + "[K]" +
                                        (each_lane ? "[" + std::to_string(made_.options.lanes) + "];" : ";"));
  made_.kernel.cached_bytes += std::max<int64_t>(4, itemsize(t)) * (each_lane ? made_.options.lanes : 1);
  it->second = name + (each_lane ? "[k][j]" : "[k]");
  kept_.insert(key);
  made_.statements.at(scope).push_back(it->second + " = " + text + ";");
  return it->second;
}

void ChunkVectors::begin_phase() {
  conditional_.clear();
  std::erase_if(names_, [&](const auto& v) { return !kept_.count(v.first); });
}

void ChunkVectors::forget() {
  names_.clear();
  conditional_.clear();
}

}  // namespace thunder::fuser
