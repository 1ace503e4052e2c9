#include "ops/case_reader.h"

#include <cstdlib>
#include <map>
#include <set>

#include "core/error.h"
#include "ops/families.h"

namespace thunder::testing {
namespace {

std::vector<std::string> split(const std::string& text, const std::string& separator) {
  std::vector<std::string> out;
  size_t at = 0;
  for (size_t next; (next = text.find(separator, at)) != std::string::npos; at = next + separator.size())
    out.push_back(text.substr(at, next - at));
  out.push_back(text.substr(at));
  return out;
}

std::vector<std::string> numbers(const std::string& text) {
  return text.empty() ? std::vector<std::string>{} : split(text, ",");
}

ExpectedTensor read_tensor(const std::string& text) {
  size_t open = text.find('['), middle = text.find(';'), close = text.find(']');
  std::string dtype = text.substr(0, open);
  return {dtype_from_short_name(dtype).value(), numbers(text.substr(open + 1, middle - open - 1)),
          numbers(text.substr(middle + 1, close - middle - 1)), text.back() == '@'};
}

Dims to_dims(const std::vector<std::string>& texts) {
  Dims out;
  for (const std::string& t : texts) out.push_back(std::strtol(t.c_str(), nullptr, 10));
  return out;
}

// Python literals, as far as the rows have them.
class LiteralReader {
 public:
  LiteralReader(const std::string& text, const std::vector<Value>& inputs) : s_(text), inputs_(inputs) {}

  CaseArguments arguments() {
    CaseArguments out;
    for (skip(); at_ < s_.size(); skip()) {
      size_t start = at_;
      std::string name = word();
      if (!name.empty() && peek() == '=') {
        ++at_;
        out.keyword.emplace_back(name, value());
      } else {
        at_ = start;
        out.positional.push_back(value());
      }
      skip();
      if (peek() == ',') ++at_;
    }
    return out;
  }

 private:
  char peek() const { return at_ < s_.size() ? s_[at_] : '\0'; }
  void skip() {
    while (peek() == ' ') ++at_;
  }
  bool accept(const std::string& token) {
    if (s_.compare(at_, token.size(), token) != 0) return false;
    at_ += token.size();
    return true;
  }
  std::string word() {
    size_t start = at_;
    while (std::isalnum(static_cast<unsigned char>(peek())) || peek() == '_') ++at_;
    return s_.substr(start, at_ - start);
  }
  ArgList items(char close) {
    ArgList out;
    for (skip(); peek() != close; skip()) {
      out.push_back(value());
      skip();
      if (peek() == ',') ++at_;
    }
    ++at_;
    return out;
  }

  Arg value() {
    skip();
    if (accept("$")) return inputs_.at(static_cast<size_t>(std::stol(word())));
    if (accept("[")) return Arg::list(items(']'));
    if (accept("slice(")) {
      ArgList i = items(')');
      return Arg::slice(i[0], i[1], i[2]);
    }
    if (accept("(")) return Arg::tuple(items(')'));
    if (accept("...")) return ConstantArg{"..."};
    if (accept("None")) return nullptr;
    if (accept("True")) return true;
    if (accept("False")) return false;
    if (accept("torch.")) return dtype_from_short_name(word()).value();
    if (accept("'")) {
      size_t end = s_.find('\'', at_);
      std::string text = s_.substr(at_, end - at_);
      at_ = end + 1;
      return text;
    }
    size_t start = at_;
    while (std::string("+-.e0123456789").find(peek()) != std::string::npos && peek()) ++at_;
    std::string number = s_.substr(start, at_ - start);
    if (number.find_first_of(".e") == std::string::npos) return static_cast<int64_t>(std::stol(number));
    return std::stod(number);
  }

  const std::string& s_;
  const std::vector<Value>& inputs_;
  size_t at_ = 0;
};

const char* exception_name(ErrorKind k) {
  switch (k) {
    case ErrorKind::Runtime: return "RuntimeError";
    case ErrorKind::Type: return "TypeError";
    case ErrorKind::Value: return "ValueError";
    case ErrorKind::Index: return "IndexError";
    case ErrorKind::NotImplemented: return "NotImplementedError";
    case ErrorKind::Attribute: return "AttributeError";
    case ErrorKind::Assertion: return "AssertionError";
    case ErrorKind::Import: return "ImportError";
    case ErrorKind::Internal: return "internal error";
  }
  return "?";
}

// Values that share memory with an input: those reached from one through views.
void follow_views(const std::vector<const Call*>& calls, std::set<ValueId>& aliases) {
  for (const Call* c : calls) {
    if (!c->body.empty()) {
      follow_views(c->body, aliases);
    } else if (c->op->has(kView)) {
      std::vector<Value> in = inputs_of(*c);
      if (!in.empty() && aliases.count(in[0].id())) visit_outputs(*c, [&](Value v) { aliases.insert(v.id()); });
    }
  }
}

class SymbolicInputs {
 public:
  explicit SymbolicInputs(ShapeEnv& env) : env_(env) {}
  Dim operator()(const Dim& d) {
    if (d.constant() <= 1) return d;
    Dim s = env_.make_symbol(d.constant());
    values_[s.symbols()[0]] = d;
    return s;
  }
  Dim numbers(const Dim& d) const {
    return d.substitute([&](SymbolId s) { return values_.count(s) ? values_.at(s) : Dim::symbol(s); });
  }

 private:
  ShapeEnv& env_;
  std::map<SymbolId, Dim> values_;
};

std::string compare_dims(const char* what, const Dims& got, const std::vector<std::string>& expected,
                         const SymbolicInputs& symbols) {
  bool ok = got.size() == expected.size();
  for (size_t i = 0; ok && i < got.size(); ++i) {
    Dim d = symbols.numbers(got[i]);
    ok = expected[i] == "*" ? !d.is_constant() : (d.is_constant() && std::to_string(d.constant()) == expected[i]);
  }
  return ok ? "" : cat(" ", what, ": got ", str(got), ", expected [", join(expected), "]");
}

std::string compare(const Case& c, const Arg& output, const std::set<ValueId>& aliases, const SymbolicInputs& symbols) {
  std::vector<Value> got = values_in(output);
  if (got.size() != c.results.size()) return cat("got ", got.size(), " results, expected ", c.results.size());
  std::string wrong;
  for (size_t i = 0; i < got.size(); ++i) {
    const ExpectedTensor& e = c.results[i];
    const TensorType& t = got[i].tensor();
    if (t.dtype != e.dtype) wrong += cat(" dtype: got ", t.dtype, ", expected ", e.dtype);
    std::string shape = compare_dims("shape", t.shape, e.shape, symbols);
    wrong += shape.empty() ? compare_dims("strides", t.strides, e.strides, symbols) : shape;
    // Whether tensors without elements share memory cannot be told.
    bool empty = false;
    for (const std::string& s : e.shape) empty |= s == "0";
    for (const TensorType& in : c.inputs) empty |= in.numel().same(0);
    if (!empty && aliases.count(got[i].id()) != size_t{e.alias}) wrong += e.alias ? " is not a view" : " is a view";
  }
  return wrong;
}

}  // namespace

Case read_case(const std::string& row) {
  std::vector<std::string> parts = split(row, " | ");
  THUNDER_ASSERT(parts.size() == 4, "a row has four parts: ", row);
  Case c{.op = parts[0], .text = row, .inputs = {}, .arguments = parts[2], .exception = {}, .results = {}};
  for (const std::string& t : split(parts[1], " ")) {
    if (t.empty()) continue;
    ExpectedTensor e = read_tensor(t);
    c.inputs.push_back(TensorType{e.dtype, Device{}, to_dims(e.shape), to_dims(e.strides), false});
  }
  if (parts[3].find("Error") != std::string::npos) {
    c.exception = parts[3];
  } else {
    for (const std::string& t : split(parts[3], " "))
      if (!t.empty()) c.results.push_back(read_tensor(t));
  }
  return c;
}

CaseArguments read_arguments(const std::string& text, const std::vector<Value>& inputs) {
  return LiteralReader(text, inputs).arguments();
}

std::string check_case(const Case& c, bool symbolic) {
  ops::register_all();
  ShapeEnv env;
  ShapeEnv::Scope scope(env);
  SymbolicInputs symbols(env);
  Builder b(std::make_shared<Arena>());
  std::vector<Value> inputs;
  std::set<ValueId> aliases;
  for (TensorType t : c.inputs) {
    if (symbolic) {
      bool row_major = same(t.strides, contiguous_strides(t.shape));
      for (Dim& d : t.shape) d = symbols(d);
      if (row_major) t.strides = contiguous_strides(t.shape);
      else
        for (Dim& d : t.strides) d = symbols(d);
    }
    inputs.push_back(b.input(t));
    aliases.insert(inputs.back().id());
  }
  try {
    CaseArguments a = read_arguments(c.arguments, inputs);
    Arg output = b.call_named(c.op, std::move(a.positional), std::move(a.keyword));
    if (!c.exception.empty()) return cat("no error, expected ", c.exception);
    follow_views(b.calls(), aliases);
    return compare(c, output, aliases, symbols);
  } catch (const Error& e) {
    if (c.exception.empty() || c.exception != exception_name(e.kind()))
      return cat(exception_name(e.kind()), ": ", e.what());
    return "";
  } catch (const std::exception& e) {
    return e.what();
  }
}

}  // namespace thunder::testing
