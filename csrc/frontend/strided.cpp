#include "frontend/strided.h"

#include "core/error.h"
#include "frontend/hooks.h"
#include "ops/shape_common.h"

namespace thunder::frontend {
namespace {

// Where in the memory of its base a tensor begins that these views lead to; nothing where the trace does not tell.
std::optional<Dim> offset_in_base(const std::vector<const Call*>& path) {
  Dim offset = 0;
  for (const Call* view : path) {
    const Args a = view->arguments();
    if (view->op->full_name == "prims.as_strided") {
      if (a.has("storage_offset")) offset = a.dim("storage_offset");
      continue;
    }
    if (!view->op->index_map) return std::nullopt;
    const std::optional<IndexMap> map = view->op->index_map(a, view->output.value().tensor());
    if (!map) return std::nullopt;
    const Dims& strides = a.tensor("a").strides;
    for (size_t d = 0; d < map->places.size(); ++d) offset += map->places[d].offset * strides[d];
  }
  return offset;
}

bool has_no_gaps(const TensorType& t) { return is_non_overlapping_and_dense(t.shape, t.strides); }

}  // namespace

Ref StridedViews::memory_from(PyObject* tensor, PyObject* sizes, PyObject* strides, PyObject* storage_offset) {
  return acquisition_.located_with_answers([&]() -> Ref {
    b_.set_grad_enabled(hooks().grad_enabled());
    const TensorId id = tensors_.id_of(tensor);
    const TensorType t = aliases_.value(id).tensor();
    auto numbers = [&](PyObject* o) {
      Arg a = tensors_.convert(o);
      constants_.fold(a, true);
      return a;
    };
    const Arg given = numbers(storage_offset);
    const Dim extent = ops::storage_extent(ops::size_args("as_strided", numbers(sizes)),
                                           ops::size_args("as_strided", numbers(strides)));
    if (given.is_none() && has_no_gaps(t) && extent <= t.numel()) return Ref::borrow(tensor);
    if (const std::optional<TensorId> input = aliases_.base_input(id);
        input && !inputs_.source_of(*input).whole_storage) {
      reaches_out_.insert(*input);
      if (aliases_.written(id)) check_write(id, "as_strided");
      return Ref::borrow(Py_None);
    }
    Value base = aliases_.base(id);
    const std::optional<Dim> known = given.is_none() ? offset_in_base(aliases_.path(id)) : given.dim();
    THUNDER_CHECK(known && has_no_gaps(base.tensor()) && base.dtype() == t.dtype, NotImplemented, "as_strided",
                  "of a view whose place in memory is known only when the program runs");
    const Dim size = base.tensor().numel(), offset = *known;
    THUNDER_CHECK(offset >= 0, Runtime, "as_strided", "Storage offset must be non-negative, got ", offset);
    THUNDER_CHECK(offset + extent <= size, Runtime, "as_strided", "elements ", offset, " to ", offset + extent,
                  " are out of bounds for memory of ", size, " elements");
    std::vector<const Call*> path;
    auto view = [&](const Expr& v) {
      base = v.value();
      path.push_back(b_.calls().back());
    };
    if (base.requires_grad() && !t.requires_grad) view(b_("prims.detach", base));
    view(b_("prims.as_strided", base, Dims{size}, Dims{Dim(1)}));
    view(b_("prims.slice", base, Dims{offset}, Dims{size}, Dims{Dim(1)}));
    return proxies_.add(aliases_.add_view(id, base, path));
  });
}

// PyTorch's own as_strided() of an input does as long as nothing is written.  Then what lies around the input has to be
// in the program: all of its memory becomes an input.
void StridedViews::check_write(TensorId t, const char* op) {
  const std::optional<TensorId> input = aliases_.base_input(t);
  if (!input || reaches_out_.count(*input) == 0) return;
  THUNDER_CHECK(!aliases_.base(t).requires_grad(), NotImplemented, op,
                "writing to an input that requires grad, of which as_strided() made a view beyond the input's own "
                "elements or with a storage_offset, is not supported");
  tensors_.share(hooks().storage_of(inputs_[inputs_.find(*input).value()].real.get()), op);
}

}  // namespace thunder::frontend
