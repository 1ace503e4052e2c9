#include <unordered_map>

#include "core/error.h"
#include "core/parse.h"
#include "core/print.h"

namespace thunder {
namespace {

// A one-to-one renaming of what is in one trace to what is in the other, found on the way.
template <class T, class Hash>
class Renaming {
 public:
  /// Whether the two are, or can from now on be, each other's counterpart.  `is_new`: they were not before.
  bool pair(const T& a, const T& b, bool* is_new = nullptr) {
    auto forth = forth_.find(a);
    auto back = back_.find(b);
    bool unknown = forth == forth_.end() && back == back_.end();
    if (is_new) *is_new = unknown;
    if (!unknown) return forth != forth_.end() && back != back_.end() && forth->second == b;
    forth_.emplace(a, b);
    back_.emplace(b, a);
    return true;
  }
  const T* of(const T& a) const {
    auto it = forth_.find(a);
    return it == forth_.end() ? nullptr : &it->second;
  }
  bool has_counterpart(const T& b) const { return back_.count(b) != 0; }

 private:
  std::unordered_map<T, T, Hash> forth_, back_;
};

class Comparison {
 public:
  std::string why;

  bool traces(const Trace& a, const Trace& b) {
    const Signature &sa = a.signature, &sb = b.signature;
    if (sa.kind != sb.kind) return differ("signatures");
    if (sa.kind == Signature::Backward &&
        (sa.saved_tensors != sb.saved_tensors || sa.saved_numbers != sb.saved_numbers))
      return differ("numbers of saved values");
    if (a.inputs.size() != b.inputs.size()) return differ("numbers of inputs");
    for (size_t i = 0; i < a.inputs.size(); ++i)
      if (!values(a.inputs[i], b.inputs[i])) return differ(cat("input ", i));
    if (!call_lists(a.calls, b.calls)) return false;
    if (!args(a.output, b.output)) return differ(cat("outputs, ", print(a.output), " and ", print(b.output)));
    return postponed_dims();
  }

 private:
  // Keeps the innermost reason.
  bool differ(const std::string& what) {
    if (why.empty()) why = "different " + what;
    return false;
  }

  bool call_lists(const std::vector<const Call*>& a, const std::vector<const Call*>& b) {
    for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
      if (!calls(*a[i], *b[i])) return false;
    if (a.size() == b.size()) return true;
    const Call& extra = a.size() > b.size() ? *a[b.size()] : *b[a.size()];
    return differ(cat("numbers of calls, ", a.size(), " and ", b.size(), ": one has in addition ", print(extra)));
  }

  bool calls(const Call& a, const Call& b) {
    auto differ_here = [&](const std::string& what) { return differ(cat(what, ": ", print(a), " and ", print(b))); };
    if (!operators(*a.op, *b.op)) return differ_here("operators");
    if (a.args.size() != b.args.size()) return differ_here("numbers of arguments");
    for (size_t i = 0; i < a.args.size(); ++i)
      if (!args(a.args[i], b.args[i])) return differ_here(cat("arguments '", a.op->schema.params.at(i).name, "'"));
    if (!call_lists(a.body, b.body)) return differ_here("bodies");
    if (!outputs(a.output, b.output)) return differ_here("outputs");
    return true;
  }

  // Operators that belong to one compilation have no full name that means anything outside it.
  static bool operators(const Op& a, const Op& b) {
    if (&a == &b) return true;
    const Registry& r = Registry::instance();
    bool known_a = r.find(a.full_name), known_b = r.find(b.full_name);
    return known_a == known_b && (known_a ? a.full_name == b.full_name : a.print_name == b.print_name);
  }

  bool values(Value a, Value b) {
    bool is_new = false;
    if (!values_.pair(a, b, &is_new)) return differ(cat("values, ", a.name(), " and ", b.name()));
    if (!is_new || types(a.type(), b.type())) return true;
    return differ(cat("types of ", a.name(), ", ", full(a.type()), " and ", full(b.type())));
  }

  static std::string full(const Type& t) {
    if (!t.is_tensor()) return t.str();
    return cat(t.str(), " strides=", str(t.tensor().strides), t.tensor().requires_grad ? " requires_grad" : "");
  }

  bool types(const Type& a, const Type& b) {
    if (a.kind() != b.kind()) return false;
    switch (a.kind()) {
      case Type::Kind::None: return true;
      case Type::Kind::Opaque: return a.opaque_name() == b.opaque_name();
      case Type::Kind::Future:
        return std::equal(a.future().begin(), a.future().end(), b.future().begin(), b.future().end(),
                          [&](const TensorType& x, const TensorType& y) { return types(x, y); });
      case Type::Kind::Number:
        return a.number().kind == b.number().kind && a.number().dim.has_value() == b.number().dim.has_value() &&
               (!a.number().dim || dims(*a.number().dim, *b.number().dim));
      case Type::Kind::Tensor: break;
    }
    const TensorType &x = a.tensor(), &y = b.tensor();
    return x.dtype == y.dtype && x.device == y.device && x.same_layout(y) && x.requires_grad == y.requires_grad &&
           dim_lists(x.shape, y.shape) && dim_lists(x.strides, y.strides);
  }

  bool dim_lists(const Dims& a, const Dims& b) {
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); ++i)
      if (!dims(a[i], b[i])) return false;
    return true;
  }

  bool dims(const Dim& a, const Dim& b) {
    if (a.is_constant() || b.is_constant()) return a.same(b);
    std::vector<SymbolId> sa = a.symbols(), sb = b.symbols();
    if (sa.size() == 1 && sb.size() == 1 && a.same(Dim::symbol(sa[0])) && b.same(Dim::symbol(sb[0])))
      return symbols_.pair(sa[0], sb[0]);
    postponed_.emplace_back(a, b);
    return true;
  }

  // Expressions wait until the symbols that stand alone have told their counterparts.
  bool postponed_dims() {
    for (const auto& [a, b] : postponed_) {
      std::vector<SymbolId> left, right;
      for (SymbolId s : a.symbols())
        if (!symbols_.of(s)) left.push_back(s);
      for (SymbolId s : b.symbols())
        if (!symbols_.has_counterpart(s)) right.push_back(s);
      bool equal = left.size() == right.size();
      for (size_t i = 0; equal && i < left.size(); ++i) equal = symbols_.pair(left[i], right[i]);
      if (!equal || !a.substitute([&](SymbolId s) { return Dim::symbol(*symbols_.of(s)); }).same(b))
        return differ(cat("sizes, ", a.str(), " and ", b.str()));
    }
    return true;
  }

  static std::optional<Dim> size_of(const Arg& a) {
    if (a.kind() == Arg::Kind::Int) return a.dim();
    if (a.is_value() && a.value().type().is_number()) return a.value().type().number().dim;
    return std::nullopt;
  }

  bool arg_lists(const ArgList& a, const ArgList& b) {
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); ++i)
      if (!args(a[i], b[i])) return false;
    return true;
  }

  bool args(const Arg& a, const Arg& b) {
    if (a.kind() != b.kind()) {
      // A symbolic size and the value that is this size are the same number, and print alike.
      std::optional<Dim> x = size_of(a), y = size_of(b);
      return x && y && (a.is_value() || b.is_value()) && dims(*x, *y);
    }
    switch (a.kind()) {
      case Arg::Kind::Value: return values(a.value(), b.value());
      case Arg::Kind::Int: return dims(a.dim(), b.dim());
      case Arg::Kind::List:
      case Arg::Kind::Tuple: return arg_lists(a.items(), b.items());
      case Arg::Kind::Slice:
        return args(a.slice().start, b.slice().start) && args(a.slice().stop, b.slice().stop) &&
               args(a.slice().step, b.slice().step);
      case Arg::Kind::Dict: {
        const auto &x = a.entries(), &y = b.entries();
        if (x.size() != y.size()) return false;
        for (size_t i = 0; i < x.size(); ++i)
          if (!args(x[i].first, y[i].first) || !args(x[i].second, y[i].second)) return false;
        return true;
      }
      default: return a.same(b);
    }
  }

  // A literal among a call's outputs is nobody's value: print shows it as `_`.
  bool outputs(const Arg& a, const Arg& b) {
    if (a.is_value() && b.is_value()) return values(a.value(), b.value());
    if (!a.is_sequence() || !b.is_sequence())
      return !a.is_value() && !b.is_value() && !a.is_sequence() && !b.is_sequence();
    if (a.kind() != b.kind() || a.items().size() != b.items().size()) return false;
    for (size_t i = 0; i < a.items().size(); ++i)
      if (!outputs(a.items()[i], b.items()[i])) return false;
    return true;
  }

  Renaming<Value, ValueHash> values_;
  Renaming<SymbolId, std::hash<SymbolId>> symbols_;
  std::vector<std::pair<Dim, Dim>> postponed_;
};

}  // namespace

bool structurally_equal(const Trace& a, const Trace& b, std::string* why) {
  Comparison comparison;
  bool equal = comparison.traces(a, b);
  if (why) *why = comparison.why;
  return equal;
}

}  // namespace thunder
