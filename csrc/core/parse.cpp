#include "core/parse.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "core/error.h"
#include "core/expression.h"
#include "core/syntax.h"

namespace thunder {
namespace {

using syntax::Cursor;
using syntax::Expression;
using syntax::fail;
using syntax::NameFn;
using syntax::Nesting;
using syntax::Token;
using syntax::tokenize;

// ---- lines ----------------------------------------------------------------------------------------------------------

struct Statement {
  size_t line = 0;
  size_t indent = 0;
  bool comment = false;
  std::vector<Token> tokens;
  std::vector<Statement> body;  // comments below that are indented further
};

struct Annotation {
  std::string text;
  size_t line = 0;
};

// Whether a comment is `t0: "cpu f32[2]"` or `op: test.add`, and not a call or a remark.
bool is_note(std::string_view comment) {
  static constexpr std::string_view kNameChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  size_t start = std::min(comment.find_first_not_of(' '), comment.size());
  size_t end = std::min(comment.find_first_not_of(kNameChars, start), comment.size());
  if (!syntax::is_identifier(comment.substr(start, end - start)) || comment.substr(end, 1) != ":") return false;
  size_t after = comment.find_first_not_of(' ', end + 1);
  return after != std::string_view::npos && (comment[after] == '"' || comment.substr(start, end - start) == "op");
}

// The text as statements and annotations.
class Reader {
 public:
  Reader(std::string_view text, Trace& trace) : trace_(trace) {
    size_t number = 0, from = 0;
    while (from < text.size()) {
      size_t start = number + 1;
      std::string line = physical_line(text, from, number);
      while (!line.empty() && line.back() == '\\' && line.find_first_not_of(' ') != line.find('#')) {
        line.pop_back();
        line += " " + physical_line(text, from, number);
      }
      read(line, start);
    }
    if (!definition.line) fail(number, "there is no 'def' line");
    size_t next = 0;
    while (next < flat_.size()) statements.push_back(tree(next));
  }

  Statement definition;
  std::vector<Statement> statements;
  std::unordered_map<std::string, Annotation> annotations;
  std::unordered_map<size_t, std::string> operators;  // by line: the operator's full name, where one is given

 private:
  static std::string physical_line(std::string_view text, size_t& from, size_t& number) {
    size_t end = std::min(text.find('\n', from), text.size());
    std::string line(text.substr(from, end - from));
    from = std::min(end + 1, text.size());
    ++number;
    line.erase(line.find_last_not_of(" \t\r") + 1);
    return line;
  }

  void read(const std::string& line, size_t number) {
    size_t indent = line.find_first_not_of(' ');
    if (indent == std::string::npos) return;
    std::string_view text = std::string_view(line).substr(indent);
    if (!definition.line) {
      if (text.starts_with("# Constructed by ")) provenance(text.substr(17));
      if (!text.starts_with("def ")) return;
    }
    bool comment = text[0] == '#';
    if (comment) {
      text.remove_prefix(1);
      if (text.starts_with("#")) return;  // a remark of the reader's own
      if (note(text, number)) return;
    }
    Statement s{number, indent, comment, tokenize(text, number), {}};
    if (s.tokens.size() == 1) return;
    if (const Token& last = s.tokens[s.tokens.size() - 2]; last.kind == Token::Comment) note(last.text, number);
    if (!definition.line) {
      definition = std::move(s);
      return;
    }
    if (indent == 0 && !comment) fail(number, "only the lines of one function are understood");
    flat_.push_back(std::move(s));
  }

  // Whether the comment was a note.  Others may follow it on the line.
  bool note(std::string_view comment, size_t number) {
    if (!is_note(comment)) return false;
    for (std::string text(comment); is_note(text);) {
      std::vector<Token> t = tokenize(text, number);
      Cursor c(t, number);
      std::string name = c.name("a name");
      c.expect(":");
      if (c.peek().kind == Token::String) annotate(name, c.take().text, number);
      else operators[number] = c.dotted_name("an operator's name");
      c.expect_end();
      text = c.peek().kind == Token::Comment ? c.peek().text : "";
    }
    return true;
  }

  void annotate(const std::string& name, const std::string& type, size_t number) {
    auto [it, is_new] = annotations.emplace(name, Annotation{type, number});
    if (!is_new && it->second.text != type)
      fail(number, cat("'", name, "' is \"", type, "\" here and \"", it->second.text, "\" on line ", it->second.line));
  }

  void provenance(std::string_view text) {
    size_t open = text.rfind(" (took ");
    trace_.provenance.pass = text.substr(0, open);
    if (open == std::string_view::npos) return;
    text.remove_prefix(open + 7);
    std::from_chars(text.data(), text.data() + text.size(), trace_.provenance.milliseconds);
  }

  Statement tree(size_t& next) {
    const Nesting level(flat_[next].line);
    Statement s = std::move(flat_[next++]);
    while (next < flat_.size() && flat_[next].comment && flat_[next].indent > s.indent) s.body.push_back(tree(next));
    return s;
  }

  Trace& trace_;
  std::vector<Statement> flat_;
};

// ---- the trace ------------------------------------------------------------------------------------------------------

class Parser {
 public:
  Parser(std::string_view text, const std::map<std::string, std::shared_ptr<void>>& context)
      : reader_(text, trace_), context_(context), env_(ShapeEnv::current() ? ShapeEnv::current() : &own_env_) {
    trace_.arena = std::make_shared<Arena>();
    for (const auto& [name, annotation] : reader_.annotations)
      if (std::optional<ValueId> id = syntax::id_of_name(name)) reserved_.insert(*id);
    make_labels();
  }

  Trace run() {
    signature();
    size_t i = 0;
    const std::vector<Statement>& lines = reader_.statements;
    for (const Statement& s : lines)
      if (s.comment)
        fail(s.line, "a body stands below its call, indented further (begin a remark of your own with ##)");
    while (i < lines.size() && unpacking(lines[i])) ++i;
    inputs();
    for (; i < lines.size() && lines[i].tokens[0].text != "return"; ++i) trace_.calls.push_back(call(lines[i]));
    if (i == lines.size()) fail(reader_.definition.line, "the function has no return");
    Cursor c(lines[i].tokens, lines[i].line);
    c.take();
    trace_.output = Expression(c, names_at(lines[i].line)).parse_open();
    c.expect_end();
    if (i + 1 < lines.size()) fail(lines[i + 1].line, "nothing may follow the return");
    no_body(lines[i]);
    return std::move(trace_);
  }

 private:
  // ---- names and types ----------------------------------------------------------------------------------------------

  // Symbols are made in the order of their labels, which is the order in which the printer met them: sums of symbols
  // keep the order of their terms.
  void make_labels() {
    std::set<std::pair<size_t, std::string>> labels;
    for (const auto& [name, annotation] : reader_.annotations) {
      const std::string& text = annotation.text;
      for (size_t i = 0; i < text.size();) {
        size_t end = i;
        while (end < text.size() && syntax::is_identifier("_" + text.substr(end, 1))) ++end;
        std::string word = text.substr(i, end - i);
        i = end + 1;
        if (word.size() < 2 || word.size() > 9 || word[0] != 'u' || reader_.annotations.count(word)) continue;
        if (word.find_first_not_of("0123456789", 1) == std::string::npos)
          labels.emplace(std::stoul(word.substr(1)), word);
      }
      size_t equals = text.find('=');
      if (text.starts_with("int ") && equals != std::string::npos) {
        int64_t& hint = hints_[text.substr(4, equals - 4)];
        std::from_chars(text.data() + equals + 1, text.data() + text.size(), hint);
      }
    }
    for (const auto& [number, label] : labels) label_symbol(label);
  }

  Dim label_symbol(const std::string& label) {
    auto [it, is_new] = labels_.emplace(label, 0);
    if (is_new) {
      auto hint = hints_.find(label);
      it->second = env_->make_symbol(hint == hints_.end() ? std::nullopt : std::optional<int64_t>(hint->second), label);
    }
    return it->second;
  }

  // A name inside a type: that of an int value, or a label.  Makes no value: the order in which values are made decides
  // which one a call reads for a symbol.
  Dim size_named(const std::string& name, size_t line) {
    if (!reader_.annotations.count(name)) return label_symbol(name);
    const Type& t = type_of(name, line);
    if (!t.is_number() || !t.number().dim) fail(line, cat("'", name, "' is no symbolic size"));
    return *t.number().dim;
  }

  const Type& type_of(const std::string& name, size_t line) {
    auto known = types_.find(name);
    if (known != types_.end()) return known->second;
    auto it = reader_.annotations.find(name);
    if (it == reader_.annotations.end())
      fail(line, cat("no line says what '", name, "' is (# ", name, ": \"cpu f32[2]\")"));
    if (!types_in_progress_.insert(name).second)
      fail(it->second.line, cat("the type of '", name, "' refers to itself"));
    const Nesting level(it->second.line);
    Type type = parse_type(it->second);
    types_in_progress_.erase(name);
    return types_.emplace(name, std::move(type)).first->second;
  }

  Type parse_type(const Annotation& a) {
    std::string_view text = a.text, rest;
    size_t space = text.find(' ');
    std::string_view word = text.substr(0, space);
    if (space != std::string_view::npos) rest = text.substr(space + 1);
    if (text == "None") return {};
    for (NumberKind k : {NumberKind::Bool, NumberKind::Int, NumberKind::Float, NumberKind::Complex})
      if (word == syntax::kind_name(k)) return parse_number_type(k, rest, a.line);
    if (word == "FUTURE")
      if (std::optional<Type> t = parse_future(rest, a.line)) return *t;
    if (std::optional<TensorType> t = parse_tensor(text, a.line)) return *t;
    return Type::opaque(a.text);
  }

  // Nothing for a text of another form.
  std::optional<TensorType> parse_tensor(std::string_view text, size_t line) {
    const size_t space = text.find(' ');
    if (space == std::string_view::npos) return std::nullopt;
    const std::string_view rest = text.substr(space + 1);
    const size_t bracket = rest.find('[');
    std::optional<DType> dtype = dtype_from_short_name(rest.substr(0, bracket));
    if (!dtype || bracket == std::string_view::npos) return std::nullopt;
    TensorType t;
    t.dtype = *dtype;
    try {
      t.device = Device::parse(text.substr(0, space));
    } catch (const Error&) {
      return std::nullopt;
    }
    parse_layout(t, rest.substr(bracket), line);
    return t;
  }

  // Tensors separated by commas outside of brackets.
  std::optional<Type> parse_future(std::string_view text, size_t line) {
    std::vector<TensorType> of;
    for (size_t begin = 0, depth = 0, i = 0; i <= text.size(); ++i) {
      if (i < text.size() && (text[i] == '[' || text[i] == '(')) ++depth;
      if (i < text.size() && (text[i] == ']' || text[i] == ')')) --depth;
      if (i < text.size() && (text[i] != ',' || depth > 0)) continue;
      std::optional<TensorType> t = parse_tensor(text.substr(begin, i - begin), line);
      if (!t) return std::nullopt;
      of.push_back(std::move(*t));
      begin = std::min(text.size(), i + 2);
    }
    return Type::future(std::move(of));
  }

  Type parse_number_type(NumberKind kind, std::string_view text, size_t line) {
    NumberType n{kind, std::nullopt};
    if (text.empty()) return n;
    std::vector<Token> tokens = tokenize(text.substr(0, text.find('=')), line);
    Cursor c(tokens, line);
    n.dim = Expression(c, [&](const std::string& s) -> Arg { return size_named(s, line); }).dim();
    c.expect_end();
    return n;
  }

  void parse_layout(TensorType& t, std::string_view text, size_t line) {
    std::vector<Token> tokens = tokenize(text, line);
    Cursor c(tokens, line);
    Expression e(c, [&](const std::string& s) -> Arg { return size_named(s, line); });
    c.expect("[");
    t.shape = e.dims("]");
    for (Layout l : {Layout::SparseCoo, Layout::SparseCsr, Layout::SparseCsc}) {
      if (!c.is_name(layout_name(l))) continue;
      c.take();
      t.layout = l;
      if (!c.is_name("dense")) continue;
      c.take();
      c.expect("=");
      t.dense_dims = e.dim().constant();
    }
    if (t.strided()) t.strides = syntax::row_major_strides(t.shape);
    if (t.strided() && c.is_name("strides")) {
      c.take();
      c.expect("=");
      c.expect("(");
      t.strides = e.dims(")");
      if (t.strides.size() != t.shape.size()) c.error("there must be a stride for each size");
    }
    if (c.is_name("requires_grad")) {
      c.take();
      t.requires_grad = true;
    }
    c.expect_end();
  }

  Value value_named(const std::string& name, size_t line) {
    auto it = values_.find(name);
    if (it != values_.end()) return it->second;
    Type type = type_of(name, line);
    std::optional<ValueId> id = syntax::id_of_name(name);
    static constexpr std::string_view kNumbers = "bifc";
    char letter = type.is_tensor() ? 't' : type.is_future() ? 'p' : 'o';
    if (type.is_number()) letter = kNumbers[static_cast<size_t>(type.number().kind)];
    bool own_name = !id || name[0] != letter || !taken_.insert(*id).second;
    if (own_name) {
      while (reserved_.count(next_id_)) ++next_id_;
      id = next_id_++;
    }
    Value v = trace_.arena->make_value_with_id(*id, std::move(type), own_name ? name : "");
    values_.emplace(name, v);
    return v;
  }

  NameFn names_at(size_t line) {
    return [this, line](const std::string& name) { return meaning(name, line); };
  }

  // A name in an argument.
  Arg meaning(const std::string& name, size_t line) {
    if (reader_.annotations.count(name)) return value_named(name, line);
    if (auto it = context_.find(name); it != context_.end()) return OpaqueArg{name, it->second};
    if (auto it = labels_.find(name); it != labels_.end()) return it->second;
    if (name.starts_with("torch."))
      if (std::optional<DType> t = dtype_from_torch_name(std::string_view(name).substr(6))) return *t;
    if (name.find('.') != std::string::npos || name == "Ellipsis") return ConstantArg{name};
    fail(line, cat("'", name, "' is neither a value with a known type nor in the context"));
  }

  // ---- the signature ------------------------------------------------------------------------------------------------

  void signature() {
    Cursor c(reader_.definition.tokens, reader_.definition.line);
    c.take();
    trace_.name = c.name("the function's name");
    c.expect("(");
    bool star = c.accept("*");
    while (!c.accept(")")) {
      parameters_.push_back(c.name("a parameter"));
      if (!c.is(")")) c.expect(",");
    }
    c.expect(":");
    c.expect_end();
    bool clears = std::any_of(reader_.statements.begin(), reader_.statements.end(),
                              [](const Statement& s) { return s.tokens[0].text == "clear_collection"; });
    if (star) {
      if (parameters_.size() != 1) c.error("one starred parameter is understood, and nothing else with it");
      trace_.signature.kind = Signature::StarArgs;
      unpacked_[parameters_[0]];
    } else if (clears && parameters_.size() == 2) {
      trace_.signature.kind = Signature::Backward;
      for (const char* name : {"C0", "C1"}) unpacked_[name];
      for (const std::string& name : parameters_) unpacked_[name];
    }
  }

  // `t0, t1, = args`, `clear_collection(args)`, `del args`.
  bool unpacking(const Statement& s) {
    if (unpacked_.empty()) return false;
    Cursor c(s.tokens, s.line);
    if (c.is_name("clear_collection") || (c.is_name("del") && unpacked_.count(c.peek(1).text))) return true;
    if (c.peek().kind != Token::Name || !c.is(",", 1)) return false;
    std::vector<std::string> names;
    while (!c.accept("=")) {
      names.push_back(c.name("a name to unpack to"));
      if (!c.is("=")) c.expect(",");
    }
    std::string from = c.name("the collection to unpack");
    if (!c.at_end() || !unpacked_.count(from)) return false;
    unpacked_[from] = std::move(names);
    return true;
  }

  void inputs() {
    size_t line = reader_.definition.line;
    auto add = [&](const std::vector<std::string>& names) {
      for (const std::string& name : names) trace_.inputs.push_back(value_named(name, line));
    };
    if (trace_.signature.kind == Signature::Plain) return add(parameters_);
    if (trace_.signature.kind == Signature::StarArgs) return add(unpacked_[parameters_[0]]);
    add(unpacked_["C0"]);
    add(unpacked_["C1"]);
    trace_.signature.saved_tensors = unpacked_["C0"].size();
    trace_.signature.saved_numbers = unpacked_["C1"].size();
    add(unpacked_[parameters_[1]]);
  }

  // ---- calls --------------------------------------------------------------------------------------------------------

  const Call* call(const Statement& s) {
    Cursor c(s.tokens, s.line);
    if (c.is_name("del")) {
      no_body(s);
      return del(c);
    }
    size_t equals = equals_sign(s.tokens);
    c.go_to(equals ? equals + 1 : 0);
    std::string callee =
        c.dotted_name(s.comment ? "a call (begin a remark of your own with ##)" : "the call of an operator");
    ArgList positional;
    syntax::Keywords keyword;
    arguments(c, positional, keyword);
    Call made;
    for (const Statement& inner : s.body) made.body.push_back(call(inner));
    if (equals) {
      c.go_to(0);
      made.output = outputs(c);
    }
    choose_operator(s, callee, positional, keyword, made);
    return trace_.arena->make_call(std::move(made));
  }

  Arg outputs(Cursor& c) {
    NameFn define = [&](const std::string& name) -> Arg {
      return name == "_" ? Arg() : Arg(value_named(name, c.line()));
    };
    Arg out = Expression(c, define).parse_open();
    if (!c.is("=")) c.error("expected '='" + c.found());
    if (!out.is_value() && !out.is_none() && !out.is_sequence()) c.error("a call gives names or lists of names");
    return out;
  }

  static void no_body(const Statement& s) {
    if (!s.body.empty()) fail(s.body[0].line, "only a call has a body (begin a remark of your own with ##)");
  }

  // The position of the `=` outside brackets; 0 if there is none.
  static size_t equals_sign(const std::vector<Token>& tokens) {
    int depth = 0;
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (tokens[i].kind != Token::Punctuation) continue;
      char p = tokens[i].text[0];
      depth += p == '(' || p == '[' || p == '{' ? 1 : p == ')' || p == ']' || p == '}' ? -1 : 0;
      if (p == '=' && depth == 0) return i;
    }
    return 0;
  }

  void arguments(Cursor& c, ArgList& positional, syntax::Keywords& keyword) {
    c.expect("(");
    Expression e(c, names_at(c.line()));
    while (!c.accept(")")) {
      if (c.peek().kind == Token::Name && c.is("=", 1)) {
        std::string name = c.take().text;
        c.take();
        keyword.emplace_back(std::move(name), e.parse());
      } else {
        if (!keyword.empty()) c.error("an argument without a name follows one with a name");
        positional.push_back(e.parse());
      }
      if (!c.is(")")) c.expect(",");
    }
    c.expect_end();
  }

  const Call* del(Cursor& c) {
    c.take();
    Arg what = Expression(c, names_at(c.line())).parse_open();
    c.expect_end();
    const Op* op = Registry::instance().find(syntax::kDel);
    if (!op) c.error(cat("there is no operator ", syntax::kDel));
    Call made;
    made.op = op;
    made.args = {what.kind() == Arg::Kind::Tuple ? Arg::list(what.items()) : Arg::list({what})};
    return trace_.arena->make_call(std::move(made));
  }

  void choose_operator(const Statement& s, const std::string& callee, const ArgList& positional,
                       const syntax::Keywords& keyword, Call& made) {
    const Registry& registry = Registry::instance();
    auto hint = reader_.operators.find(s.line);
    std::vector<const Op*> candidates;
    bool local = hint != reader_.operators.end() && hint->second == "local";
    if (hint == reader_.operators.end()) candidates = registry.by_print_name(callee);
    else if (const Op* op = registry.find(hint->second)) candidates = {op};
    else if (!local) fail(s.line, cat("there is no operator ", hint->second));
    if (local || (candidates.empty() && !s.body.empty())) return use_local_operator(callee, positional, keyword, made);
    if (candidates.empty()) fail(s.line, cat("there is no operator that prints as '", callee, "'"));
    std::string why;
    std::optional<syntax::Resolved> found;
    try {
      found = syntax::resolve(candidates, positional, keyword, &why);
    } catch (const Error& e) {  // no device has that name
      fail(s.line, e.what());
    }
    if (!found) fail(s.line, why);
    made.op = found->op;
    made.args = std::move(found->args);
    sizes_for_ints(made);
  }

  // An int parameter takes a size, not the value that is that size: only a size can be computed with.
  static void sizes_for_ints(Call& made) {
    auto size = [](const Arg& a) -> Arg {
      return a.is_value() && a.value().type().is_number() && a.value().type().number().dim
                 ? Arg(*a.value().type().number().dim)
                 : a;
    };
    for (size_t i = 0; i < made.args.size(); ++i) {
      if (made.op->schema.params[i].kind != Param::Kind::Int) continue;
      Arg& a = made.args[i];
      if (!a.is_sequence()) {
        a = size(a);
        continue;
      }
      ArgList items;
      for (const Arg& item : a.items()) items.push_back(size(item));
      a = a.kind() == Arg::Kind::Tuple ? Arg::tuple(std::move(items)) : Arg::list(std::move(items));
    }
  }

  // An operator of the trace's own, such as a fusion region: it takes what it is given here.
  void use_local_operator(const std::string& callee, const ArgList& positional, const syntax::Keywords& keyword,
                          Call& made) {
    size_t dot = callee.rfind('.');
    std::string schema = callee.substr(dot == std::string::npos ? 0 : dot + 1) + "(";
    for (size_t i = 0; i < positional.size(); ++i) schema += cat(i ? ", " : "", "any a", i);
    for (size_t i = 0; i < keyword.size(); ++i)
      schema += cat(i || !positional.empty() ? ", " : "", i ? "" : "*, ", "any ", keyword[i].first);
    Arg::Kind kind = made.output.kind();
    schema += kind == Arg::Kind::None    ? ") -> None"
              : kind == Arg::Kind::List  ? ") -> any[]"
              : kind == Arg::Kind::Tuple ? ") -> (any)"
                                         : ") -> any";
    const Op*& op = local_operators_[callee + " " + schema];
    if (!op) {
      auto made_op = std::make_unique<Op>("local", OpDef{.schema = schema, .doc = ""});
      made_op->print_name = callee;
      op = &trace_.arena->own(std::move(made_op));
    }
    made.op = op;
    made.args = positional;
    for (const auto& [name, value] : keyword) made.args.push_back(value);
  }

  Trace trace_;
  Reader reader_;
  const std::map<std::string, std::shared_ptr<void>>& context_;
  ShapeEnv own_env_;
  ShapeEnv* env_;
  std::unordered_map<std::string, int64_t> hints_;
  std::unordered_map<std::string, Dim> labels_;
  std::unordered_map<std::string, Type> types_;
  std::unordered_set<std::string> types_in_progress_;
  std::unordered_map<std::string, Value> values_;
  std::unordered_set<ValueId> reserved_, taken_;
  ValueId next_id_ = 0;
  std::vector<std::string> parameters_;
  std::unordered_map<std::string, std::vector<std::string>> unpacked_;  // by collection
  std::unordered_map<std::string, const Op*> local_operators_;
};

}  // namespace

Trace parse(std::string_view text, const std::map<std::string, std::shared_ptr<void>>& context) {
  return Parser(text, context).run();
}

}  // namespace thunder
