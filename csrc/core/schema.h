// Schema strings: an operator's signature, from which parsing, binding, printing, documentation and tests are made.
//
//   "softmax(Tensor input, int? dim=None, *, dtype? dtype=None) -> Tensor"
//
// Types: Tensor, Number (a Python number, or a number value), Scalar (Tensor or Number), int, float, bool, str, dtype,
// device, layout, memory_format, index (what may stand in x[...]), any.  Suffixes: `?` may be None, `[]` a list (an int
// where `int[]` is declared is a list of one, `int[2]` repeats it, `int[:]` takes none; `Tensor[]` may hold None),
// `...` in front of a name: also accepted as separate positional arguments (`x.view(2, 3)`).  A `*` makes what follows
// keyword-only.  Results: `Tensor`, `(Tensor, Tensor)`, `Tensor[]`, `None`, or `any`: what the meta gives, one result
// or a tuple.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/value.h"

namespace thunder {

struct Param {
  // clang-format off
  enum class Kind : uint8_t {
    Tensor, Number, Scalar, Int, Float, Bool, Str, DType, Device, Layout, MemoryFormat, Index, Any
  };
  // clang-format on
  std::string name;
  Kind kind = Kind::Any;
  bool optional = false;  ///< `?`
  bool list = false;      ///< `[]`
  int repeat = 0;         ///< n of `int[n]`
  bool strict = false;    ///< `[:]`
  bool varargs = false;   ///< `...name`
  bool keyword_only = false;
  std::optional<Arg> default_value;
};

struct Schema {
  std::string name;      ///< without level and overload: "softmax"
  std::string overload;  ///< "dim" of "max.dim"
  std::vector<Param> params;
  std::string results;  ///< as written

  /// Error (Internal) says where the text is wrong.
  static Schema parse(std::string_view text);
  std::string str() const;
  /// -1 if there is none of that name.
  int index_of(std::string_view param) const;
};

/// Binds positional and keyword arguments to a schema: one Arg per parameter, in order, defaults filled in, ints turned
/// into lists where a list is declared.  A keyword may be NumPy's name of a parameter, as in PyTorch (axis, keepdims,
/// x, a, x1, x2).  Nothing, and `why`, if they do not fit; a failed bind is how overloads are told apart.  Error
/// (Runtime), as in PyTorch, for a device that there cannot be, whatever other overloads take.
std::optional<ArgList> bind(const Schema& schema, const ArgList& positional,
                            const std::vector<std::pair<std::string, Arg>>& keyword, std::string* why = nullptr);

/// Whether an argument may stand for a parameter.
bool accepts(const Param& param, const Arg& arg);

}  // namespace thunder
