// What a Program consists of, for those who make instructions: executors register how their calls become instructions.
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/util/FunctionRef.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/trace.h"

namespace thunder {

/// Tensors of the caller's to which a program may add results where it computes them, instead of returning them.
class Accumulation {
 public:
  virtual ~Accumulation() = default;
  /// Adds to the tensor; false if it cannot be added to like that, which leaves the tensor as it was.
  using Add = c10::function_ref<bool(const at::Tensor&)>;
  /// Calls `add` with the tensor for output `i` of the program, if there is one; `i` is 0 for Instruction::sums().
  /// Whether the result was added.
  virtual bool add(size_t i, Add add) = 0;
};

/// The state of one run.
struct Frame {
  std::vector<c10::IValue> registers;
  std::vector<c10::IValue> stack;        ///< arguments and results of boxed calls
  Accumulation* accumulation = nullptr;  ///< null: all results are returned
  bool watched = false;                  ///< somebody sees operators: no kernel runs that is none
};

/// Where an argument comes from when the program runs.
struct Operand {
  enum class Kind : uint8_t { Constant, Register, Expression, List };
  /// What to make of a number in a register.
  enum class Convert : uint8_t { None, Float, Int, Bool, Tensor };
  enum class Element : uint8_t { Tensor, OptionalTensor, Int, Float, Bool, Any };

  Kind kind = Kind::Constant;
  Convert convert = Convert::None;
  Element element = Element::Any;                     ///< of a List
  at::ScalarType number = at::ScalarType::Undefined;  ///< of what Convert::Tensor makes; see number_as_tensor()
  bool last = false;                                  ///< the register's last reader: it is moved out
  uint32_t reg = 0;
  c10::IValue constant;
  std::vector<int64_t> ints;  ///< a constant list of ints, for kernels
  Dim expression;
  std::vector<std::pair<SymbolId, uint32_t>> symbols;  ///< registers of the symbols in `expression`
  std::vector<Operand> items;

  static Operand of(c10::IValue constant);
  c10::IValue load(Frame& frame) const;
  int64_t evaluate(const Frame& frame) const;
};

/// Gives operands for the values that a call reads.
class Assembler {
 public:
  virtual ~Assembler() = default;
  virtual uint32_t register_of(Value v) const = 0;
  virtual uint32_t register_of(SymbolId s) const = 0;
  Operand value(Value v, Operand::Convert convert = Operand::Convert::None) const;
  Operand expression(const Dim& dim) const;
  /// An argument as what it is: a dtype as its number in ATen, a list of ints as such, other lists element by element.
  Operand natural(const Arg& arg) const;
};

class Instruction {
 public:
  virtual ~Instruction() = default;
  /// Leaves results in the registers `outputs`.
  virtual void run(Frame& frame) const = 0;
  virtual bool needs_python() const { return false; }
  /// Whether it may add its one result to a tensor that is there, by accumulated().
  virtual bool can_accumulate() const { return false; }
  /// The sums over runs in which the instruction accumulates its one operand.  The instruction that makes the operand
  /// may add its result to the sums directly, and then leaves None in the register.  Null for an instruction without
  /// sums.
  virtual Accumulation* sums() { return nullptr; }
  virtual std::string str() const = 0;

  /// Loaded in this order, each once, if `moves_operands`; registers whose last reader is this call are then moved by
  /// their last operand, else dropped before the results are stored.
  std::vector<Operand> operands;
  std::vector<int32_t> outputs;  ///< a register for each result; -1: nobody reads it
  std::vector<uint32_t> drops;
  bool moves_operands = true;
  int32_t adds_to = -1;  ///< the program's output that its result is, where nothing else reads it; else -1
  Accumulation* reader_sums = nullptr;  ///< sums() of what alone reads its result, where a product may be added to them
  std::string where;                    ///< the user's line, for errors

 protected:
  /// Adds the result to the caller's tensor if there is one that `add` takes, and leaves none in the register.
  bool accumulated(Frame& frame, Accumulation::Add add) const {
    const bool is_output = adds_to >= 0;
    Accumulation* sums = is_output ? frame.accumulation : frame.watched ? nullptr : reader_sums;
    if (!sums || !sums->add(is_output ? static_cast<size_t>(adds_to) : 0, add)) return false;
    drop(frame);
    frame.registers[static_cast<size_t>(outputs[0])] = c10::IValue();
    return true;
  }
  void drop(Frame& frame) const {
    for (uint32_t r : drops) frame.registers[r] = c10::IValue();
  }
};

/// Makes the instruction for a claimed call; `outputs` is filled in by the caller.  `outputs` of the instruction are
/// the call's flat results (None included).
using LowerFn = std::function<std::unique_ptr<Instruction>(const Call& call, const Assembler& assembler)>;

/// How calls of operators with `Op::executor == executor` are lowered.  Calls of executors that registered nothing are
/// Python's: `Op::context_owner` holds the callable.
void register_lowering(const std::string& executor, LowerFn lower);
/// Null if none is registered.
const LowerFn* find_lowering(const std::string& executor);

/// The default for executors written in Python.
std::unique_ptr<Instruction> lower_python_call(const Call& call, const Assembler& assembler);

/// The results of a call, flat: values, or empty Values for None.
std::vector<Value> flat_results(const Arg& output);

}  // namespace thunder
