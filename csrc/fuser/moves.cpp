#include "fuser/moves.h"

namespace thunder::fuser {

Scalar Moves::element(const Call& call, const Multi& index) {
  if (call.op->index_map) return elements_.element(call.arguments().value("a"), source_index(call, index));
  const std::string& name = call.op->full_name;
  if (name == "prims.cat") return cat_element(call, index);
  if (name == "prims.pad") return pad_element(call, index);
  if (name == "prims.index") return indexed_element(call, index);
  return taken_element(call, index);
}

Multi Moves::source_index(const Call& call, const Multi& index) {
  const Args a = call.arguments();
  const IndexMap map = call.op->index_map(a, call.output.value().tensor()).value();
  if (map.row_major)
    return places_.delinearize(places_.linearize(index, sizes(call.output.value())), sizes(a.value("a")));
  Multi out;
  for (const IndexMap::Place& place : map.places) {
    Index at{Size(place.offset)};
    for (const auto& [dim, factor] : place.terms) at = indices_.add(at, indices_.mul(index[dim], factor));
    out.push_back(std::move(at));
  }
  return out;
}

}  // namespace thunder::fuser
