// Why a program is acquired again.
//
// A reason is a value, which says what is otherwise in the next attempt.
#pragma once

#include <cstddef>
#include <string>
#include <variant>

namespace thunder {

namespace again {
/// What the function turned out to look at in its objects makes another key of the same arguments.
struct OtherKey {};
/// The program writes to memory that several inputs share: the memory is one input.
struct SharedMemory {
  const void* memory;
};
/// An argument begins to require a gradient.
struct BeginsToRequireGrad {
  size_t argument;
};
/// The attempt showed that a symbol must equal a constant or another symbol (Symbols::learn).  The next attempt uses
/// this fact from its beginning.
struct KnownSymbols {};
/// The attempt assumed that a data-dependent length differs from 0 and 1.  The next attempt asks for such lengths
/// (ShapeEnv::asks).
struct LengthsAsk {};
/// A library may have a wrong path for compilers and a right one for eager.  In the next attempt
/// torch.compiler.is_compiling() returns False.
struct SeemsEager {};
/// Numbers that the program reads from its tensors stay what they are in this call.
struct ReadsStay {};
/// All numbers of the call are constants in the next attempt.  `why`: the reason why the program cannot have symbols;
/// empty: the guards of the program with symbols do not hold for this call.
struct NumbersStay {
  std::string why;
};
/// Calls that draw random numbers are made as a whole.
struct DrawsApart {};
}  // namespace again

using Again =
    std::variant<again::OtherKey, again::SharedMemory, again::BeginsToRequireGrad, again::KnownSymbols,
                 again::LengthsAsk, again::SeemsEager, again::ReadsStay, again::NumbersStay, again::DrawsApart>;

}  // namespace thunder
