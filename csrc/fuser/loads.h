// Elements that a kernel reads from memory: part of lowering (lower.cpp).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fuser/chunk_vectors.h"
#include "fuser/kept_elements.h"

namespace thunder::fuser {

class Loads {
 public:
  Loads(KernelInProgress& made, KeptElements& kept, ChunkVectors& vectors)
      : made_(made), kept_(kept), vectors_(vectors) {}

  enum class Tensor : uint8_t {
    Given,
    Optional,  ///< there may be none, which stands for zeros
  };
  Scalar load(Value v, const Multi& index, Tensor tensor = Tensor::Given);
  /// The number of an input of the kernel, which the value is from now on.
  size_t input(Value v);
  const std::vector<Access>& reads() const { return reads_; }

 private:
  Index from_pointer(size_t number, const Index& at);
  std::string place_text(const Index& at);
  /// A load of truth values, `text`, from a buffer of the row with integers where there is room for one.
  std::string widened(const std::string& array, const Index& at, std::string text);
  Scalar load_single(DType t, const Index& at, size_t number, bool few, const std::string& present);
  Scalar load_vector(DType t, const Index& start, const std::string& array, const std::string& present);
  std::optional<Places::Neighbours> readable_neighbours(const TensorType& t, const Index& at);
  Scalar load_neighbours(DType t, const Places::Neighbours& near, size_t number);

  KernelInProgress& made_;
  KeptElements& kept_;
  ChunkVectors& vectors_;
  std::map<ValueId, size_t> input_of_;
  std::vector<char> has_offset_;
  std::vector<Access> reads_;
  std::map<std::string, std::string> widened_;  // by array and place
};

}  // namespace thunder::fuser
