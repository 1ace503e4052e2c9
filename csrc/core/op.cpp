#include "core/op.h"

#include <deque>
#include <mutex>
#include <unordered_map>

#include "core/error.h"

namespace thunder {
namespace {

std::string default_print_name(const std::string& level, const std::string& name) {
  // A user's language has a module of that name, which the program may use too.
  return (level == "torch" || level == "numpy" ? "l" : "") + level + "." + name;
}

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> out;
  std::istringstream in{std::string(text)};
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

}  // namespace

Op::Op(std::string level_, const OpDef& def)
    : level(std::move(level_)),
      schema(Schema::parse(def.schema)),
      doc(def.doc),
      tags(def.tags),
      meta(def.meta),
      body(def.body),
      vjp(def.vjp),
      aten(def.aten),
      python(split_words(def.python)),
      scalar(def.scalar),
      domain(def.domain),
      writes(split_words(def.writes)),
      index_map(def.index_map),
      write_back(def.write_back),
      combine(def.combine),
      element(def.element),
      context(def.context) {
  name = level + "." + schema.name;
  full_name = schema.overload.empty() ? name : name + "." + schema.overload;
  print_name = default_print_name(level, schema.name);
}

struct Registry::Impl {
  std::deque<std::unique_ptr<Op>> owned;
  std::vector<const Op*> all;
  std::unordered_map<std::string_view, const Op*> by_full_name;
  std::unordered_map<std::string_view, std::vector<const Op*>> by_name;
  std::unordered_map<std::string_view, std::vector<const Op*>> by_print_name;
};

Registry::Registry() : impl_(std::make_unique<Impl>()) {}

const Op& Registry::add(std::string level, const OpDef& def, bool replace) {
  return add(std::make_unique<Op>(std::move(level), def), replace);
}

const Op& Registry::add(std::unique_ptr<Op> op, bool replace) {
  Impl& r = *impl_;
  const Op* p = op.get();
  auto it = r.by_full_name.find(p->full_name);
  if (it != r.by_full_name.end()) {
    THUNDER_CHECK(replace, Value, p->full_name, "an operator of this name is registered already");
    // Traces may still refer to the old record, so it stays owned; look-ups find the new one.
    const Op* old = it->second;
    std::erase(r.by_name[old->name], old);
    std::erase(r.by_print_name[old->print_name], old);
    std::erase(r.all, old);
    r.by_full_name.erase(it);
  }
  r.owned.push_back(std::move(op));
  r.all.push_back(p);
  r.by_full_name[p->full_name] = p;
  r.by_name[p->name].push_back(p);
  r.by_print_name[p->print_name].push_back(p);
  return *p;
}

const Op* Registry::find(std::string_view full_name) const {
  auto it = impl_->by_full_name.find(full_name);
  return it == impl_->by_full_name.end() ? nullptr : it->second;
}

const Op& Registry::get(std::string_view full_name) const {
  const Op* op = find(full_name);
  THUNDER_ASSERT(op, "there is no operator '", full_name, "'");
  return *op;
}

const std::vector<const Op*>& Registry::overloads(std::string_view name) const {
  static const std::vector<const Op*> none;
  auto it = impl_->by_name.find(name);
  return it == impl_->by_name.end() ? none : it->second;
}

std::vector<const Op*> Registry::by_print_name(std::string_view print_name) const {
  auto it = impl_->by_print_name.find(print_name);
  return it == impl_->by_print_name.end() ? std::vector<const Op*>{} : it->second;
}

const std::vector<const Op*>& Registry::all() const { return impl_->all; }

Registry& Registry::instance() {
  static Registry registry;
  return registry;
}

const Arg& Args::operator[](std::string_view param) const {
  int i = op_->schema.index_of(param);
  THUNDER_ASSERT(i >= 0, op_->full_name, " has no parameter '", param, "'");
  return (*args_)[static_cast<size_t>(i)];
}

namespace {

const Arg& literal(const Op& op, std::string_view param, const Arg& a) {
  THUNDER_CHECK(!a.is_value(), Runtime, op.schema.name, "'", param,
                "' must be known when the program is compiled, got ", a.value().name(),
                ", a number that only the run knows");
  return a;
}

const Dim& dim_of(const Op& op, std::string_view param, const Arg& a) {
  if (a.is_value() && a.value().type().is_number() && a.value().type().number().dim)
    return *a.value().type().number().dim;
  return literal(op, param, a).dim();
}

}  // namespace

const Dim& Args::dim(std::string_view param) const { return dim_of(*op_, param, (*this)[param]); }

bool Args::flag(std::string_view param) const { return literal(*op_, param, (*this)[param]).boolean(); }

double Args::real(std::string_view param) const {
  const Arg& a = (*this)[param];
  bool integer =
      a.is_value() ? a.value().type().is_number() && a.number_kind() == NumberKind::Int : a.kind() == Arg::Kind::Int;
  if (integer) return static_cast<double>(dim(param).specialize());
  if (a.is_value() && a.value().type().is_number() && a.value().type().number().expr) return a.real();
  if (literal(*op_, param, a).kind() != Arg::Kind::Complex) return a.real();
  THUNDER_CHECK(a.complex().imag() == 0, Runtime, op_->schema.name, "'", param,
                "': value cannot be converted to type double without overflow, got ", a.complex());
  return a.complex().real();
}

Dims Args::dims(std::string_view param) const {
  Dims out;
  for (const Arg& a : (*this)[param].items()) out.push_back(dim_of(*op_, param, a));
  return out;
}

std::vector<int64_t> Args::integers(std::string_view param) const {
  std::vector<int64_t> out;
  for (const Dim& d : dims(param)) out.push_back(d.constant());
  return out;
}

std::vector<Value> Args::values(std::string_view param) const {
  std::vector<Value> out;
  for (const Arg& a : (*this)[param].items()) out.push_back(a.value());
  return out;
}

}  // namespace thunder
