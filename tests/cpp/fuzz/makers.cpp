#include "fuzz/makers.h"

#include <numeric>

#include "core/error.h"

namespace thunder::fuzz {

int64_t product_of(const Draw::Shape& s) {
  return std::accumulate(s.begin(), s.end(), int64_t{1}, std::multiplies<>());
}

Value with_rank(Draw& d, int64_t least, int64_t most, std::optional<DType> t) {
  for (int i = 0; i < 5; ++i) {
    Value v = d.tensor({.dtype = t, .shape = {}, .values = {}});
    if (v.rank() >= least && v.rank() <= most) return v;
  }
  return d.tensor({.dtype = t, .shape = d.shape(least, most), .values = {}, .fresh = true});
}

Value floats(Draw& d, Draw::Shape shape, std::optional<DType> t) {
  return d.tensor({.dtype = t.value_or(d.float_type()), .shape = std::move(shape), .values = {}});
}

int64_t random_dim(Draw& d, Value v) { return v.rank() == 0 ? 0 : d.random.below(v.rank()); }

std::pair<int64_t, int64_t> two_dims(Draw& d, int64_t rank) {
  int64_t first = d.random.below(rank), second = d.random.below(rank - 1);
  return {first, second >= first ? second + 1 : second};
}

std::optional<Draw::Shape> result_shape(const std::string& name, const Named& arguments) {
  const Op& op = Registry::instance().get(name);
  ArgList args;
  for (const Param& p : op.schema.params) {
    auto it = arguments.find(p.name);
    args.push_back(it != arguments.end() ? it->second : p.default_value.value_or(Arg()));
  }
  try {
    Builder b(std::make_shared<Arena>());
    return Draw::shape_of(values_in(b.call(op, args)).at(0));
  } catch (const Error&) {
    return std::nullopt;
  }
}

const ArgumentMaker* argument_maker(const Op& op) {
  static const Makers all = [] {
    Makers m;
    add_shape_makers(m);
    add_backward_makers(m);
    add_index_makers(m);
    add_creation_makers(m);
    add_product_makers(m);
    add_window_makers(m);
    add_nn_makers(m);
    add_recurrent_makers(m);
    return m;
  }();
  auto it = all.find(op.full_name);
  return it == all.end() ? nullptr : &it->second;
}

}  // namespace thunder::fuzz
