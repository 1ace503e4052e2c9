// Arrays of the reference evaluator as bytes in memory, laid out as a type says.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "core/type.h"
#include "reference/array.h"

namespace thunder::test {

/// Memory of a tensor, aligned to 64 bytes, with a margin behind it that must stay as it is.
class Memory {
 public:
  explicit Memory(const TensorType& type);
  void* data() { return bytes_.data() + start_; }
  size_t size() const { return size_; }
  void write(const reference::Array& from);
  reference::ArrayPtr read() const;
  /// Whether nobody wrote behind the end.
  bool margin_intact() const;

 private:
  size_t offset(const reference::Shape& index) const;
  TensorType type_;
  reference::Shape shape_;
  std::vector<unsigned char> bytes_;
  size_t start_ = 0, size_ = 0;
};

}  // namespace thunder::test
