// The inputs of the computation: its values, where they come from, and what they are in this call.
//
// Owns the list, which is parallel to the inputs of the builder.  Calls the acquisition alone.
#pragma once

#include <optional>
#include <vector>

#include "core/number.h"
#include "frontend/acquisition.h"
#include "frontend/number_places.h"

namespace thunder::frontend {

/// Where an input of the computation comes from.
struct InputSource {
  enum Kind { Argument, Captured, Number, Read, Entry } kind = Argument;
  size_t argument = 0;         ///< index among the call's tensor arguments
  Ref tensor;                  ///< the captured tensor; what a value that reads computed is in this call
  bool whole_storage = false;  ///< not the tensor but its memory, as a 1-d tensor: several inputs share it
  NumberPtr number = nullptr;  ///< what a number is computed from
  bool integer = false;        ///< the number is an int
  Value value = {};            ///< that reads computed
  NumberPlace place = {};      ///< of an Entry, a number of the environment
  bool partial = false;        ///< the program sees the whole of what this process holds a part of
  bool leaf = false;           ///< the program is for a tensor that was not computed from others
  bool becomes_leaf = false;   ///< of an Argument that requires no gradient: the program switches it on
  /// Of a captured tensor that lies in a DTensor's memory: the DTensor, and a function that makes its gradient of the
  /// tensor's.
  Ref dtensor = {}, wrap = {};
};

struct Input {
  static constexpr TensorId kNumber = ~TensorId{0};

  InputSource source;
  TensorId id = kNumber;
  Ref real = {};              ///< as it is in this call; null for a number, and for what the epilogue alone reads
  bool must_be_leaf = false;  ///< the program is for calls in which it was not computed from others
  bool is_number() const { return id == kNumber; }
};

class Inputs {
 public:
  explicit Inputs(Acquisition& acquisition) : b_(acquisition.builder()), shapes_(acquisition.shapes()) {}

  size_t size() const { return inputs_.size(); }
  const Input& operator[](size_t i) const { return inputs_[i]; }
  std::vector<Input>::const_iterator begin() const { return inputs_.begin(); }
  std::vector<Input>::const_iterator end() const { return inputs_.end(); }
  /// The builder's input with this index.
  Value value(size_t i) const { return b_.inputs()[i]; }
  /// Which input a tensor is.
  std::optional<size_t> find(TensorId t) const;
  const InputSource& source_of(TensorId t) const { return inputs_.at(find(t).value_or(inputs_.size())).source; }

  /// Of a tensor, whose value is the builder's last input.
  void add(TensorId t, InputSource source, Ref real);
  Value add_number(NumberType type, NumberPtr number);
  /// A number of the environment, which each call reads from its place.
  Value add_entry(NumberPlace place, PyObject* now);
  /// A symbol for an int of the call, 2 or more: a size, a stride, an argument.  `may_be_one`: a size of 1 or more
  /// (ShapeEnv::make_size).
  Dim add_size(int64_t hint, bool may_be_one = false);
  /// The program is for calls in which this input was not computed from others.
  void require_leaf(size_t i) { inputs_[i].must_be_leaf = true; }

 private:
  Builder& b_;
  ShapeEnv& shapes_;
  std::vector<Input> inputs_;
};

}  // namespace thunder::frontend
