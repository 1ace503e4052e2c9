#include "core/schema.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "core/error.h"
#include "core/shown_name.h"
#include "core/syntax.h"

namespace thunder {
namespace {

const std::unordered_map<std::string_view, Param::Kind>& kinds() {
  using K = Param::Kind;
  // clang-format off
  static const std::unordered_map<std::string_view, K> map = {
      {"Tensor", K::Tensor}, {"Number", K::Number}, {"Scalar", K::Scalar}, {"int", K::Int}, {"float", K::Float},
      {"bool", K::Bool}, {"str", K::Str}, {"dtype", K::DType}, {"device", K::Device}, {"layout", K::Layout},
      {"memory_format", K::MemoryFormat}, {"index", K::Index}, {"any", K::Any}};
  // clang-format on
  return map;
}

class SchemaParser {
 public:
  explicit SchemaParser(std::string_view text) : text_(text) {}

  Schema parse() {
    Schema s;
    std::string_view name = until("(");
    size_t dot = name.find('.');
    s.name = name.substr(0, dot);
    if (dot != std::string_view::npos) s.overload = name.substr(dot + 1);
    check(!s.name.empty(), "a name is missing");
    expect("(");
    bool keyword_only = false;
    skip();
    while (!accept(")")) {
      if (accept("*,") || accept("*")) {
        keyword_only = true;
      } else {
        Param p = param();
        if (s.index_of(p.name) >= 0) fail(cat("two parameters are named '", p.name, "'"));
        p.keyword_only = keyword_only;
        s.params.push_back(std::move(p));
        skip();
        if (peek() != ')') expect(",");
      }
      skip();
    }
    skip();
    expect("->");
    skip();
    const size_t from = pos_;
    results();
    if (pos_ < text_.size()) fail("the text goes on after the results");
    s.results = text_.substr(from);
    return s;
  }

 private:
  [[noreturn]] void fail(const std::string& what) {
    throw Error(ErrorKind::Internal, cat("schema '", text_, "' at ", pos_, ": ", what));
  }
  void check(bool ok, const char* what) {
    if (!ok) fail(what);
  }
  char peek() const { return pos_ < text_.size() ? text_[pos_] : '\0'; }
  void skip() {
    while (peek() == ' ') ++pos_;
  }
  bool accept(std::string_view token) {
    if (text_.substr(pos_, token.size()) != token) return false;
    pos_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!accept(token)) fail(cat("expected '", token, "'"));
  }
  std::string_view until(std::string_view stops) {
    size_t end = std::min(text_.find_first_of(stops, pos_), text_.size());
    std::string_view part = text_.substr(pos_, end - pos_);
    pos_ = end;
    return part;
  }

  // One result, or several in brackets.
  void results() {
    if (accept("None")) return;
    if (!accept("(")) return result();
    do {
      skip();
      result();
    } while (accept(","));
    expect(")");
  }

  void result() {
    const std::string_view type = until(" [?,)");
    if (!kinds().count(type)) fail(cat("unknown type '", type, "'"));
    accept("[]");
    accept("?");
  }

  // What stands between the brackets of a list.
  void length(Param& p) {
    const std::string_view n = until("]");
    p.list = true;
    p.strict = n == ":";
    expect("]");
    if (n.empty() || p.strict) return;
    const auto [end, error] = std::from_chars(n.data(), n.data() + n.size(), p.repeat);
    if (error != std::errc() || end != n.data() + n.size() || p.repeat <= 0)
      fail(cat("'", n, "' is no length of a list"));
  }

  Param param() {
    Param p;
    std::string_view type = until(" [?");
    auto it = kinds().find(type);
    if (it == kinds().end()) fail(cat("unknown type '", type, "'"));
    p.kind = it->second;
    if (accept("[")) length(p);
    p.optional = accept("?");
    skip();
    p.varargs = accept("...");
    p.name = until(",)= ");
    check(!p.name.empty(), "a parameter's name is missing");
    if (accept("=")) p.default_value = literal(p);
    if (p.list && p.default_value && !p.default_value->is_none() && !p.default_value->is_sequence())
      p.default_value = Arg::list(ArgList(p.repeat > 0 ? static_cast<size_t>(p.repeat) : 1, *p.default_value));
    return p;
  }

  Arg literal(const Param& p) {
    if (accept("'")) {
      std::string s(until("'"));
      expect("'");
      return s;
    }
    for (const auto& [open, close] : {std::pair("[", "]"), std::pair("(", ")")})
      if (accept(open)) return literals(p, close);
    std::string_view word = until(",)] ");
    if (word == "None") return nullptr;
    if (word == "True") return true;
    if (word == "False") return false;
    if (word == "inf") return std::numeric_limits<double>::infinity();
    if (word == "-inf") return -std::numeric_limits<double>::infinity();
    if (p.kind == Param::Kind::MemoryFormat || p.kind == Param::Kind::Layout) return ConstantArg{std::string(word)};
    if (word.substr(0, 6) == "torch.")
      if (std::optional<DType> t = dtype_from_torch_name(word.substr(6))) return *t;
    int64_t i = 0;
    auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), i);
    if (error == std::errc() && end == word.data() + word.size()) return i;
    double f = 0;
    auto [end_f, error_f] = std::from_chars(word.data(), word.data() + word.size(), f);
    if (error_f == std::errc() && end_f == word.data() + word.size()) return f;
    fail(cat("cannot read the default '", word, "'"));
  }

  Arg literals(const Param& p, std::string_view close) {
    ArgList items;
    skip();
    while (!accept(close)) {
      items.push_back(literal(p));
      skip();
      if (!text_.substr(pos_).starts_with(close)) expect(",");
      skip();
    }
    return Arg::list(std::move(items));
  }

  std::string_view text_;
  size_t pos_ = 0;
};

bool accepts_one(Param::Kind kind, const Arg& a) {
  using K = Param::Kind;
  using A = Arg::Kind;
  A k = a.kind();
  bool number_value = a.is_value() && a.value().type().is_number();
  NumberKind number = a.is_number() ? a.number_kind() : NumberKind::Complex;
  switch (kind) {
    case K::Tensor: return a.is_tensor();
    case K::Number: return a.is_number();
    case K::Scalar: return a.is_tensor() || a.is_number();
    case K::Int: return k == A::Int || (number_value && number == NumberKind::Int);
    case K::Float:
      return (k == A::Float || k == A::Int || k == A::Bool) || (number_value && number != NumberKind::Complex);
    case K::Bool: return k == A::Bool || (number_value && number == NumberKind::Bool);
    case K::Str: return k == A::Str;
    case K::DType: return k == A::DType;
    case K::Device: return k == A::Device || k == A::Str || k == A::Int;
    case K::Layout:
    case K::MemoryFormat: return k == A::Constant;
    case K::Index:
    case K::Any: return true;
  }
  return false;
}

bool bindable_as_list(const Param& p, const Arg& a) {
  return p.list && !p.strict &&
         (p.varargs || p.kind == Param::Kind::Int || p.kind == Param::Kind::Float || p.kind == Param::Kind::Any) &&
         !a.is_sequence() && accepts_one(p.kind, a);
}

Device device_numbered(int64_t index) {
  THUNDER_CHECK(index >= 0, Runtime, "device", "Device index must not be negative");
  THUNDER_CHECK(index <= std::numeric_limits<int16_t>::max(), Runtime, "device", "there is no device ", index);
  return {DeviceType::cuda, static_cast<int16_t>(index)};
}

// The argument as the parameter wants it: a lone int becomes a list, a device string a device, a tuple a list.
Arg adapt(const Param& p, const Arg& a) {
  if (a.is_none()) return a;
  if (p.list) {
    if (a.kind() == Arg::Kind::Tuple) return Arg::list(a.items());
    if (a.kind() == Arg::Kind::List) return a;
    return Arg::list(ArgList(p.repeat > 0 ? p.repeat : 1, a));
  }
  if (p.kind == Param::Kind::Device) {
    if (a.kind() == Arg::Kind::Str) return with_index(Device::parse(a.str()));
    if (a.kind() == Arg::Kind::Device) return with_index(a.device());
    if (a.kind() == Arg::Kind::Int) return device_numbered(a.dim().constant());
  }
  if (p.kind == Param::Kind::Float && a.is_literal_number()) return a.real();
  return a;
}

std::string default_str(const Param& p) {
  const Arg& d = *p.default_value;
  switch (d.kind()) {
    case Arg::Kind::None: return "None";
    case Arg::Kind::Bool: return d.boolean() ? "True" : "False";
    case Arg::Kind::Int: return d.dim().str();
    case Arg::Kind::Float: return std::isinf(d.real()) ? cat(d.real()) : syntax::repr(d.real());
    case Arg::Kind::Str: return "'" + d.str() + "'";
    case Arg::Kind::DType: return cat(d.dtype());
    case Arg::Kind::Constant: return d.constant().name;
    case Arg::Kind::List: {
      std::vector<std::string> parts;
      for (const Arg& a : d.items()) parts.push_back(default_str(Param{.name = {}, .default_value = a}));
      return "[" + join(parts) + "]";
    }
    default: return "?";
  }
}

}  // namespace

Schema Schema::parse(std::string_view text) { return SchemaParser(text).parse(); }

std::string Schema::str() const {
  std::string out = name;
  if (!overload.empty()) out += "." + overload;
  out += "(";
  bool first = true, star = false;
  for (const Param& p : params) {
    if (!first) out += ", ";
    first = false;
    if (p.keyword_only && !star) {
      out += "*, ";
      star = true;
    }
    for (const auto& [text, kind] : kinds())
      if (kind == p.kind) out += text;
    if (p.list) out += p.strict ? "[:]" : p.repeat > 0 ? "[" + std::to_string(p.repeat) + "]" : "[]";
    if (p.optional) out += "?";
    out += p.varargs ? " ..." : " ";
    out += p.name;
    if (p.default_value) out += "=" + default_str(p);
  }
  return out + ") -> " + results;
}

int Schema::index_of(std::string_view param) const {
  for (size_t i = 0; i < params.size(); ++i)
    if (params[i].name == param) return static_cast<int>(i);
  return -1;
}

bool accepts(const Param& p, const Arg& a) {
  if (a.is_none()) return p.optional || p.kind == Param::Kind::Any || p.kind == Param::Kind::Index;
  if (!p.list) return accepts_one(p.kind, a);
  if (bindable_as_list(p, a)) return true;
  if (!a.is_sequence()) return false;
  for (const Arg& item : a.items())
    if (!accepts_one(p.kind, item) && !(p.kind == Param::Kind::Tensor && item.is_none())) return false;
  return true;
}

namespace {

// PyTorch takes NumPy's names of some parameters too.
std::string_view torch_parameter(std::string_view numpy_name) {
  if (numpy_name == "axis") return "dim";
  if (numpy_name == "keepdims") return "keepdim";
  if (numpy_name == "x" || numpy_name == "a" || numpy_name == "x1") return "input";
  if (numpy_name == "x2") return "other";
  return {};
}

}  // namespace

std::optional<ArgList> bind(const Schema& schema, const ArgList& positional,
                            const std::vector<std::pair<std::string, Arg>>& keyword, std::string* why) {
  auto fail = [&](auto&&... parts) -> std::optional<ArgList> {
    if (why) *why = cat(parts...);
    return std::nullopt;
  };
  size_t n = schema.params.size();
  ArgList out(n);
  std::vector<bool> given(n, false);
  size_t next = 0;
  for (size_t i = 0; i < positional.size(); ++i, ++next) {
    if (next >= n || schema.params[next].keyword_only)
      return fail(shown_name(schema), "() takes ", next, " positional arguments but ", positional.size(),
                  " were given");
    const Param& p = schema.params[next];
    if (p.varargs && !positional[i].is_sequence() && !positional[i].is_none()) {
      ArgList rest(positional.begin() + static_cast<long>(i), positional.end());
      out[next] = Arg::list(std::move(rest));
      given[next] = true;
      if (!accepts(p, out[next])) return fail(shown_name(schema), "(): argument '", p.name, "' has the wrong type");
      i = positional.size();
      break;
    }
    if (!accepts(p, positional[i]))
      return fail(shown_name(schema), "(): argument '", p.name, "' (position ", i + 1, ") has the wrong type");
    out[next] = adapt(p, positional[i]);
    given[next] = true;
  }
  for (const auto& [name, value] : keyword) {
    int i = schema.index_of(name);
    if (i < 0) i = schema.index_of(torch_parameter(name));
    if (i < 0) return fail(shown_name(schema), "() got an unexpected keyword argument '", name, "'");
    if (given[i]) return fail(shown_name(schema), "() got multiple values for argument '", name, "'");
    const Param& p = schema.params[i];
    if (!accepts(p, value)) return fail(shown_name(schema), "(): argument '", name, "' has the wrong type");
    out[i] = adapt(p, value);
    given[i] = true;
  }
  for (size_t i = 0; i < n; ++i) {
    if (given[i]) continue;
    const Param& p = schema.params[i];
    if (!p.default_value) return fail(shown_name(schema), "() missing required argument '", p.name, "'");
    out[i] = *p.default_value;
  }
  return out;
}

}  // namespace thunder
