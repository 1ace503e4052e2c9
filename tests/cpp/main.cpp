// doctest's main(), once; the tests stand beside it in folders that mirror csrc/.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

namespace {

constexpr unsigned kMostSeconds = 900;

/// Ends the process in a test case that stands still: doctest's handler of SIGABRT names the case.  THUNDER_FUZZ asks
/// for cases of any length.
struct Watch : doctest::IReporter {
  explicit Watch(const doctest::ContextOptions&) {}

  void test_case_start(const doctest::TestCaseData&) override {
    if (std::getenv("THUNDER_FUZZ")) return;
    std::signal(SIGALRM, [](int) { std::abort(); });
    ::alarm(kMostSeconds);
  }
  void test_case_end(const doctest::CurrentTestCaseStats&) override { ::alarm(0); }

  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};

REGISTER_LISTENER("watch", 1, Watch);

}  // namespace
