// The part of a prelude that kernels use.
//
// The host's compiler takes 10 ms for the whole prelude, as long as for a kernel.  A kernel uses a tenth of the prelude.
//
//   struct bf16 { uint16 bits; };                     the prelude, which has `uint16` above
//   TH_UNARY(asin) TH_UNARY(acos)
//   static inline float th_get(bf16 x) { ... }
//   template <class T> static inline T th_get(T x) { return x; }
//
//   y = th_asin(x);   uses   TH_UNARY(asin)   and   #define TH_UNARY, whatever that names, ...
//   y = th_get(x);    uses   both th_get, and what they name: bf16 and its uint16
//
// The division is by names alone and not by types: a name stands for all that define it, overloads and specialisations.
// What defines no name that is recognised (operators, enums, namespaces, static_assert, #pragma) stays in each part.
//
// Precondition of a prelude: a compiler accepts it; a conditional inside of a declaration closes the brackets that it
// opens; no variable is declared behind the `}` of its type; a macro with arguments that begins an item is all of it.  Of
// kernels: their own macros make no name of the prelude by `##`.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "fuser/prelude_tokens.h"

namespace thunder::fuser {

struct PreludeParts {
  /// What stands alone at the top: a declaration, a #define, the use of a macro, a conditional from #if to #endif.
  struct Item {
    std::string text;
    std::vector<std::string> names;  ///< which it defines
    std::vector<size_t> needs;       ///< the items, ascending, that define the names in its text
  };
  std::vector<Item> items;  ///< in the order of the text
  std::map<std::string, std::vector<size_t>, std::less<>> by_name;
  Macros macros;
};

/// Takes a millisecond: once for each prelude.
PreludeParts divide_prelude(const std::string& prelude);

/// The items that kernels use, those that these use, and those without a name, in the order of the prelude.
std::string used_part(const PreludeParts& prelude, std::string_view kernels);

}  // namespace thunder::fuser
