#include "passes/pass.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "passes/pass_ops.h"
#include "passes/passes.h"

namespace thunder {
namespace {

using test::f32;
using test::pass_builder;

Trace exp_of_input() {
  Builder b = pass_builder();
  Value x = b.input(f32({2}), "x");
  return b.finish("computation", Arg::tuple({b("pt.exp", x)}));
}

Trace same(const Trace& t) { return t; }

// Sets a variable for the length of a scope.
struct Variable {
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }
  const char* name_;
};

TEST_CASE("run_pass: stamps what made the trace and keeps the history") {
  TraceHistory history;
  Trace t = run_pass({"id", "Some Title"}, exp_of_input(), same, {}, &history);
  CHECK(t.provenance.pass == "Some Title");
  CHECK(t.provenance.milliseconds >= 0);
  REQUIRE(history.size() == 1);
  CHECK(print(history[0]).starts_with("# Constructed by Some Title (took "));
}

TEST_CASE("run_pass: an invalid trace is the pass's fault, which is named") {
  PassOptions options;
  auto drop_all = [](const Trace& t) { return t.derived(); };
  CHECK_NOTHROW(run_pass("broken", exp_of_input(), drop_all, options, nullptr));
  options.verify = true;
  CHECK_NOTHROW(run_pass("fine", exp_of_input(), same, options, nullptr));
  CHECK_THROWS_WITH_AS(run_pass("broken", exp_of_input(), drop_all, options, nullptr),
                       doctest::Contains("pass 'broken'"), Error);
}

TEST_CASE("run_pass: skips by id and by title, but not what is required") {
  PassOptions options;
  options.skip = {"a", "Title B"};
  TraceHistory history;
  Trace t = exp_of_input();
  run_pass({"a", "Title A"}, t, same, options, &history);
  run_pass({"b", "Title B"}, t, same, options, &history);
  CHECK(history.empty());
  run_pass({"a", "Title A"}, t, same, options, &history, true);
  CHECK(history.size() == 1);
}

TEST_CASE("run_pass: bisecting runs the first n optional passes") {
  PassOptions options;
  options.bisect = 1;
  PassOptions copy = options;
  TraceHistory history;
  Trace t = exp_of_input();
  run_pass("first", t, same, options, &history);
  run_pass("second", t, same, copy, &history);
  run_pass("third", t, same, copy, &history, true);
  REQUIRE(history.size() == 2);
  CHECK(history[0].provenance.pass == "first");
  CHECK(history[1].provenance.pass == "third");
}

TEST_CASE("run_pass: dumps every trace as a file of its own") {
  std::filesystem::path folder = std::filesystem::temp_directory_path() / ("thunder_dump_" + std::to_string(getpid()));
  PassOptions options;
  options.dump = folder.string();
  Trace t = exp_of_input();
  run_pass("one pass", t, same, options, nullptr);
  run_pass("two", t, same, options, nullptr);
  std::vector<std::string> names;
  for (const auto& f : std::filesystem::directory_iterator(folder)) names.push_back(f.path().filename().string());
  std::sort(names.begin(), names.end());
  REQUIRE(names.size() == 2);
  CHECK(names[0].substr(4) == "_computation_one_pass.py");
  CHECK(names[1].substr(4) == "_computation_two.py");
  std::ifstream in(folder / names[0]);
  std::string line;
  std::getline(in, line);
  CHECK(line.starts_with("# Constructed by one pass"));
  std::filesystem::remove_all(folder);
  options.dump = "/proc/no/such/folder";
  CHECK_THROWS(run_pass("one", t, same, options, nullptr));
}

TEST_CASE("run_pass: options come from the environment") {
  CHECK_FALSE(PassOptions::from_environment().verify);
  Variable verify("THUNDER_VERIFY", "1"), dump("THUNDER_DUMP", "/tmp/d"), skip("THUNDER_SKIP", "cse,dce");
  PassOptions o = PassOptions::from_environment();
  CHECK(o.verify);
  CHECK(o.dump == "/tmp/d");
  CHECK(o.skip == std::vector<std::string>{"cse", "dce"});
  CHECK(o.bisect == -1);
  {
    Variable bisect("THUNDER_BISECT", "12");
    CHECK(PassOptions::from_environment().bisect == 12);
  }
  Variable bisect("THUNDER_BISECT", "1x");
  CHECK_THROWS_WITH_AS(PassOptions::from_environment(), doctest::Contains("THUNDER_BISECT"), Error);
}

}  // namespace
}  // namespace thunder
