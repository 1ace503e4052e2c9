// One matrix product, ready to run: descriptors, and for each device the algorithm that was the fastest there.
//
// cuBLASLt proposes algorithms in the order of what its model expects, and the first is mostly as good as any: large
// products are bound by the power that the GPU may draw, where all good algorithms take the same time, whatever a short
// measurement says.  For small and oddly shaped ones the model is sometimes far off.  So the first run on a device
// measures all that are proposed, on the product's own operands, and another than the first is taken only where it is
// clearly faster.  What was found is kept on disk.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/kernels/cublaslt_api.h"
#include "runtime/kernels/cuda_driver.h"
#include "runtime/kernels/disk_cache.h"
#include "runtime/kernels/matrix_product.h"

namespace thunder::cublaslt {

/// Addresses on a device, multiples of kAlignment.
struct ProductOperands {
  const void *first = nullptr, *second = nullptr, *bias = nullptr;
  void* out = nullptr;
  bool accumulate = false;                                     ///< the product is added to what `out` holds
  const void *first_scale = nullptr, *second_scale = nullptr;  ///< of float8, a float each
};
constexpr uintptr_t kAlignment = 16;

class CublasLtProduct {
 public:
  /// The one for `problem`, made when it is first asked for; products of one form share what was measured.
  static std::shared_ptr<const CublasLtProduct> get(const Api& api, const MatrixProduct& problem);
  CublasLtProduct(const Api& api, const MatrixProduct& problem);
  ~CublasLtProduct();
  CublasLtProduct(const CublasLtProduct&) = delete;
  CublasLtProduct& operator=(const CublasLtProduct&) = delete;

  const MatrixProduct& problem() const { return problem_; }

  /// Gives memory on the stream for the length of the run.
  using Workspace = std::function<void*(size_t bytes)>;
  /// Asynchronous.  `measure`: the algorithm may be chosen by its time, where that is not known yet and the stream can
  /// be waited for; else cuBLASLt's first choice is taken.  An empty string, or why the product cannot be computed.
  std::string run(int device, void* stream, const ProductOperands& operands, const Workspace& workspace,
                  bool measure) const;
  /// Whether a run would find its algorithm without measuring, which overwrites `out` time and again: only then may it
  /// accumulate.
  bool ready(int device, bool measure) const;

 private:
  struct Choice {
    Algorithm algorithm;
    size_t workspace = 0;
  };
  struct Run {
    int device;
    void* stream;
    const ProductOperands& operands;
    const Workspace& workspace;
  };
  struct Known {
    std::optional<Choice> first, measured;
  };
  using Description = std::shared_ptr<void>;
  using UsedCache = std::optional<DiskCache>;  // its warning waits until no lock is held

  int launch(const Run& run, const Choice& choice) const;
  std::vector<Choice> proposed(int device) const;
  std::vector<Choice> proposed(int device, size_t workspace) const;
  std::optional<Choice> remembered(int device, UsedCache& used) const;
  std::optional<Choice> fastest(const Run& run, const std::vector<Choice>& choices) const;
  std::optional<Choice> known(int device, bool measure, UsedCache& used) const;
  std::optional<Choice> choice(const Run& run, bool measure, UsedCache& used) const;
  void remember(int device, const Choice& choice, UsedCache& used) const;
  Description describe(int device, const ProductOperands& operands) const;

  const Api& api_;
  const MatrixProduct problem_;
  Description desc_;  // if it holds no addresses (of a bias, of scales) and nothing of a device
  MatrixLayout first_ = nullptr, second_ = nullptr, out_ = nullptr;
  mutable std::mutex mutex_;
  mutable std::array<Known, kMaxDevices> known_;
};

}  // namespace thunder::cublaslt
