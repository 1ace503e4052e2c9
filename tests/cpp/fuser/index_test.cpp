// Index arithmetic: what simplifies, and that everything that does keeps its value.
#include "fuser/index.h"

#include <doctest.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "core/error.h"
#include "fuzz/random.h"

namespace thunder::fuser {
namespace {

struct Nest {
  Indices indices;
  Index r = indices.variable("r", 6, LoopScope::Row), q = indices.variable("q", 8, LoopScope::Chunk),
        j = indices.variable("j", 8, LoopScope::Lane);
  Index column() { return indices.add(indices.mul(q, 8), j); }
  Index place() { return indices.add(indices.mul(r, 64), column()); }
  std::string text(const Index& e) const { return indices.text(e); }
};

TEST_CASE("index: sums are in normal form") {
  Nest n;
  CHECK(n.text(n.indices.add(n.r, n.indices.mul(n.r, -1))) == "0");
  CHECK(n.indices.add(n.r, n.q) == n.indices.add(n.q, n.r));
  CHECK(n.text(n.indices.add(n.place(), Index(-3))) == "64 * r + 8 * q + j - 3");
  CHECK(n.indices.mul(n.place(), 0) == Index(0));
  CHECK(n.indices.variable("one", 1, LoopScope::Lane) == Index(0));
  CHECK(n.indices.min(n.indices.add(Index(2), n.indices.mul(n.j, -1))) == -5);
  CHECK(n.indices.max(n.place()) == 6 * 64 - 1);
}

TEST_CASE("index: quotients and remainders vanish where ranges allow") {
  Nest n;
  CHECK(n.indices.div(n.place(), 64) == n.r);
  CHECK(n.indices.mod(n.place(), 64) == n.column());
  CHECK(n.indices.div(n.indices.mod(n.place(), 64), 8) == n.q);
  CHECK(n.indices.mod(n.place(), 8) == n.j);
  CHECK(n.indices.mod(n.place(), 1) == Index(0));
  CHECK(n.indices.div(n.place(), 3) != n.r);
  CHECK(n.indices.division() == Division::None);  // none is written
  CHECK(n.text(n.indices.div(n.place(), 16)) == "4 * r + ((q) / 2)");
  CHECK(n.indices.division() == Division::Shift);
  n.text(n.indices.mod(n.place(), 24));
  CHECK(n.indices.division() == Division::Other);
}

TEST_CASE("index: quotients of rows cost no vectors") {
  Nest n;
  CHECK(n.text(n.indices.div(n.r, 4)) == "((r) / 4)");
  CHECK(n.indices.division() == Division::None);
}

TEST_CASE("index: a quotient and its remainder join again") {
  Nest n;
  const Index q = n.indices.div(n.place(), 24), m = n.indices.mod(n.place(), 24);
  CHECK(n.indices.add(n.indices.mul(q, 24), m) == n.place());
  CHECK(n.indices.add(m, n.indices.mul(q, 24)) == n.place());
  // (X / 4) / 6 = X / 24
  CHECK(n.indices.div(n.indices.div(n.column(), 3), 5) == n.indices.div(n.column(), 15));
}

TEST_CASE("index: places in dimensions that lie together are one remainder, whose lanes are neighbours") {
  Indices indices;
  const Index q = indices.variable("q", 6000, LoopScope::Chunk), j = indices.variable("j", 8, LoopScope::Lane),
              x = indices.add(indices.mul(q, 8), j);
  const Index rows = indices.mod(indices.div(x, 28), 28), cols = indices.mod(x, 28);
  const Index plane = indices.add(indices.mul(rows, 28), cols);
  CHECK(plane == indices.mod(x, 784));
  CHECK(indices.text(plane) == "j + 8 * ((q) % 98)");
  CHECK(indices.add(indices.mul(rows, 56), indices.mul(cols, 2)) == indices.mul(indices.mod(x, 784), 2));
  CHECK(indices.add(indices.mul(rows, 29), cols) != plane);
  const Index planes = indices.mod(indices.div(x, 784), 5);
  CHECK(indices.add(indices.mul(planes, 784), plane) == indices.mod(x, 3920));
}

TEST_CASE("index: what is known to be smaller than its range keeps its lanes visible") {
  Nest n;
  const Index shifted = n.indices.add(n.column(), Index(-16));
  const Index inside = n.indices.bounded(shifted, 32, 8);
  CHECK(inside.factor_of(Indices::atom(n.j)) == 1);
  CHECK(n.indices.multiple_of(inside, 8, Indices::atom(n.j)));
  CHECK(n.indices.div(inside, 32) == Index(0));
  CHECK(n.indices.mod(inside, 32) == inside);
  CHECK(n.indices.bounded(n.j, 8, 8) == n.j);
  CHECK(n.indices.bounded(shifted, 1, 8) == Index(0));
  CHECK(n.indices.scope(inside) == LoopScope::Lane);
}

TEST_CASE("index: how often an index changes") {
  Nest n;
  CHECK(n.indices.scope(n.r) == LoopScope::Row);
  CHECK(n.indices.scope(n.indices.div(n.place(), 8)) == LoopScope::Chunk);
  CHECK(n.indices.scope(n.indices.div(n.place(), 3)) == LoopScope::Lane);
  CHECK(n.indices.scope(n.indices.dynamic("t1", 5, LoopScope::Lane)) == LoopScope::Lane);
}

// ---- symbolic sizes ---------------------------------------------------------------------------------------------------

struct SizedNest {
  ShapeEnv env;
  ShapeEnv::Scope scope{env};
  Size b = env.make_symbol(4, "b", 2), s = env.make_symbol(6, "s", 2);
  Indices indices;
  Index r = indices.variable("r", b*s, LoopScope::Row), q = indices.variable("q", 64, LoopScope::Chunk),
        i = indices.variable("i", b, LoopScope::Row), j = indices.variable("j", s, LoopScope::Chunk);
};

TEST_CASE("index: what symbolic ranges tell apart needs no division") {
  SizedNest n;
  const Index place = n.indices.add(n.indices.mul(n.i, n.s), n.j);
  CHECK(n.indices.div(place, n.s) == n.i);
  CHECK(n.indices.mod(place, n.s) == n.j);
  CHECK(n.indices.within(place, n.b * n.s));
  CHECK(!n.indices.within(place, n.b * n.s - 1));
  const Index element = n.indices.add(n.indices.mul(n.r, 64), n.q);
  CHECK(n.indices.div(element, n.s * 64) == n.indices.div(n.r, n.s));
  CHECK(n.indices.text(n.indices.div(n.r, n.s)) == "((r) / n0)");
  CHECK(n.indices.text(n.indices.mod(element, n.s * 64)) == "q + 64 * ((r) % n0)");
  CHECK(n.indices.names().all() == Sizes{n.s});
  CHECK(n.env.guards().empty());
}

TEST_CASE("index: a quotient by a symbolic size is a division within a row, whose divisor nothing is known of") {
  SizedNest n;
  n.indices.text(n.indices.div(n.q, n.s));
  CHECK(n.indices.division() == Division::Other);
  CHECK(n.indices.common_divisor() == 1);
}

TEST_CASE("index: what may be negative is not divided") {
  SizedNest n;
  const Index behind = n.indices.add(n.r, -n.s);
  CHECK_THROWS_AS(n.indices.mod(n.indices.add(behind, n.q), n.b), Refused);
  const Index reversed = n.indices.add(n.indices.mul(n.j, -1), n.s - 1);
  CHECK(n.indices.min(reversed) == Size(0));
  CHECK(n.indices.mod(reversed, n.s) == reversed);
}

// ---- every expression keeps its value -------------------------------------------------------------------------------

// Evaluates the text that kernels get, for given values of the variables.
class Reader {
 public:
  Reader(const std::string& text, const std::map<std::string, int64_t>& values) : text_(text), values_(values) {}
  int64_t sum() {
    int64_t value = accept('-') ? -product() : product();
    for (;;) {
      if (accept('+')) value += product();
      else if (accept('-')) value -= product();
      else return value;
    }
  }

 private:
  int64_t product() {
    int64_t value = factor();
    for (;;) {
      if (accept('*')) value *= factor();
      else if (accept('/')) value /= factor();
      else if (accept('%')) value %= factor();
      else return value;
    }
  }
  int64_t factor() {
    if (accept('(')) {
      int64_t value = sum();
      REQUIRE(accept(')'));
      return value;
    }
    size_t end = at_;
    while (end < text_.size() && std::isalnum(static_cast<unsigned char>(text_[end]))) ++end;
    REQUIRE(end > at_);
    const std::string word = text_.substr(at_, end - at_);
    at_ = end;
    return std::isdigit(static_cast<unsigned char>(word[0])) ? std::stoll(word) : values_.at(word);
  }
  bool accept(char c) {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return true;
  }
  const std::string& text_;
  const std::map<std::string, int64_t>& values_;
  size_t at_ = 0;
};

// In every other seed numbers are symbols, which are tried for what they are in the call alone.
TEST_CASE("index: random expressions have the value of their definition, for all values of their variables") {
  int refused = 0, kept = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    fuzz::Random random(seed);
    ShapeEnv env;
    ShapeEnv::Scope scope(env);
    Indices indices;
    std::map<int64_t, Size> symbols;
    const auto size = [&](int64_t n) {
      if (seed % 2 == 0 || n < 2 || random.below(2) == 0) return Size(n);
      return symbols.try_emplace(n, env.make_symbol(n, {}, 1)).first->second;
    };
    const std::vector<std::string> names = {"r", "q", "j"};
    std::vector<int64_t> extents;
    std::vector<std::map<std::string, int64_t>> points = {{}};
    struct Made {
      Index index;
      std::vector<int64_t> values;  // at each point
    };
    std::vector<Made> made;
    for (size_t v = 0; v < names.size(); ++v) {
      extents.push_back(random.pick(std::vector<int64_t>{1, 2, 3, 4, 6, 8}));
      std::vector<std::map<std::string, int64_t>> more;
      for (const auto& p : points)
        for (int64_t x = 0; x < extents.back(); ++x) more.push_back(p), more.back()[names[v]] = x;
      points = more;
    }
    for (size_t v = 0; v < names.size(); ++v) {
      Made m{indices.variable(names[v], size(extents[v]), static_cast<LoopScope>(v)), {}};
      for (const auto& p : points) m.values.push_back(p.at(names[v]));
      made.push_back(m);
    }
    for (int step = 0; step < 14; ++step) {
      const Made a = random.pick(made), b = random.pick(made);
      const int64_t n = random.pick(std::vector<int64_t>{1, 2, 3, 4, 5, 6, 8, 12, 16, 24});
      const Size sized = size(n);
      const std::optional<Size> from = indices.min(a.index);
      const bool is_negative = !from || !surely_at_least(*from, 0);
      const int64_t least = *std::min_element(a.values.begin(), a.values.end());
      Made m;
      try {
        switch (random.below(5)) {
          case 0:
            m = {indices.add(a.index, b.index), a.values};
            for (size_t i = 0; i < points.size(); ++i) m.values[i] += b.values[i];
            break;
          case 1:
            m = {indices.add(indices.mul(a.index, sized), b.index), a.values};
            for (size_t i = 0; i < points.size(); ++i) m.values[i] = a.values[i] * n + b.values[i];
            break;
          // Kernels divide no negative numbers: C++ would round towards zero.
          case 2:
            if (least < 0 || is_negative) continue;
            m = {indices.div(a.index, sized), a.values};
            for (int64_t& x : m.values) x /= n;
            break;
          case 3:
            if (least < 0 || is_negative) continue;
            m = {indices.mod(a.index, sized), a.values};
            for (int64_t& x : m.values) x %= n;
            break;
          default:
            m = {indices.add(indices.mul(a.index, -1), Index(sized)), a.values};
            for (int64_t& x : m.values) x = n - x;
            break;
        }
      } catch (const Refused&) {  // of numbers all is known
        REQUIRE(seed % 2 == 1);
        ++refused;
        continue;
      }
      ++kept;
      made.push_back(m);
      const std::string text = indices.text(m.index);
      for (size_t i = 0; i < points.size(); ++i) {
        INFO("seed ", seed, ": ", text);
        std::map<std::string, int64_t> point = points[i];
        for (const Size& s : indices.names().all()) point[indices.names().known(s)] = usual(s);
        REQUIRE(Reader(text, point).sum() == m.values[i]);
        if (const std::optional<Size> low = indices.min(m.index)) REQUIRE(usual(*low) <= m.values[i]);
        if (const std::optional<Size> high = indices.max(m.index)) REQUIRE(usual(*high) >= m.values[i]);
      }
    }
  }
  CHECK(refused * 20 < kept);
}

}  // namespace
}  // namespace thunder::fuser
