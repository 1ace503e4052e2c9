#include "passes/pass.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "core/error.h"
#include "core/print.h"
#include "core/progress.h"
#include "core/verify.h"

namespace thunder {
namespace {

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text ? text : "";
}

bool wanted(const PassName& name, const PassOptions& options) {
  for (const std::string& s : options.skip)
    if (s == name.id || s == name.title) return false;
  if (options.bisect < 0) return true;
  int index = options.asked->fetch_add(1);
  bool run = index < options.bisect;
  std::cerr << "bisect: " << (run ? "" : "not ") << "running pass " << index + 1 << ", " << name.id << '\n';
  return run;
}

void dump(const PassName& name, const Trace& trace, const std::string& folder) {
  static std::atomic<int> written{0};
  std::string id = name.id;
  std::replace_if(
      id.begin(), id.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
  char file[16];
  std::snprintf(file, sizeof file, "%04d_", written.fetch_add(1));
  std::filesystem::create_directories(folder);
  std::filesystem::path path = std::filesystem::path(folder) / (file + trace.name + "_" + id + ".py");
  std::ofstream out(path);
  out << print(trace);
  THUNDER_CHECK(out.good(), Runtime, "THUNDER_DUMP", "cannot write ", path.string());
}

void check(const PassName& name, const Trace& trace) {
  try {
    verify(trace);
  } catch (const Error& e) {
    throw Error(e.kind(), cat("pass '", name.id, "' made a trace that is not valid: ", e.what()));
  }
}

}  // namespace

PassOptions PassOptions::from_environment() {
  static const auto asked_in_process = std::make_shared<std::atomic<int>>(0);
  PassOptions o;
  o.asked = asked_in_process;
  std::string verify = variable("THUNDER_VERIFY");
  o.verify = !verify.empty() && verify != "0";
  o.dump = variable("THUNDER_DUMP");
  std::istringstream skip(variable("THUNDER_SKIP"));
  for (std::string name; std::getline(skip, name, ',');)
    if (!name.empty()) o.skip.push_back(name);
  if (std::string text = variable("THUNDER_BISECT"); !text.empty()) {
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), o.bisect);
    THUNDER_CHECK(error == std::errc() && end == text.data() + text.size(), Value, "THUNDER_BISECT",
                  "expected a number of passes, got '", text, "'");
  }
  return o;
}

Trace run_pass(const PassName& name, const Trace& trace, const std::function<Trace(const Trace&)>& pass,
               const PassOptions& options, TraceHistory* history, bool required) {
  if (!required && !wanted(name, options)) return trace;
  Progress::step("rewriting", [&] { return name.title; });
  auto start = std::chrono::steady_clock::now();
  Trace result = pass(trace);
  std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  result.provenance = {name.title, took.count()};
  if (!options.dump.empty()) dump(name, result, options.dump);
  if (options.verify) check(name, result);
  if (history) history->push_back(result);
  return result;
}

}  // namespace thunder
