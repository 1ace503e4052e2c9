#include "core/index_map.h"

#include <doctest.h>

using namespace thunder;

TEST_CASE("index map: places are the operand's, terms the result's") {
  const IndexMap map{.places = {{.offset = 2, .terms = {{1, 3}}}, {}}};
  CHECK_FALSE(map.row_major);
  REQUIRE(map.places.size() == 2);
  CHECK(map.places[0].offset.same(2));
  CHECK(map.places[0].terms[0].dim == 1);
  CHECK(map.places[0].terms[0].factor.same(3));
  CHECK(map.places[1].offset.same(0));  // a dimension of which the result reads the first element alone
  CHECK(map.places[1].terms.empty());
}

TEST_CASE("index map: a term steps by one unless it says otherwise") {
  const IndexMap map{.places = {{.terms = {{0}}}}};
  CHECK(map.places[0].terms[0].factor.same(1));
}

TEST_CASE("index map: a row-major map has no places") {
  const IndexMap map = IndexMap::in_row_major_order();
  CHECK(map.row_major);
  CHECK(map.places.empty());
}
