#include "core/shown_name.h"

#include <doctest.h>

namespace thunder {
namespace {

TEST_CASE("an operator that returns what PyTorch's function writes is shown by the function's name") {
  CHECK(shown_name(Schema::parse("batch_norm_functional(Tensor input) -> (Tensor, Tensor)")) == "batch_norm");
  CHECK(shown_name(Schema::parse("max.dim(Tensor input, int dim) -> (Tensor, Tensor)")) == "max");
  CHECK(shown_name(Schema::parse("functional(Tensor input) -> Tensor")) == "functional");
}

}  // namespace
}  // namespace thunder
