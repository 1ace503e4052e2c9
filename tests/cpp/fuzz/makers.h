// What argument makers share.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "fuzz/generator.h"

namespace thunder::fuzz {

using Made = std::optional<Named>;
using Makers = std::map<std::string, ArgumentMaker>;

/// The name of the i-th parameter.
inline const std::string& param(const Draw& d, size_t i) { return d.op.schema.params.at(i).name; }
int64_t product_of(const Draw::Shape& s);
/// A value with at least `least` dimensions.
Value with_rank(Draw& d, int64_t least, int64_t most = 4, std::optional<DType> t = {});
/// A floating one, of random values around 0.
Value floats(Draw& d, Draw::Shape shape, std::optional<DType> t = {});
int64_t random_dim(Draw& d, Value v);
/// Two different ones, of a value of that rank.
std::pair<int64_t, int64_t> two_dims(Draw& d, int64_t rank);
/// The shape that another operator's result has for these arguments; nothing if it refuses them.
std::optional<Draw::Shape> result_shape(const std::string& op, const Named& arguments);

void add_shape_makers(Makers& m);
void add_backward_makers(Makers& m);
void add_index_makers(Makers& m);
void add_creation_makers(Makers& m);
void add_product_makers(Makers& m);
void add_window_makers(Makers& m);
void add_nn_makers(Makers& m);
void add_recurrent_makers(Makers& m);

}  // namespace thunder::fuzz
