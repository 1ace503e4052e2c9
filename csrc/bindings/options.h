// The options of `thunder.jit` in C++.
#pragma once

#include <atomic>
#include <memory>

#include "bindings/bind.h"
#include "jit/user_function.h"

namespace thunder::bindings {

/// Of one Float8: whether a backward has put maxima into its history.
struct Float8Recorded {
  std::shared_ptr<std::atomic<bool>> yes = std::make_shared<std::atomic<bool>>(false);
};

/// `options`: the record `Options` of thunder/_options.py, whose values are checked.  `fn`: the user's function.
JitOptions read_options(nb::handle options, nb::handle fn);

}  // namespace thunder::bindings
