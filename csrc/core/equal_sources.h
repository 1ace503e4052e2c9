// Tensors of one compilation that have equal elements, for lengths that are found in elements.
#pragma once

namespace thunder {

/// Knows which tensors have equal elements.  ShapeEnv::symbol_of() asks the one that is current on this thread.
class EqualSources {
 public:
  EqualSources() = default;
  EqualSources(const EqualSources&) = delete;
  EqualSources& operator=(const EqualSources&) = delete;
  virtual ~EqualSources() = default;
  /// One source (a tensor's node, as in symbol_of()) for all with equal elements.
  virtual const void* first(const void* source) = 0;

  /// Null: every tensor stands for itself.
  static EqualSources*& current();

  /// Makes one current for the length of a scope.
  class Scope {
   public:
    explicit Scope(EqualSources* sources) : before_(current()) { current() = sources; }
    ~Scope() { current() = before_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    EqualSources* before_;
  };
};

}  // namespace thunder
