#include "executors/aten/boxed_call.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>

#include "core/error.h"
#include "runtime/convert.h"
#include "runtime/program.h"
#include "runtime/watchers.h"

namespace thunder::aten {
namespace {

// Elements of the storage up to the last one of such a tensor.
int64_t reach(at::IntArrayRef sizes, at::IntArrayRef strides, int64_t offset) {
  return static_cast<int64_t>(
      at::detail::computeStorageNbytes(sizes, strides, /*itemsize=*/1, static_cast<size_t>(offset)));
}

int64_t reach(const at::Tensor& t) { return reach(t.sizes(), t.strides(), t.storage_offset()); }

at::Tensor on_meta(const TensorType& type, int64_t offset) {
  c10::SmallVector<int64_t, 5> sizes, strides;
  for (const Dim& d : type.shape) sizes.push_back(d.constant());
  for (const Dim& d : type.strides) strides.push_back(d.constant());
  const auto options = at::TensorOptions().dtype(to_aten(type.dtype)).device(c10::DeviceType::Meta);
  return at::empty({reach(sizes, strides, offset)}, options).as_strided(sizes, strides, offset);
}

bool is_alias_to_read(const c10::Argument& a) { return a.alias_info() && !a.alias_info()->isWrite(); }

}  // namespace

void BoxedCall::run(Frame& frame) const {
  auto& stack = frame.stack;
  stack.clear();
  for (const Operand& o : operands) stack.push_back(o.load(frame));
  handle_.callBoxed(stack);
  if (!drops.empty()) drop(frame);
  if (outputs.size() == 1 && !list_) {
    if (outputs[0] >= 0) frame.registers[outputs[0]] = std::move(stack.front());
  } else if (list_) {
    store_list(frame);
  } else {
    for (size_t i = 0; i < outputs.size(); ++i)
      if (outputs[i] >= 0) frame.registers[outputs[i]] = std::move(stack[i]);
  }
  stack.clear();
}

void BoxedCall::store_list(Frame& frame) const {
  c10::List<at::Tensor> tensors = std::move(frame.stack.front()).toTensorList();
  THUNDER_CHECK(tensors.size() == outputs.size(), Runtime, handle_.schema().name(), "returned ", tensors.size(),
                " tensors where the program was compiled for ", outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i] >= 0) frame.registers[outputs[i]] = tensors.extract(i);
}

bool views(const c10::FunctionSchema& schema) {
  return !schema.arguments().empty() && schema.returns().size() == 1 &&
         schema.returns()[0].type()->kind() == c10::TypeKind::TensorType && is_alias_to_read(schema.arguments()[0]) &&
         is_alias_to_read(schema.returns()[0]);
}

void ViewCall::prepare(const Call& call) {
  const bool constant = std::all_of(operands.begin() + 1, operands.end(),
                                    [](const Operand& o) { return o.kind == Operand::Kind::Constant; });
  if (!constant || operands[0].kind != Operand::Kind::Register || call.args.empty() || !call.args[0].is_tensor() ||
      operands[0].convert != Operand::Convert::None)
    return;
  const TensorType& type = call.args[0].value().tensor();
  if (!all_constant(type.shape) || !all_constant(type.strides)) return;
  const BelowAutograd below;
  if (operators_are_watched()) return;
  // as_strided() counts from the first element of the storage: the view then depends on where its operand begins.
  constexpr int64_t kElsewhere = 64;
  try {
    const at::Tensor whole = on_meta(type, 0), moved = on_meta(type, kElsewhere);
    const at::Tensor view = view_of(whole), moved_view = view_of(moved);
    const bool follows = moved_view.storage_offset() - view.storage_offset() == kElsewhere;
    if (!is_plain(view) || view.scalar_type() != whole.scalar_type() || !view.is_alias_of(whole)) return;
    if (!moved_view.is_alias_of(moved) || !follows || reach(view) > reach(whole)) return;
    from_ = {{whole.sizes().begin(), whole.sizes().end()}, {whole.strides().begin(), whole.strides().end()}};
    to_ = {{view.sizes().begin(), view.sizes().end()}, {view.strides().begin(), view.strides().end()}};
    offset_ = view.storage_offset();
    known_ = true;
  } catch (const std::exception&) {
    // The operator runs, and says what is wrong.
  }
}

at::Tensor ViewCall::view_of(const at::Tensor& t) const {
  std::vector<c10::IValue> stack{t};
  for (size_t i = 1; i < operands.size(); ++i) stack.push_back(operands[i].constant);
  handle().callBoxed(stack);
  return stack.front().toTensor();
}

bool ViewCall::knows(const Frame& frame, const at::Tensor& t) const {
  return known_ && !frame.watched && is_plain(t) && t.sizes() == c10::IntArrayRef(from_.sizes) &&
         t.strides() == c10::IntArrayRef(from_.strides) &&
         c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::ADInplaceOrView);
}

void ViewCall::run(Frame& frame) const {
  const at::Tensor& t = frame.registers[operands[0].reg].toTensor();
  if (!knows(frame, t)) return BoxedCall::run(frame);
  at::Tensor out = at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(t.storage()),
                                                            t.key_set(), t.dtype());
  out.unsafeGetTensorImpl()->set_sizes_and_strides(to_.sizes, to_.strides, t.storage_offset() + offset_);
  if (!drops.empty()) drop(frame);
  if (outputs[0] >= 0) frame.registers[static_cast<size_t>(outputs[0])] = std::move(out);
}

}  // namespace thunder::aten
