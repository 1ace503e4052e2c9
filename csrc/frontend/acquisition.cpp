#include "frontend/acquisition.h"

#include <algorithm>

#include "core/out_of_bounds.h"
#include "frontend/language.h"
#include "python/text.h"

namespace thunder::frontend {

Acquisition::Acquisition()
    : owned_(std::make_unique<Builder>(std::make_shared<Arena>())), b_(*owned_), arena_(b_.arena()), aliases_(b_) {
  shapes_.location = [this] { return location(); };
}

Acquisition::Acquisition(Builder& borrowed, bool metadata_only)
    : b_(borrowed), arena_(b_.arena()), metadata_only_(metadata_only), aliases_(b_) {}

std::string Acquisition::location() const {
  const SourceLocation* l = b_.location();
  return l ? cat(l->file, ":", l->line, " in ", l->function) : "";
}

void Acquisition::update_location() {
  if (!owned_) return;
  PyFrameObject* frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  while (frame) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    bool internal = is_internal(code);
    if (!internal) {
      SourceLocation l;
      l.file = printable(code->co_filename);
      l.function = printable(code->co_name);
      l.line = PyFrame_GetLineNumber(frame);
      b_.set_location(arena_->make_location(std::move(l)));
    }
    Py_DECREF(code);
    if (internal) {
      PyFrameObject* back = PyFrame_GetBack(frame);
      Py_DECREF(frame);
      frame = back;
    } else {
      Py_DECREF(frame);
      return;
    }
  }
}

// A borrowed builder's program has an environment of its own, and those who find its sizes.
Acquisition::Current::Current(Acquisition& a, SizeAnswers* answers)
    : shapes(!a.owned_ && ShapeEnv::current() ? *ShapeEnv::current() : a.shapes_,
             a.owned_ ? answers : ShapeEnv::Scope::answers()),
      equal(a.owned_ ? &a.equal_values_ : EqualSources::current()) {}

void Acquisition::rethrow(const Error& e) const {
  const std::string where = location();
  const std::string text = where.empty() ? e.what() : cat(e.what(), "\n  at ", where);
  if (dynamic_cast<const OutOfBounds*>(&e)) throw OutOfBounds(text);
  throw Error(e.kind(), text);
}

void Acquisition::leave_to_eager(std::string why, PyObject* tensor, bool warns) {
  const std::string where = location();
  eager = NeedsEager{where.empty() ? why : cat(why, ", at ", where), Ref::borrow(tensor), warns};
  throw Error(ErrorKind::NotImplemented, cat("[jit] ", why));
}

Value Acquisition::new_leaf(Value v) {
  THUNDER_CHECK(is_inexact(v.dtype()), Runtime, "requires_grad_",
                "only Tensors of floating point dtype can require gradients, got ", torch_name(v.dtype()));
  Value leaf = b_("prims.new_leaf", v).value();
  new_leaves_.insert(leaf.id());
  return leaf;
}

void Acquisition::open_scope() {
  b_.open_scope();
  scopes_.push_back(++last_scope_);
}

std::vector<const Call*> Acquisition::close_scope() {
  scopes_.pop_back();
  return b_.close_scope();
}

bool Acquisition::is_within(size_t scope) const {
  return std::find(scopes_.begin(), scopes_.end(), scope) != scopes_.end();
}

}  // namespace thunder::frontend
