#include "core/print.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "core/error.h"
#include "core/rewrite.h"
#include "core/syntax.h"

namespace thunder {
namespace {

using syntax::kDel;

void for_each_call(const std::vector<const Call*>& calls, const std::function<void(const Call&)>& fn) {
  for (const Call* c : calls) {
    fn(*c);
    for_each_call(c->body, fn);
  }
}

std::string root_of(const std::string& dotted) { return dotted.substr(0, dotted.find('.')); }

void for_each_opaque(const Arg& a, const std::function<void(const OpaqueArg&)>& fn) {
  switch (a.kind()) {
    case Arg::Kind::Opaque: fn(a.opaque()); break;
    case Arg::Kind::List:
    case Arg::Kind::Tuple:
      for (const Arg& item : a.items()) for_each_opaque(item, fn);
      break;
    case Arg::Kind::Dict:
      for (const auto& [key, value] : a.entries()) {
        for_each_opaque(key, fn);
        for_each_opaque(value, fn);
      }
      break;
    case Arg::Kind::Slice:
      for (const Arg& part : {a.slice().start, a.slice().stop, a.slice().step}) for_each_opaque(part, fn);
      break;
    default: break;
  }
}

void for_each_opaque(const Trace& trace, const std::function<void(const OpaqueArg&)>& fn) {
  for_each_call(trace.calls, [&](const Call& c) {
    for (const Arg& a : c.args) for_each_opaque(a, fn);
  });
  for_each_opaque(trace.output, fn);
}

void for_each_symbol_in_type(const Type& type, const std::function<void(SymbolId)>& fn) {
  auto dim = [&](const Dim& d) {
    if (!d.is_constant())
      for (SymbolId s : d.symbols()) fn(s);
  };
  if (type.is_number() && type.number().dim) dim(*type.number().dim);
  if (!type.is_tensor()) return;
  for (const Dim& d : type.tensor().shape) dim(d);
  for (const Dim& d : type.tensor().strides) dim(d);
}

// How values and symbolic sizes are called in one printed trace.
class PrintedNames {
 public:
  PrintedNames() = default;
  explicit PrintedNames(const Trace& trace) {
    for (Value v : trace.inputs) add(v);
    for (const Call* c : trace.calls) visit_outputs(*c, [&](Value v) { add(v); });
    for_each_call(trace.calls, [&](const Call& c) {
      visit_outputs(c, [&](Value v) { add(v); });
      visit_own_inputs(c, [&](Value v) { add(v); });
      for (const Arg& a : c.args) for_each_symbol(a, [&](SymbolId s) { symbols_.insert(s); });
    });
    visit_values(trace.output, [&](Value v) { add(v); });
    for_each_symbol(trace.output, [&](SymbolId s) { symbols_.insert(s); });
    if (with_given_name_.empty() && symbols_.empty()) return;
    std::unordered_set<std::string> taken = reserve(trace);
    name_given(taken);
    label_symbols(taken);
  }

  std::string of(Value v) const {
    auto it = given_.find(v);
    return it == given_.end() ? v.name() : it->second;
  }
  /// The first value in the trace that is this size; a label if there is none.
  std::string of(SymbolId s) const {
    auto it = binders_.find(s);
    return it == binders_.end() ? label(s) : of(it->second);
  }
  /// A name by which all values that are this size say so.
  std::string label(SymbolId s) const {
    auto it = labels_.find(s);
    return it == labels_.end() ? "s" + std::to_string(s) : it->second;
  }

 private:
  void add(Value v) {
    if (!seen_.insert(v).second) return;
    if (!v.given_name().empty()) with_given_name_.push_back(v);
    if (std::optional<SymbolId> s = bound_symbol(v)) binders_.emplace(*s, v);
    for_each_symbol_in_type(v.type(), [&](SymbolId s) { symbols_.insert(s); });
  }

  // Names that a value must not take: those that print makes, and those that the program uses for something else.
  std::unordered_set<std::string> reserve(const Trace& trace) const {
    std::unordered_set<std::string> taken = {"torch", "Tensor",      "thunder",  "ltorch",           "prims",
                                             "clang", "no_autocast", "float",    "complex",          "slice",
                                             "max",   "min",         "Ellipsis", "clear_collection", "_"};
    if (trace.signature.kind != Signature::Plain)
      taken.insert({"args", "saved_for_backward", "cotangents", "C0", "C1"});
    for (Value v : seen_)
      if (v.given_name().empty()) taken.insert(v.name());
    for_each_call(trace.calls, [&](const Call& c) { taken.insert(root_of(c.op->print_name)); });
    for_each_opaque(trace, [&](const OpaqueArg& o) { taken.insert(root_of(o.name)); });
    return taken;
  }

  void name_given(std::unordered_set<std::string>& taken) {
    for (Value v : with_given_name_) {
      std::string name = v.given_name();
      for (char& c : name)
        if (!syntax::is_identifier(std::string("_") + c)) c = '_';
      if (!syntax::is_identifier(name)) name = "_" + name;
      while (syntax::is_keyword(name) || taken.count(name)) name += "_";
      taken.insert(name);
      given_.emplace(v, std::move(name));
    }
  }

  // In the order of the symbols, so that sums print in the same order after they were read back.
  void label_symbols(const std::unordered_set<std::string>& taken) {
    int next = 0;
    for (SymbolId s : symbols_) {
      std::string name;
      do name = "u" + std::to_string(next++);
      while (taken.count(name));
      labels_.emplace(s, std::move(name));
    }
  }

  std::unordered_set<Value, ValueHash> seen_;
  std::vector<Value> with_given_name_;
  std::unordered_map<Value, std::string, ValueHash> given_;
  std::unordered_map<SymbolId, Value> binders_;
  std::set<SymbolId> symbols_;
  std::unordered_map<SymbolId, std::string> labels_;
};

class Printer {
 public:
  explicit Printer(const PrintOptions& options = {}, PrintedNames names = {})
      : options_(options), names_(std::move(names)) {}

  std::string run(const Trace& trace) {
    if (options_.header) header(trace);
    signature(trace);
    for (const Call* c : trace.calls) statement(*c, 2, false);
    line(2, "return ");
    arg(trace.output);
    out_ += "\n";
    return std::move(out_);
  }

  std::string one(const Arg& a) {
    arg(a);
    return std::move(out_);
  }

  std::string one(const Call& c) {
    call(c);
    return std::move(out_);
  }

 private:
  void line(size_t indent, std::string_view text) { out_.append(indent, ' ').append(text); }

  void header(const Trace& trace) {
    if (!trace.provenance.pass.empty())
      out_ += cat("# Constructed by ", trace.provenance.pass, " (took ", std::lround(trace.provenance.milliseconds),
                  " milliseconds)\n");
    std::unordered_set<std::string> roots;
    for (const Call* c : trace.calls)
      if (c->op->full_name != kDel) roots.insert(root_of(c->op->print_name));
    static constexpr std::pair<const char*, const char*> kImports[] = {
        {"Tensor", "from torch import Tensor"},          {"thunder", "import thunder"},
        {"prims", "import thunder.core.prims as prims"}, {"clang", "import thunder.clang as clang"},
        {"ltorch", "import thunder.torch as ltorch"},    {"lnumpy", "import thunder.numpy as lnumpy"}};
    out_ += "import torch\n";
    for (const auto& [root, text] : kImports)
      if (roots.count(root)) out_ += cat(text, "\n");
    if (trace.signature.kind == Signature::Backward)
      out_ += "from thunder.executors.pythonex import clear_collection\n";
    out_ += "from thunder.executors.torchex import no_autocast\n\n@torch.no_grad()\n@no_autocast\n";
  }

  // ---- the signature ------------------------------------------------------------------------------------------------

  void signature(const Trace& trace) {
    auto kind = trace.signature.kind;
    std::vector<std::string> names;
    for (Value v : trace.inputs) names.push_back(names_.of(v));
    if (kind == Signature::Plain) {
      out_ += cat("def ", trace.name, "(", join(names), "):\n");
    } else if (kind == Signature::StarArgs) {
      out_ += cat("def ", trace.name, "(*args):\n");
      describe_collection("args");
      unpack(names, "args");
      line(2, "del args\n");
    } else {
      backward_signature(trace, names);
    }
    for (Value v : trace.inputs) annotate(v, 2);
  }

  void backward_signature(const Trace& trace, const std::vector<std::string>& names) {
    size_t tensors = trace.signature.saved_tensors, saved = tensors + trace.signature.saved_numbers;
    THUNDER_ASSERT(saved <= names.size(), "a backward signature saves ", saved, " values, the trace has ", names.size(),
                   " inputs");
    auto part = [&](size_t from, size_t to) {
      return std::vector<std::string>(names.begin() + static_cast<long>(from), names.begin() + static_cast<long>(to));
    };
    bool numbers = saved > tensors;
    out_ += cat("def ", trace.name, "(saved_for_backward, cotangents):\n");
    describe_collection("saved_for_backward");
    describe_collection("cotangents");
    unpack_and_clear(numbers ? std::vector<std::string>{"C0", "C1"} : std::vector<std::string>{"C0"},
                     "saved_for_backward");
    unpack_and_clear(part(saved, names.size()), "cotangents");
    unpack_and_clear(part(0, tensors), "C0");
    if (numbers) unpack_and_clear(part(tensors, saved), "C1");
  }

  void describe_collection(const char* name) {
    if (options_.annotations) line(2, cat("# ", name, ": \"Collection\"\n"));
  }

  void unpack(const std::vector<std::string>& names, const char* from) {
    if (names.empty()) return;
    for (const std::string& n : names) line(2, n + ", \\\n");
    line(2, cat("= ", from, "\n"));
  }

  void unpack_and_clear(const std::vector<std::string>& names, const char* from) {
    unpack(names, from);
    line(2, cat("clear_collection(", from, ")\n"));
    line(2, cat("del ", from, "\n"));
  }

  // ---- types --------------------------------------------------------------------------------------------------------

  std::string dim(const Dim& d) const {
    if (d.is_constant()) return std::to_string(d.constant());
    return d.str([this](SymbolId s) { return names_.of(s); });
  }

  std::string dims(const Dims& list) const {
    std::string text;
    for (const Dim& d : list) text += (text.empty() ? "" : ", ") + dim(d);
    return text;
  }

  std::string type(Value v) const {
    const Type& t = v.type();
    if (t.kind() == Type::Kind::Number) {
      std::string text(syntax::kind_name(t.number().kind));
      if (!t.number().dim) return text;
      std::optional<SymbolId> s = bound_symbol(v);
      return text + " " + (s ? names_.label(*s) : dim(*t.number().dim));
    }
    if (t.kind() == Type::Kind::Opaque) {
      std::string text = syntax::repr(t.opaque_name());
      std::string inside = text.substr(1, text.size() - 2);
      if (text[0] == '\'')
        for (size_t i = inside.find('"'); i != std::string::npos; i = inside.find('"', i + 2)) inside.insert(i, "\\");
      return inside;
    }
    if (t.kind() == Type::Kind::None) return "None";
    if (!t.is_future()) return type(t.tensor());
    std::string text;
    for (const TensorType& x : t.future()) text += (text.empty() ? "FUTURE " : ", ") + type(x);
    return text;
  }

  std::string type(const TensorType& x) const {
    std::string text = x.device.str() + " ";
    text.append(short_name(x.dtype)).append("[").append(dims(x.shape)).append("]");
    if (!x.strided()) text.append(" ").append(x.layout_str());
    if (!options_.strides) return text;
    if (x.strided() && !same(x.strides, syntax::row_major_strides(x.shape)))
      text.append(" strides=(").append(dims(x.strides)).append(x.strides.size() == 1 ? ",)" : ")");
    return x.requires_grad ? text + " requires_grad" : text;
  }

  std::string annotation(Value v) const { return "# " + names_.of(v) + ": \"" + type(v) + "\""; }

  void annotate(Value v, size_t indent) {
    if (options_.annotations) line(indent, annotation(v) + "\n");
  }

  // ---- calls --------------------------------------------------------------------------------------------------------

  void statement(const Call& c, size_t indent, bool comment) {
    line(indent, comment ? "# " : "");
    call(c);
    bool lone = c.output.is_value();
    if (options_.annotations && lone) out_ += "  " + annotation(c.output.value());
    if (std::string hint = operator_hint(c); !hint.empty()) out_ += "  # op: " + hint;
    out_ += "\n";
    if (!lone) annotate_outputs(c, indent + 2);
    if (options_.bodies)
      for (const Call* inner : c.body) statement(*inner, indent + 2, true);
  }

  // Outputs that the body makes have their types there, where its calls are printed.
  void annotate_outputs(const Call& c, size_t indent) {
    std::unordered_set<Value, ValueHash> known;
    visit_own_inputs(c, [&](Value v) { known.insert(v); });
    if (options_.bodies)
      for (const Call* inner : c.body) visit_outputs(*inner, [&](Value v) { known.insert(v); });
    visit_outputs(c, [&](Value v) {
      if (known.insert(v).second) annotate(v, indent);
    });
  }

  void call(const Call& c) {
    symbol_values_ = &c.symbols;
    if (c.op->full_name == kDel) {
      out_ += "del ";
      if (c.args.at(0).items().empty()) out_ += "()";
      list(c.args.at(0).items());
    } else {
      if (!c.output.is_none()) {
        target(c.output);
        out_ += " = ";
      }
      out_ += c.op->print_name + "(";
      arguments(c);
      out_ += ")";
    }
    symbol_values_ = nullptr;
  }

  void target(const Arg& a) {
    if (a.is_value()) {
      out_ += names_.of(a.value());
    } else if (a.is_sequence()) {
      bool tuple = a.kind() == Arg::Kind::Tuple;
      out_ += tuple ? "(" : "[";
      bool first = true;
      for (const Arg& item : a.items()) {
        if (!first) out_ += ", ";
        first = false;
        target(item);
      }
      if (tuple && a.items().size() == 1) out_ += ",";
      out_ += tuple ? ")" : "]";
    } else {
      out_ += "_";
    }
  }

  static bool printed(const Call& c, size_t i) {
    const Param& p = c.op->schema.params[i];
    return !p.keyword_only || !p.default_value || !c.args[i].same(*p.default_value) || !is_registered(*c.op);
  }

  static bool is_registered(const Op& op) { return Registry::instance().find(op.full_name) == &op; }

  void arguments(const Call& c) {
    bool first = true;
    for (size_t i = 0; i < c.args.size(); ++i) {
      if (i < c.op->schema.params.size() && !printed(c, i)) continue;
      if (!first) out_ += ", ";
      first = false;
      if (i < c.op->schema.params.size() && c.op->schema.params[i].keyword_only)
        out_ += c.op->schema.params[i].name + "=";
      arg(c.args[i]);
    }
  }

  // The operator's full name, where name and arguments alone would be read as another one's.  Only for the parser,
  // which needs annotations and bodies as well.
  std::string operator_hint(const Call& c) const {
    if (c.op->full_name == kDel || !options_.annotations || !options_.bodies) return {};
    std::vector<const Op*> candidates = Registry::instance().by_print_name(c.op->print_name);
    if (candidates.size() == 1 && candidates[0] == c.op) return {};
    if (candidates.empty() && !c.body.empty()) return {};
    if (!is_registered(*c.op)) return "local";
    ArgList positional;
    syntax::Keywords keyword;
    for (size_t i = 0; i < std::min(c.args.size(), c.op->schema.params.size()); ++i) {
      if (!printed(c, i)) continue;
      if (c.op->schema.params[i].keyword_only) keyword.emplace_back(c.op->schema.params[i].name, c.args[i]);
      else positional.push_back(c.args[i]);
    }
    std::optional<syntax::Resolved> found = syntax::resolve(candidates, positional, keyword);
    return found && found->op == c.op ? "" : c.op->full_name;
  }

  // ---- arguments ----------------------------------------------------------------------------------------------------

  void list(const ArgList& items) {
    bool first = true;
    for (const Arg& a : items) {
      if (!first) out_ += ", ";
      first = false;
      arg(a);
    }
  }

  // A size in an argument is spelled by the value that the call reads for it.
  std::string size(const Dim& d) const {
    if (d.is_constant()) return std::to_string(d.constant());
    return d.str([this](SymbolId s) {
      if (symbol_values_)
        for (Value v : *symbol_values_)
          if (bound_symbol(v) == s) return names_.of(v);
      return names_.of(s);
    });
  }

  void arg(const Arg& a) {
    switch (a.kind()) {
      case Arg::Kind::None: out_ += "None"; break;
      case Arg::Kind::Bool: out_ += a.boolean() ? "True" : "False"; break;
      case Arg::Kind::Int: out_ += size(a.dim()); break;
      case Arg::Kind::Float: out_ += syntax::repr(a.real()); break;
      case Arg::Kind::Complex: out_ += syntax::repr(a.complex()); break;
      case Arg::Kind::Str: out_ += syntax::repr(a.str()); break;
      case Arg::Kind::DType: out_ += cat(a.dtype()); break;
      case Arg::Kind::Device: out_ += "torch.device('" + a.device().str() + "')"; break;
      case Arg::Kind::Value: out_ += names_.of(a.value()); break;
      case Arg::Kind::Constant: out_ += a.constant().name; break;
      case Arg::Kind::Opaque: out_ += a.opaque().name; break;
      case Arg::Kind::List:
        out_ += "[";
        list(a.items());
        out_ += "]";
        break;
      case Arg::Kind::Tuple:
        out_ += "(";
        list(a.items());
        out_ += a.items().size() == 1 ? ",)" : ")";
        break;
      case Arg::Kind::Dict: dict(a); break;
      case Arg::Kind::Slice:
        out_ += "slice(";
        list({a.slice().start, a.slice().stop, a.slice().step});
        out_ += ")";
        break;
    }
  }

  void dict(const Arg& a) {
    out_ += "{";
    bool first = true;
    for (const auto& [key, value] : a.entries()) {
      if (!first) out_ += ", ";
      first = false;
      arg(key);
      out_ += ": ";
      arg(value);
    }
    out_ += "}";
  }

  PrintOptions options_;
  PrintedNames names_;
  std::string out_;
  const std::vector<Value>* symbol_values_ = nullptr;
};

}  // namespace

std::string print(const Trace& trace, const PrintOptions& options) {
  return Printer(options, PrintedNames(trace)).run(trace);
}

std::string print(const Arg& arg) { return Printer().one(arg); }

std::string print(const Call& call) { return Printer().one(call); }

std::map<std::string, std::shared_ptr<void>> python_context(const Trace& trace) {
  std::map<std::string, std::shared_ptr<void>> context;
  for_each_opaque(trace, [&](const OpaqueArg& o) {
    auto [it, is_new] = context.emplace(o.name, o.object);
    THUNDER_ASSERT(is_new || it->second == o.object, "two objects in the trace are called '", o.name, "'");
  });
  return context;
}

}  // namespace thunder
