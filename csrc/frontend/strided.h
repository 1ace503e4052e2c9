// as_strided(): a tensor anywhere in the memory of another one, also where that one has no elements of its own.
//
// A view that is written to becomes a new value of what it views, so it has to lie within that.  One that reaches
// further is taken of the memory, as a row:
//
//   v = x[1:3]                       x's memory has 4 elements
//   v.as_strided((2,), (2,))         -> x.as_strided((4,), (1,))[1:].as_strided((2,), (2,))
//
// Owns which inputs have such views.  Calls the tensors and the constants.
#pragma once

#include <unordered_set>

#include "frontend/acquisition.h"
#include "frontend/constants.h"
#include "frontend/inputs.h"
#include "frontend/proxies.h"
#include "frontend/tensors.h"

namespace thunder::frontend {

class StridedViews {
 public:
  StridedViews(Acquisition& acquisition, Proxies& proxies, Inputs& inputs, Tensors& tensors, Constants& constants)
      : acquisition_(acquisition),
        b_(acquisition.builder()),
        aliases_(acquisition.aliases()),
        proxies_(proxies),
        inputs_(inputs),
        tensors_(tensors),
        constants_(constants) {}

  /// What as_strided() with these sizes and strides, and this offset or None, is to be taken of, without an offset: the
  /// tensor, or where it reaches beyond its elements a row of the memory in which they lie.  None for an input's memory,
  /// of which PyTorch's as_strided() takes it.
  Ref memory_from(PyObject* tensor, PyObject* sizes, PyObject* strides, PyObject* storage_offset);
  /// Before a write.  Where views reach beyond the input, all of its memory has to become an input.
  void check_write(TensorId t, const char* op);

 private:
  Acquisition& acquisition_;
  Builder& b_;
  AliasTracker& aliases_;
  Proxies& proxies_;
  Inputs& inputs_;
  Tensors& tensors_;
  Constants& constants_;
  std::unordered_set<TensorId> reaches_out_;  // inputs of which as_strided() made views that reach beyond them
};

}  // namespace thunder::frontend
