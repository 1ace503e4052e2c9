#include "runtime/distributed/messages.h"

#include <doctest.h>

#include <string>

namespace thunder::distributed::detail {
namespace {

TEST_CASE("a report comes back as it was written, whatever its texts hold") {
  const Report written{.counter = 7,
                       .started = 3,
                       .finished = 2,
                       .place = {.number = 3, .group = "a\tgroup", .what = "all_gather of h.3\nand 2 more"},
                       .text = "waits for 9 \n\t elements " + std::string(1, '\0')};
  const Report read = Report::parse(write_message(written));
  CHECK(read.counter == 7);
  CHECK(read.started == 3);
  CHECK(read.finished == 2);
  CHECK(read.place.number == 3);
  CHECK(read.place.group == written.place.group);
  CHECK(read.place.what == written.place.what);
  CHECK(read.text == written.text);
}

TEST_CASE("a failure says by a field, and not by its text, that another group failed") {
  for (const bool passed_on : {false, true}) {
    const Failure read = read_message<Failure>(
        write_message(Failure{.rank = 2, .text = "because rank 1 failed", .passed_on = passed_on}));
    CHECK(read.rank == 2);
    CHECK(read.text == "because rank 1 failed");
    CHECK(read.passed_on == passed_on);
  }
  CHECK(read_message<Failure>(write_message(Failure{-1, ""})).rank == -1);
}

TEST_CASE("texts of an agreement are told apart by their fingerprints") {
  const Fingerprint of_a = Fingerprint::of("a");
  CHECK(read_message<Fingerprint>(write_message(of_a)) == of_a);
  CHECK_FALSE(of_a == Fingerprint::of("b"));
  CHECK_FALSE(of_a == Fingerprint::of(""));
  CHECK_FALSE(read_message<Arrival>(write_message(Arrival{.like_first = false})).like_first);
}

TEST_CASE("what is no such message raises") {
  const std::string message = write_message(Failure{.rank = 2, .text = "why"});
  for (const std::string& wrong : {std::string(), std::string("2"), message.substr(1), message + " ", message + "1 ",
                                   message.substr(0, message.size() - 1), std::string("2 99 why 0 "),
                                   std::string("2 3 why 2 "), std::string("two 3 why 0 ")})
    CHECK_THROWS_AS(read_message<Failure>(wrong), Error);
}

}  // namespace
}  // namespace thunder::distributed::detail
