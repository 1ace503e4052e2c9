// The evaluator for several processes: what collectives give, and that it finds programs that do not fit together.
#include "reference/spmd.h"

#include <doctest.h>

#include "core/error.h"
#include "core/parse.h"
#include "core/verify.h"
#include "ops/families.h"

namespace thunder::reference {
namespace {

Trace program(const std::string& text) {
  ops::register_all();
  Trace t = parse(text);
  verify(t);
  return t;
}

Datum rows_of(const Shape& shape, const std::vector<double>& values, DType t = DType::f64) {
  ArrayPtr a = make_array(t, Device{}, shape);
  for (size_t i = 0; i < values.size(); ++i) a->data[i] = Element::real(values[i]);
  return Datum(a);
}

std::vector<double> values(const Datum& d) {
  std::vector<double> out;
  for (const Element& e : d.array->data) out.push_back(e.re);
  return out;
}

using Numbers = std::vector<double>;

const std::string kHead = "def f(x):\n  # x: \"cpu f64[2]\"\n";

// One collective of `x`, and its result.
Trace one(const std::string& call, const std::string& type) {
  return program(kHead + "  p1 = prims." + call + "  # p1: \"FUTURE " + type + "\"\n  t2 = prims.wait(p1)  # t2: \"" +
                 type + "\"\n  return t2\n");
}

std::vector<Datum> inputs(std::initializer_list<Numbers> by_rank) {
  std::vector<Datum> out;
  for (const Numbers& n : by_rank) out.push_back(rows_of({static_cast<int64_t>(n.size())}, n));
  return out;
}

std::vector<std::vector<Datum>> by_process(const std::vector<Datum>& x) {
  std::vector<std::vector<Datum>> out;
  for (const Datum& d : x) out.push_back({d});
  return out;
}

// What the run says; empty if nothing is wrong.
template <class E = Diverged>
std::string complaint(const std::vector<Trace>& traces) {
  std::vector<const Trace*> programs;
  for (const Trace& t : traces) programs.push_back(&t);
  std::vector<std::vector<Datum>> x(traces.size(), {rows_of({2}, {1, 2})});
  try {
    Processes(traces.size()).run(programs, x);
  } catch (const E& e) {
    return e.what();
  }
  return "";
}

TEST_CASE("spmd: groups of the same size, and reductions over replicas") {
  const auto x = by_process(inputs({{1, 2}, {3, 5}, {7, 8}, {9, 11}}));
  auto run = [&](const Trace& t) { return reference::Processes(4, {}, 2).run(std::vector<const Trace*>(4, &t), x); };
  std::vector<Datum> own = run(one("all_reduce([x], 'sum', 'g', 2)", "cpu f64[2]"));
  CHECK(values(own[1]) == Numbers{4, 7});
  CHECK(values(own[2]) == Numbers{16, 19});
  for (auto [op, result] : std::vector<std::pair<std::string, Numbers>>{{"sum", {20, 26}}, {"avg", {5, 6.5}}}) {
    const std::string rest = "_replicas([x], '" + op + "', 'g', 2, 'c', 2)";
    std::vector<Datum> all = run(one("all_reduce" + rest, "cpu f64[2]"));
    std::vector<Datum> part = run(one("reduce_scatter" + rest, "cpu f64[1]"));
    for (size_t r = 0; r < 4; ++r) {
      CHECK(values(all[r]) == result);
      CHECK(values(part[r]) == Numbers{result[r % 2]});
    }
  }
  CHECK_THROWS_AS(run(one("all_reduce_replicas([x], 'sum', 'g', 2, 'c', 3)", "cpu f64[2]")), reference::Wrong);
}

TEST_CASE("spmd: what collectives give") {
  const auto x = by_process(inputs({{1, 2}, {3, 5}}));
  Trace gather = one("all_gather([x], 'g', 2)", "cpu f64[4]");
  for (const Datum& d : spmd(gather, x)) CHECK(values(d) == Numbers{1, 2, 3, 5});
  for (auto [op, result] : std::vector<std::pair<std::string, Numbers>>{
           {"sum", {4, 7}}, {"avg", {2, 3.5}}, {"max", {3, 5}}, {"min", {1, 2}}}) {
    std::vector<Datum> all = spmd(one("all_reduce([x], '" + op + "', 'g', 2)", "cpu f64[2]"), x);
    std::vector<Datum> part = spmd(one("reduce_scatter([x], '" + op + "', 'g', 2)", "cpu f64[1]"), x);
    for (size_t r = 0; r < 2; ++r) {
      CHECK(values(all[r]) == result);
      CHECK(values(part[r]) == Numbers{result[r]});
    }
  }
}

TEST_CASE("spmd: several tensors in one collective, two groups, results in another order than starts") {
  Trace t = program(
      "def f(x, y):\n  # x: \"cpu f64[1, 2]\"\n  # y: \"cpu f64[0]\"\n"
      "  p1 = prims.all_gather([x, y], 'a', 3)  # p1: \"FUTURE cpu f64[3, 2], cpu f64[0]\"\n"
      "  p2 = prims.all_reduce([x], 'max', 'b', 3)  # p2: \"FUTURE cpu f64[1, 2]\"\n"
      "  t3 = prims.wait(p2)  # t3: \"cpu f64[1, 2]\"\n"
      "  (t4, t5) = prims.wait(p1)\n    # t4: \"cpu f64[3, 2]\"\n    # t5: \"cpu f64[0]\"\n"
      "  return (t3, t4, t5)\n");
  std::vector<std::vector<Datum>> x;
  for (double r : {0., 2., 1.}) x.push_back({rows_of({1, 2}, {r, -r}), rows_of({0}, {})});
  for (const Datum& d : spmd(t, x)) {
    CHECK(values(d.items[0]) == Numbers{2, 0});
    CHECK(values(d.items[1]) == Numbers{0, 0, 2, -2, 1, -1});
    CHECK(d.items[2].array->shape == Shape{0});
  }
}

TEST_CASE("spmd: gradients are kept per process, and outlive a run") {
  Trace keep = program(kHead + "  prims.keep_gradient(x, 'm', 3)\n  return None\n");
  Trace take = program(kHead + "  t1 = prims.add_kept_gradient(x, 'm', 3)  # t1: \"cpu f64[2]\"\n  return t1\n");
  Processes group(2);
  const auto x = by_process(inputs({{1, 2}, {3, 5}}));
  auto run = [&](const Trace& t) { return group.run({&t, &t}, x); };
  run(keep);
  run(keep);
  CHECK(group.kept() == 2);
  std::vector<Datum> sums = run(take);
  CHECK(values(sums[0]) == Numbers{3, 6});
  CHECK(values(sums[1]) == Numbers{9, 15});
  CHECK(group.kept() == 0);
  CHECK(values(run(take)[1]) == Numbers{3, 5});
}

const std::string kGather = "  p1 = prims.all_gather([x], 'g', 2)  # p1: \"FUTURE cpu f64[4]\"\n";
const std::string kReduce = "  p2 = prims.all_reduce([x], 'sum', 'g', 2)  # p2: \"FUTURE cpu f64[2]\"\n";
const std::string kWaits = "  t3 = prims.wait(p1)  # t3: \"cpu f64[4]\"\n  t4 = prims.wait(p2)  # t4: \"cpu f64[2]\"\n";
const std::string kReturn = "  return x\n";

TEST_CASE("spmd: two starts in another order on one process") {
  Trace a = program(kHead + kGather + kReduce + kWaits + kReturn);
  Trace b = program(kHead + kReduce + kGather + kWaits + kReturn);
  CHECK(complaint({a, a}) == "");
  CHECK(complaint({a, b}).starts_with(
      "start 0 of the group 'g' is prims.all_reduce 'g' sum cpu f64[2] on process 1, and prims.all_gather 'g' cpu "
      "f64[2] on one before it, in: p2 = prims.all_reduce([x], 'sum', 'g', 2"));
}

TEST_CASE("spmd: starts that differ in a type, a reduction, or how many tensors they take") {
  Trace a = program(kHead + kReduce + kReturn);
  for (const char* other : {"  p2 = prims.all_reduce([x], 'avg', 'g', 2)  # p2: \"FUTURE cpu f64[2]\"\n",
                            "  p2 = prims.all_reduce([x, x], 'sum', 'g', 2)  # p2: \"FUTURE cpu f64[2], cpu f64[2]\"\n",
                            "  t1 = prims.convert_element_type(x, torch.float32)  # t1: \"cpu f32[2]\"\n"
                            "  p2 = prims.all_reduce([t1], 'sum', 'g', 2)  # p2: \"FUTURE cpu f32[2]\"\n",
                            "  t1 = prims.reshape(x, [1, 2])  # t1: \"cpu f64[1, 2]\"\n"
                            "  p2 = prims.all_reduce([t1], 'sum', 'g', 2)  # p2: \"FUTURE cpu f64[1, 2]\"\n"})
    CHECK(complaint({a, program(kHead + other + kReturn)}).starts_with("start 0 of the group 'g' is "));
}

TEST_CASE("spmd: a start that one process leaves out") {
  Trace both = program(kHead + kGather + kReduce + kWaits + kReturn);
  Trace gathers = program(kHead + kGather + "  t3 = prims.wait(p1)  # t3: \"cpu f64[4]\"\n" + kReturn);
  CHECK(complaint({both, gathers}) ==
        "nothing moves any more:\n"
        "  process 0 waits for start 1 of the group 'g', prims.all_reduce 'g' sum cpu f64[2]; started 2 of the group "
        "'g'\n"
        "  process 1 has ended; started 1 of the group 'g'");
  Trace unread = program(kHead + kGather + kReduce + kReturn);
  CHECK(complaint({gathers, unread}) ==
        "process 0 ends without start 1 of the group 'g', prims.all_reduce 'g' sum cpu f64[2]");
}

TEST_CASE("spmd: processes that wait for each other") {
  auto two = [](const char* first, const char* second) {
    std::string text = kHead;
    for (const char* g : {first, second})
      text += cat("  p", g, " = prims.all_reduce([x], 'sum', '", g, "', 2)  # p", g, ": \"FUTURE cpu f64[2]\"\n  t", g,
                  " = prims.wait(p", g, ")  # t", g, ": \"cpu f64[2]\"\n");
    return program(text + kReturn);
  };
  CHECK(complaint({two("7", "8"), two("7", "8")}) == "");
  const std::string text = complaint({two("7", "8"), two("8", "7")});
  CHECK(text.find("process 0 waits for start 0 of the group '7'") != std::string::npos);
  CHECK(text.find("process 1 waits for start 0 of the group '8'") != std::string::npos);
}

TEST_CASE("spmd: futures that are read twice, returned, or dropped") {
  Trace twice = program(kHead + kGather + "  t3 = prims.wait(p1)  # t3: \"cpu f64[4]\"\n" +
                        "  t4 = prims.wait(p1)  # t4: \"cpu f64[4]\"\n" + kReturn);
  CHECK(complaint<Wrong>({twice, twice}).starts_with("process 1 waits twice for prims.all_gather"));
  Trace returned = program(kHead + kGather + "  return p1\n");
  CHECK(complaint<Wrong>({returned, returned}) == "process 0 returns a future");
  Trace dropped = program(kHead + kGather + "  del p1\n" + kReturn);
  Processes group(2);
  group.run({&dropped, &dropped}, by_process(inputs({{1, 2}, {3, 5}})));
  CHECK(group.unread() == 2);
  CHECK(group.starts()[1] == std::vector<std::string>{"prims.all_gather 'g' cpu f64[2]"});
  Trace other_world = program(kHead + "  p1 = prims.all_gather([x], 'g', 3)  # p1: \"FUTURE cpu f64[6]\"\n" + kReturn);
  CHECK(complaint<Wrong>({other_world, other_world}).starts_with("a group of 2 processes is expected"));
}

}  // namespace
}  // namespace thunder::reference
