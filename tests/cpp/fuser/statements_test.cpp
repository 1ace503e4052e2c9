// The parts of a kernel that is being made: its statements, the condition at hand, and a chunk's vectors.
#include "fuser/statements.h"

#include <doctest.h>

#include "fuser/chunk_vectors.h"
#include "fuser/kept_elements.h"

namespace thunder::fuser {
namespace {

struct Making {
  explicit Making(LowerOptions given = {.lanes = 8}) : options(given), places({.rows = 4, .cols = 64}, given.lanes) {
    kernel.rows = 4;
    kernel.cols = 64;
    made.statements.begin_phase();
  }
  Phase& phase() { return kernel.phases.back(); }
  LowerOptions options;
  Kernel kernel;
  Places places;
  KernelInProgress made{options, places, kernel};
};

using Lines = std::vector<std::string>;

TEST_CASE("statements: each goes to its scope, and its name is new") {
  Making m;
  Statements& s = m.made.statements;
  CHECK(s.define("float", "1.0f", LoopScope::Row).text == "t0");
  CHECK(s.define("int", "q", LoopScope::Chunk).scope == LoopScope::Chunk);
  CHECK(s.define("float", "t0 + j", LoopScope::Lane).text == "t2");
  CHECK(m.phase().row == Lines{"const float t0 = 1.0f;"});
  CHECK(m.phase().chunk == Lines{"const int t1 = q;"});
  CHECK(m.phase().lane == Lines{"const float t2 = t0 + j;"});
  const Access a = s.access(1, Index(0), LoopScope::Lane);
  CHECK(a.phase == 0);
  CHECK(a.position == 1);
}

TEST_CASE("statements: a name of the row outlives the phase, and one of the loop does not") {
  Making m;
  Statements& s = m.made.statements;
  CHECK(s.defined_once("bool", "r < 2", LoopScope::Row).text == s.defined_once("bool", "r < 2", LoopScope::Row).text);
  s.know("element", {"t7", LoopScope::Lane}, false);
  s.know("of a row", {"t8"}, true);
  REQUIRE(s.known("element"));
  CHECK(s.known("element")->text == "t7");
  s.begin_phase();
  CHECK(!s.known("element"));
  CHECK(s.known("of a row"));
  CHECK(s.known("r < 2"));
  s.begin_finish();
  CHECK(s.in_finish());
  CHECK(!s.known("of a row"));
  s.define("float", "c", LoopScope::Lane);
  CHECK(m.kernel.finish.size() == 1);
}

TEST_CASE("condition: one within another is their conjunction, and ends with it") {
  Condition c;
  CHECK(c.or_zero("x", "float") == "x");
  c.narrowed({"t0", LoopScope::Chunk}, true, [&] {
    CHECK(c.text() == "t0");
    return c.narrowed({"t1", LoopScope::Lane}, false, [&] {
      CHECK(c.text() == "(t0 && !t1)");
      CHECK(c.scope() == LoopScope::Lane);
      CHECK(c.or_zero("x", "float") == "(t0 && !t1) ? x : float(0)");
      CHECK(Condition::is_part_of("12" + c.key()));
      return Scalar{};
    });
  });
  CHECK(c.empty());
  CHECK(c.scope() == LoopScope::Row);
  CHECK(c.key().empty());
}

TEST_CASE("condition: too many within one another are refused") {
  Condition c;
  std::function<Scalar(int)> nest = [&](int n) {
    return n == 0 ? Scalar{} : c.narrowed({"t"}, true, [&] { return nest(n - 1); });
  };
  CHECK_NOTHROW(nest(20));
  CHECK_THROWS_AS(nest(21), Refused);
}

TEST_CASE("chunk vectors: of a kernel that caches, one stays over the phases; another is made again") {
  Making m;
  m.kernel.cached = true;
  ChunkVectors vectors(m.made);
  const auto kept = [&] { return vectors.vector("a", "Vec", "load a;", 4); };
  const auto made_again = [&] { return vectors.vector("b", "Vec", "load b;", 0); };
  const std::string first = kept(), second = made_again();
  CHECK(first == "x0[k]");
  CHECK(kept() == first);
  CHECK(made_again() == second);
  CHECK(m.kernel.cached_vectors == Lines{"Vec x0[K];"});
  CHECK(m.kernel.cached_bytes == 32);
  m.made.statements.begin_phase();
  vectors.begin_phase();
  CHECK(kept() == first);
  CHECK(made_again() != second);
  CHECK(m.phase().chunk == Lines{"const Vec x2 = load b;"});
}

TEST_CASE("kept elements: a buffer of a row for costly ones, as long as there is room") {
  Making m({.lanes = 1, .row_buffer = 64 * 4});
  KeptElements kept(m.made);
  kept.keep_rows();
  m.made.statements.know("costly", {"t0", LoopScope::Lane, true}, false);
  m.made.statements.know("cheap", {"t1", LoopScope::Lane}, false);
  kept.end_phase();
  m.made.statements.begin_phase();
  CHECK(!kept.from_earlier_phase("cheap", DType::f32));
  REQUIRE(kept.from_earlier_phase("costly", DType::f32));
  CHECK(m.kernel.row_buffers == Lines{"float row0[64];"});
  CHECK(m.kernel.phases[0].lane == Lines{"row0[q] = t0;"});
  CHECK(kept.row_for("float").empty());
}

}  // namespace
}  // namespace thunder::fuser
