#include "jit/symbolic.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "core/error.h"
#include "runtime/convert.h"

namespace thunder {
namespace {

// 0 and 1 stay as they are: broadcasting and layouts depend on them.
bool stays(int64_t n) { return n < 2; }

std::string located(const std::string& guard, const std::string& where) {
  return where.empty() ? guard : guard + ", asked at " + where;
}

uint64_t mix(uint64_t h, uint64_t v) {
  h = (h ^ v) * 0x9E3779B97F4A7C15ull;
  return h ^ (h >> 32);
}

}  // namespace

// ---- SymbolicLayout ---------------------------------------------------------------------------------------------------------

SymbolicLayout::SymbolicLayout(const at::Tensor& tensor, std::vector<int64_t>& ints, bool whole) {
  const bool strided = tensor.layout() == c10::kStrided;
  c10::IntArrayRef sizes = tensor.sizes(), strides = strided ? tensor.strides() : c10::IntArrayRef();
  const size_t rank = sizes.size();
  sizes_.resize(rank);
  if (!strided) {  // what a sparse tensor's operators give is found for sizes that are known
    for (size_t i = 0; i < rank; ++i) sizes_[i] = {Extent::Constant, sizes[i]};
    return;
  }
  strides_.resize(rank);
  const bool empty = tensor.numel() == 0;
  for (size_t i = 0; i < rank; ++i) {
    sizes_[i] = {Extent::Constant, sizes[i]};
    strides_[i] = {Extent::Constant, strides[i]};
    if (empty || (stays(sizes[i]) && !whole)) continue;
    sizes_[i] = {Extent::Int, static_cast<int64_t>(ints.size())};
    ints.push_back(sizes[i]);
  }
  if (empty) return;
  if (whole) {
    for (size_t i = 0; i < rank; ++i) {
      strides_[i] = {Extent::Int, static_cast<int64_t>(ints.size())};
      ints.push_back(strides[i]);
    }
    return;
  }
  // A stride is a smaller one times its size, the next dimension's first: a row-major tensor has no stride of its own.
  c10::SmallVector<size_t, 6> order(rank);
  std::iota(order.rbegin(), order.rend(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return strides[a] < strides[b]; });
  std::vector<bool> known(rank, false);
  for (size_t i : order) {
    if (!stays(strides[i])) find_stride(i, sizes, strides, known, ints);
    known[i] = true;
  }
}

void SymbolicLayout::find_stride(size_t i, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                                 const std::vector<bool>& known, std::vector<int64_t>& ints) {
  auto follows = [&](size_t j) { return known[j] && strides[j] != 0 && strides[j] * sizes[j] == strides[i]; };
  if (i + 1 < sizes.size() && follows(i + 1)) {
    strides_[i] = {Extent::Product, static_cast<int64_t>(i + 1)};
    return;
  }
  for (size_t j = sizes.size(); j-- > 0;)
    if (follows(j)) {
      strides_[i] = {Extent::Product, static_cast<int64_t>(j)};
      return;
    }
  strides_[i] = {Extent::Int, static_cast<int64_t>(ints.size())};
  ints.push_back(strides[i]);
}

void SymbolicLayout::add_labels(const std::string& tensor, std::vector<std::string>& labels) const {
  auto add = [&](const Extent& e, const char* what, size_t dim) {
    if (e.kind != Extent::Int) return;
    labels.resize(std::max(labels.size(), static_cast<size_t>(e.at) + 1));
    labels[static_cast<size_t>(e.at)] = cat(what, " ", dim, " of ", tensor);
  };
  for (size_t i = 0; i < sizes_.size(); ++i) {
    add(sizes_[i], "size", i);
    add(strides_[i], "stride", i);
  }
}

void SymbolicLayout::add_to(Fingerprint& f) const {
  for (const auto* entries : {&sizes_, &strides_})
    for (const Extent& e : *entries)
      // The place of an int among the ints follows from what else is in the key.
      f.add_number(static_cast<uint64_t>(e.kind) | (e.kind == Extent::Int ? 0 : static_cast<uint64_t>(e.at)) << 2);
}

std::string SymbolicLayout::str() const {
  auto text = [](const auto& entries) {
    std::vector<std::string> out;
    for (const Extent& e : entries)
      out.push_back(e.kind == Extent::Constant ? std::to_string(e.at)
                    : e.kind == Extent::Int    ? "n"
                                               : cat("that of dimension ", e.at, " * its size"));
    return "[" + join(out) + "]";
  };
  return text(sizes_) + " strides=" + text(strides_);
}

TensorType SymbolicLayout::type(const at::Tensor& tensor, const Dims& ints) const {
  TensorType t = type_of(tensor);
  auto dim = [&](const Extent& e) { return e.kind == Extent::Int ? ints[static_cast<size_t>(e.at)] : Dim(e.at); };
  for (size_t i = 0; i < sizes_.size(); ++i) t.shape[i] = dim(sizes_[i]);
  for (size_t i = 0; i < strides_.size(); ++i) {
    Dim stride = 1;
    const Extent* e = &strides_[i];
    for (; e->kind == Extent::Product; e = &strides_[static_cast<size_t>(e->at)])
      stride = stride * t.shape[static_cast<size_t>(e->at)];
    t.strides[i] = stride * dim(*e);
  }
  return t;
}

// ---- Numbers --------------------------------------------------------------------------------------------------------

uint64_t Numbers::hash() const {
  uint64_t h = ints.size();
  for (int64_t i : ints) h = mix(h, static_cast<uint64_t>(i));
  for (double d : floats) {
    uint64_t bits = 0;
    std::memcpy(&bits, &d, sizeof bits);
    h = mix(h, bits);
  }
  return h;
}

// ---- Symbols --------------------------------------------------------------------------------------------------------

Symbols::Symbols(const Numbers& numbers, bool constant)
    : numbers_(numbers), constant_(constant), ints_(numbers.ints.size()), floats_(numbers.floats.size(), constant) {
  if (!constant) return;
  for (size_t i = 0; i < ints_.size(); ++i) ints_[i].kind = IntBinding::Constant;
}

Symbols::Symbols(const Numbers& numbers, std::vector<IntBinding> ints, std::vector<char> constant_floats)
    : numbers_(numbers), constant_(false), ints_(std::move(ints)), floats_(std::move(constant_floats)) {}

bool Symbols::any_symbol() const {
  return std::any_of(ints_.begin(), ints_.end(), [](const IntBinding& b) { return b.kind == IntBinding::Symbol; }) ||
         std::any_of(floats_.begin(), floats_.end(), [](char constant) { return !constant; });
}

std::vector<std::string> Symbols::symbol_text() const {
  std::vector<std::string> out;
  for (size_t i = 0; i < ints_.size(); ++i)
    if (ints_[i].kind == IntBinding::Symbol) out.push_back(cat(dims_[i], ": ", labels.at(i)));
  for (size_t i = 0; i < floats_.size(); ++i)
    if (!floats_[i]) out.push_back(cat("f", i, ": float argument ", i));
  return out;
}

std::optional<size_t> Symbols::index(SymbolId id) const {
  auto it = index_.find(id);
  return it == index_.end() ? std::nullopt : std::optional<size_t>(it->second);
}

std::optional<size_t> Symbols::index(const Dim& size) const {
  std::vector<SymbolId> symbols = size.symbols();
  return symbols.size() == 1 && size.same(Dim::symbol(symbols[0])) ? index(symbols[0]) : std::nullopt;
}

NumberExpr::Values Symbols::values(const Numbers& numbers) const {
  return {[&numbers](size_t i) { return numbers.floats[i]; },
          [this, &numbers](SymbolId s) {
            std::optional<size_t> i = index(s);
            THUNDER_ASSERT(i, "a guard asks for a symbol that is no size of the call");
            return Dim(numbers.ints[*i]);
          }};
}

namespace {

// Whether `a` is an integer times `b`, which is a symbol less its hint: then the symbol is the hint wherever `a` is 0.
bool is_multiple(const Dim& a, const Dim& b) {
  const Dim at_zero = b.substitute([](SymbolId) { return Dim(0); });
  const Dim slope = a.substitute([&](SymbolId) { return Dim(1) - at_zero; });
  return slope.is_constant() && a.same(slope * b);
}

}  // namespace

// "s0 == 4 (s0: size 0 of tensor argument 1), asked at model.py:7 in forward"
std::string Symbols::explain(const DimGuard& g) const {
  std::string legend;
  for (SymbolId s : (g.left - g.right).symbols())
    if (std::optional<size_t> i = index(s))
      legend += cat(legend.empty() ? " (" : ", ", Dim::symbol(s), ": ", labels.at(*i));
  return located(g.str() + (legend.empty() ? "" : legend + ")"), g.where);
}

// `n < 2` of a size, which is 1 at least.
bool Symbols::learn_one(const DimGuard& g) {
  const Dim difference = g.left - g.right;
  const std::vector<SymbolId> symbols = difference.symbols();
  const std::optional<size_t> i = symbols.size() == 1 ? index(symbols[0]) : std::nullopt;
  if (!i || !ints_[*i].may_be_one || ints_[*i].kind != IntBinding::Symbol || numbers_.ints[*i] != 1) return false;
  auto at = [&](int64_t n) { return difference.substitute([&](SymbolId) { return Dim(n); }); };
  if (g.relation == DimGuard::NotEqual || !difference.same((at(1) - at(0)) * dims_[*i] + at(0))) return false;
  if (g.holds([](SymbolId) { return Dim(2); })) return false;
  ints_[*i] = {.kind = IntBinding::Constant};
  reasons_[*i] = explain(g);
  return true;
}

bool Symbols::learn_ints(const DimGuard& g) {
  if (g.relation != DimGuard::Equal) return learn_one(g);
  const Dim difference = g.left - g.right;
  std::vector<SymbolId> symbols = difference.symbols();
  for (SymbolId s : symbols)
    if (!index(s)) return false;
  if (symbols.size() == 1) {
    const size_t i = *index(symbols[0]);
    if (ints_[i].kind != IntBinding::Symbol || !is_multiple(difference, dims_[i] - numbers_.ints[i])) return false;
    ints_[i].kind = IntBinding::Constant;
    reasons_[i] = explain(g);
    return true;
  }
  if (symbols.size() != 2) return false;
  size_t a = *index(symbols[0]), b = *index(symbols[1]);
  if (!difference.same(dims_[a] - dims_[b]) && !difference.same(dims_[b] - dims_[a])) return false;
  if (a > b) std::swap(a, b);
  if (ints_[b].kind != IntBinding::Symbol) return false;
  ints_[b] = {IntBinding::Same, a};
  reasons_[b] = explain(g);
  return true;
}

bool Symbols::learn(const ShapeEnv& env) {
  bool any = false;
  for (const DimGuard& g : env.guards()) any = learn_ints(g) || any;
  for (const auto& guard : env.number_guards()) {
    const NumberGuard& g = *guard;
    if (g.relation != NumberGuard::Equal || !g.outcome || g.left->op() != NumberExpr::Op::Input ||
        g.right->op() != NumberExpr::Op::Constant || g.left->index() >= floats_.size() || floats_[g.left->index()])
      continue;
    floats_[g.left->index()] = 1;
    float_reasons_[g.left->index()] = located(g.str(), g.where);
    any = true;
  }
  return any;
}

void Symbols::keep_guards(const ShapeEnv& env, const std::function<bool(const DimGuard&)>& other_dims,
                          const std::function<bool(const NumberGuard&)>& other_numbers) {
  guards_.clear();
  number_guards_.clear();
  texts_.clear();
  for (const DimGuard& g : env.guards()) {
    if (other_dims(g)) continue;
    guards_.push_back(g);
    texts_.push_back(explain(g));
  }
  for (const auto& g : env.number_guards()) {
    if (other_numbers(*g)) continue;
    number_guards_.push_back(*g);
    texts_.push_back(located(g->str(), g->where));
  }
  checks_ = env.checks();
}

std::string Symbols::describe(size_t i) const {
  auto it = reasons_.find(i);
  return it == reasons_.end() ? cat(labels.at(i), " == ", numbers_.ints[i]) : it->second;
}

bool Symbols::hold(const Numbers& numbers, std::string* why) const {
  auto fails = [&](auto&& reason) {
    if (why) *why = "the guard " + reason() + " failed";
    return false;
  };
  for (size_t i = 0; i < ints_.size(); ++i) {
    const IntBinding& b = ints_[i];
    if (b.kind == IntBinding::Constant && numbers.ints[i] != numbers_.ints[i])
      return fails([&] { return cat(describe(i), " (now ", numbers.ints[i], ")"); });
    if (b.kind == IntBinding::Symbol && numbers.ints[i] < (b.may_be_one ? 1 : 2))
      return fails([&] { return cat(labels.at(i), b.may_be_one ? " >= 1" : " >= 2", " (now ", numbers.ints[i], ")"); });
    if (b.kind == IntBinding::Product && numbers.ints[b.size] != 1 &&
        numbers.ints[i] != numbers.ints[b.other] * numbers.ints[b.by])
      return fails([&] {
        return cat(labels.at(i), " == ", labels.at(b.other), " * ", labels.at(b.by), " (now ", numbers.ints[i], ", ",
                   numbers.ints[b.other], " and ", numbers.ints[b.by], ")");
      });
    if (b.kind == IntBinding::Same && numbers.ints[i] != numbers.ints[b.other])
      return fails([&] { return cat(describe(i), " (now ", numbers.ints[b.other], " and ", numbers.ints[i], ")"); });
  }
  for (size_t i = 0; i < floats_.size(); ++i)
    if (floats_[i] && numbers.floats[i] != numbers_.floats[i])
      return fails([&] {
        auto it = float_reasons_.find(i);
        return cat(it == float_reasons_.end() ? cat("a number that is ", numbers_.floats[i]) : it->second, " (now ",
                   numbers.floats[i], ")");
      });
  const NumberExpr::Values now = values(numbers);
  try {
    for (size_t i = 0; i < guards_.size(); ++i)
      if (!guards_[i].holds(now.symbol)) return fails([&] { return texts_[i]; });
    for (size_t i = 0; i < number_guards_.size(); ++i)
      if (!number_guards_[i].holds(now)) return fails([&] { return texts_[guards_.size() + i]; });
    // Last: each is a run.
    const auto number = [&](SymbolId s) { return now.symbol(s).constant(); };
    for (const SizeCheck& check : checks_)
      if (!check.holds(number)) return fails([&] { return check.text; });
  } catch (const Error& e) {  // a division by zero
    return fails([&] { return std::string(e.what()); });
  }
  return true;
}

std::vector<std::string> Symbols::text() const {
  std::vector<std::string> out;
  for (size_t i = 0; i < ints_.size(); ++i)
    if (reasons_.count(i) || (constant_ && ints_[i].kind == IntBinding::Constant)) out.push_back(describe(i));
  for (const auto& [i, reason] : float_reasons_) out.push_back(reason);
  out.insert(out.end(), texts_.begin(), texts_.end());
  for (const SizeCheck& check : checks_) out.push_back(check.text);
  return out;
}

}  // namespace thunder
