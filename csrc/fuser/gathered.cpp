// Elements at places that other tensors give.
#include <algorithm>

#include "fuser/moves.h"

namespace thunder::fuser {

// The place in a dimension that another tensor gives.  One outside of it is the user's error, which the kernel reports.
Index Moves::place_of(const Scalar& number, const Size& extent, bool wraps) {
  const LoopScope scope = std::max(number.scope, made_.condition.scope());
  const std::string n = indices_.text(extent);
  made_.kernel.gathers = true;
  const std::string text = "TH_PLACE(" + (wraps ? "th_wrapped(" + number.text + ", " + n + ")" : number.text) + ", " +
                           n + (made_.condition.empty() ? "" : ", " + made_.condition.text()) + ")";
  return indices_.dynamic(made_.statements.defined_once("I", text, scope).text, extent, scope);
}

Scalar Moves::taken_element(const Call& call, Multi index) {
  Args a = call.arguments();
  Value source = a.value("a"), places = a.value("index");
  const size_t d = dim_of(call, index.size());
  const Scalar place = elements_.element(places, call.op->full_name == "prims.take" ? Multi{index[d]} : index);
  index[d] = place_of(place, sizes(source)[d], false);
  return elements_.element(source, index);
}

// The dimensions of the index tensors, broadcast together, stand where the indexed ones did, or in front where those do not
// lie side by side.
Scalar Moves::indexed_element(const Call& call, const Multi& index) {
  Args a = call.arguments();
  const Value source = a.value("a");
  const ArgList& list = a["indices"].items();
  const Sizes shape = sizes(source);
  std::vector<size_t> indexed;
  size_t rank = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i].is_none()) continue;
    indexed.push_back(i);
    rank = std::max(rank, list[i].value().shape().size());
  }
  const bool adjacent = indexed.back() - indexed.front() + 1 == indexed.size();
  const size_t at = adjacent ? indexed.front() : 0;
  Multi out(shape.size());
  for (size_t i = 0, next = 0; i < shape.size(); ++i) {
    if (i >= list.size() || list[i].is_none()) {
      if (next == at) next += rank;
      out[i] = index[next++];
      continue;
    }
    const Sizes places = sizes(list[i].value());
    Multi of(places.size());
    for (size_t k = 0; k < places.size(); ++k)
      of[k] = places[k].is(1) ? Index(0) : index[at + rank - places.size() + k];
    out[i] = place_of(elements_.element(list[i].value(), of), shape[i], true);
  }
  return elements_.element(source, out);
}

}  // namespace thunder::fuser
