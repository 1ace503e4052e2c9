#include "fuser/creations.h"

#include <algorithm>

#include "fuser/scalar.h"

namespace thunder::fuser {

Scalar Creations::element(const Call& call, const Multi& index) {
  Args a = call.arguments();
  const DType out = call.output.value().dtype();
  if (call.op->full_name == "prims.full")
    return {elements_.rounded(literal(a["fill_value"], out), call.output.value()), LoopScope::Row};
  const std::string type = compute_name(out), at = made_.indices.text(index[0]);
  const LoopScope scope = made_.indices.scope(index[0]);
  if (call.op->full_name == "prims.arange") return made_.statements.define(type, type + "(" + at + ")", scope);
  const DType compute = is_floating(out) ? DType::f64 : DType::i64;
  const std::string start = literal(a["start"], compute), step = literal(a["step"], compute);
  return made_.statements.define(
      type, type + "(" + start + " + " + step + " * " + compute_name(compute) + "(" + at + "))", scope);
}

// The place of an element among those that its call draws is its number in row-major order, wherever it lies in memory.
Scalar Creations::draw(const Call& call, const Multi& index) {
  const DType out = call.output.value().dtype();
  Args a = call.arguments();
  const Value state = a.value("state");
  const Index place = made_.places.linearize(index, sizes(call.output.value()));
  const std::string& name = call.op->full_name;
  if (name == "prims.normal_at") {
    Scalar s = drawn("th_normal<" + compute_name(out) + ">", compute_name(out), state, place);
    s.text = elements_.rounded(s.text, call.output.value());
    return s;
  }
  if (name == "prims.uniform_at") {
    const int bits = out == DType::f64 ? 53 : out == DType::f32 ? 24 : out == DType::f16 ? 11 : 8;
    return drawn("th_uniform<" + std::to_string(bits) + ">", compute_name(out), state, place);
  }
  const int64_t low = a.integer("low"), high = a.integer("high");
  const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  const Scalar bits = drawn("th_integers", "uint32", state, place);
  const std::string text =
      "th_integer(" + bits.text + ", " + literal(Arg(low), DType::i64) + ", uint64(" + std::to_string(range) + "ull))";
  Scalar s = made_.statements.define(compute_name(out), text, bits.scope);
  s.costly = true;
  return s;
}

Scalar Creations::drawn(const std::string& kind, const std::string& type, Value state, const Index& place) {
  const Scalar seed = elements_.element(state, {Index(0)}), offset = elements_.element(state, {Index(1)});
  const std::string key = seed.text + ", " + offset.text;
  Scalar s{"", std::max({made_.indices.scope(place), seed.scope, offset.scope}), true};
  const bool known_early = std::max(seed.scope, offset.scope) == LoopScope::Row;
  if (known_early && made_.places.is_vector(place)) {
    const Index start = made_.places.without_lane(place);
    const std::string lanes = std::to_string(made_.options.lanes);
    const std::string text =
        "th_random_vector<" + kind + ", " + lanes + ">(" + key + ", " + made_.indices.text(start) + ");";
    const int64_t bytes = made_.options.draw_again ? 0 : type == "double" ? 8 : 4;
    made_.kernel.caches_draws |= made_.kernel.cached && bytes > 0;
    s.text = vectors_.vector(kind + key + "@" + start.key(), "th_lanes<" + type + ", " + lanes + ">", text, bytes) +
             ".at[j]";
  } else if (known_early && made_.options.draw_ahead && made_.condition.empty() &&
             made_.places.follows_columns(place)) {
    std::vector<Ahead>& ahead = made_.kernel.phases.back().ahead;
    ahead.push_back({made_.statements.fresh("x"), kind, key, made_.indices.text(place)});
    s.text = ahead.back().name + "[l]";
  } else {
    s.text = "th_random<" + kind + ">(" + key + ", " + made_.indices.text(place) + ")";
  }
  s.text = made_.statements.define(type, s.text, s.scope).text;
  return s;
}

}  // namespace thunder::fuser
