// Lengths found in tensors with equal elements.
#include "core/equal_sources.h"

#include <doctest.h>

#include <stdexcept>
#include <thread>

#include "core/dim.h"

namespace thunder {
namespace {

const char kSources[3] = {};
const void* const kA = &kSources[0];
const void* const kB = &kSources[1];
const void* const kC = &kSources[2];

/// Knows that two sources are equal.
struct AEqualsB : EqualSources {
  const void* first(const void* source) override { return source == kB ? kA : source; }
};

TEST_CASE("EqualSources: where none is current every tensor stands for itself") {
  ShapeEnv env;
  CHECK(EqualSources::current() == nullptr);
  const Dim a = env.symbol_of("nonzero", kA);
  CHECK(a.same(env.symbol_of("nonzero", kA)));
  CHECK_FALSE(a.same(env.symbol_of("nonzero", kB)));
}

TEST_CASE("EqualSources: symbol_of gives one length for tensors with equal elements") {
  ShapeEnv env;
  AEqualsB equal;
  EqualSources::Scope scope(&equal);
  const Dim b = env.symbol_of("nonzero", kB);
  CHECK(b.same(env.symbol_of("nonzero", kA)));
  CHECK_FALSE(b.same(env.symbol_of("nonzero", kC)));
  CHECK_FALSE(b.same(env.symbol_of("unique", kA)));
}

TEST_CASE("EqualSources: a scope puts back what was current before, after an error too") {
  AEqualsB outer, inner;
  {
    EqualSources::Scope scope(&outer);
    {
      EqualSources::Scope within(&inner);
      CHECK(EqualSources::current() == &inner);
      EqualSources::Scope none(nullptr);
      CHECK(EqualSources::current() == nullptr);
    }
    CHECK(EqualSources::current() == &outer);
    try {
      EqualSources::Scope within(&inner);
      throw std::runtime_error("inside");
    } catch (const std::runtime_error&) {
    }
    CHECK(EqualSources::current() == &outer);
  }
  CHECK(EqualSources::current() == nullptr);
}

TEST_CASE("EqualSources: current on one thread is not current on another") {
  AEqualsB equal;
  EqualSources::Scope scope(&equal);
  const EqualSources* seen = &equal;
  std::thread([&] { seen = EqualSources::current(); }).join();
  CHECK(seen == nullptr);
}

}  // namespace
}  // namespace thunder
