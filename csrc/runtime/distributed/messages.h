// What the ranks of a group write into its Store for each other: fields, so that no text decides anything.
//
// A message is its fields one after the other, each with a space behind it; a text has its length in front, so that any
// text comes back as it was.  A kind of message lists its fields once, in each_field(), for both directions.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/error.h"

namespace thunder::distributed::detail {

class MessageWriter {
 public:
  void operator()(uint64_t number) { written_ += cat(number, " "); }
  void operator()(int number) { written_ += cat(number, " "); }
  void operator()(bool flag) { written_ += flag ? "1 " : "0 "; }
  void operator()(const std::string& text) { written_ += cat(text.size(), " ", text, " "); }
  const std::string& written() const { return written_; }

 private:
  std::string written_;
};

class MessageReader {
 public:
  explicit MessageReader(std::string_view message) : rest_(message) {}

  template <class Number>
  void operator()(Number& number) {
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), number);
    check(error == std::errc());
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    pass_space();
  }
  void operator()(bool& flag) {
    int number = 0;
    (*this)(number);
    check(number == 0 || number == 1);
    flag = number == 1;
  }
  void operator()(std::string& text) {
    size_t size = 0;
    (*this)(size);
    check(size <= rest_.size());
    text = rest_.substr(0, size);
    rest_.remove_prefix(size);
    pass_space();
  }
  void end() const { check(rest_.empty()); }

 private:
  static void check(bool holds) {
    if (!holds) throw Error(ErrorKind::Runtime, "a rank runs another version of Thunder than this one");
  }
  void pass_space() {
    check(rest_.starts_with(' '));
    rest_.remove_prefix(1);
  }

  std::string_view rest_;
};

/// By value, because a list of fields is one for reading, too.
template <class Message>
std::string write_message(Message message) {
  MessageWriter writer;
  message.each_field(writer);
  return writer.written();
}

/// Error(Runtime) for what write_message() does not write of such a message.
template <class Message>
Message read_message(std::string_view text) {
  Message message{};
  MessageReader reader(text);
  message.each_field(reader);
  reader.end();
  return message;
}

/// Where a process's program stands while it waits.  A number of 0: nowhere, or at several places.
struct Place {
  uint64_t number = 0;  // among the group's collectives
  std::string group, what;

  template <class Field>
  void each_field(Field&& field) {
    field(number), field(group), field(what);
  }
};

struct Failure {
  int rank;  // -1: of the Store
  std::string text;
  bool passed_on = false;  // the failure of another group, which ended this one; the text names the rank

  template <class Field>
  void each_field(Field&& field) {
    field(rank), field(text), field(passed_on);
  }
};

/// A rank's last words, of which the first changes with each heartbeat.
struct Report {
  uint64_t counter = 0, started = 0, finished = 0;
  Place place;
  std::string text;

  template <class Field>
  void each_field(Field&& field) {
    field(counter), field(started), field(finished), field(text);
    place.each_field(field);
  }
  static Report parse(std::string_view message) { return read_message<Report>(message); }
  std::string words() const { return cat("started ", started, " collectives, finished ", finished, ", ", text); }
};

/// Of a text that ranks agree on.
struct Fingerprint {
  uint64_t hash = 0, size = 0;

  static Fingerprint of(std::string_view text) {
    uint64_t hash = 14695981039346656037ULL;  // FNV-1a: the same on all machines
    for (const unsigned char c : text) hash = (hash ^ c) * 1099511628211ULL;
    return {hash, text.size()};
  }
  template <class Field>
  void each_field(Field&& field) {
    field(hash), field(size);
  }
  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
};

/// A rank has given its text of an agreement.
struct Arrival {
  bool like_first = true;  // its text is that of the rank that came first

  template <class Field>
  void each_field(Field&& field) {
    field(like_first);
  }
};

}  // namespace thunder::distributed::detail
