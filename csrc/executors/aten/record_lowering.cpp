#include "executors/aten/record_lowering.h"

#include <ATen/core/jit_type.h>

#include <algorithm>
#include <charconv>
#include <mutex>
#include <unordered_map>

#include "core/error.h"
#include "core/print.h"
#include "executors/aten/boxed_call.h"
#include "passes/visit.h"
#include "runtime/convert.h"

namespace thunder::aten {
namespace {

using c10::TypeKind;
using c10::TypePtr;

// ---- the template ---------------------------------------------------------------------------------------------------

struct AtenTemplateArg {
  std::string keyword;  // of ATen's schema; empty: positional
  std::string text;     // a parameter of ours, or a literal
};
struct AtenTemplate {
  std::string name, overload;
  bool spelled = false;  // arguments are given
  std::vector<AtenTemplateArg> args;
};

std::string strip(std::string_view s) {
  size_t a = s.find_first_not_of(' '), b = s.find_last_not_of(' ');
  return a == std::string_view::npos ? std::string() : std::string(s.substr(a, b - a + 1));
}

// Splits at commas outside of brackets.
std::vector<std::string> split_arguments(std::string_view text) {
  std::vector<std::string> out;
  int depth = 0;
  size_t start = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    char c = i < text.size() ? text[i] : ',';
    depth += (c == '[' || c == '(') - (c == ']' || c == ')');
    if (c != ',' || (depth > 0 && i < text.size())) continue;
    if (std::string part = strip(text.substr(start, i - start)); !part.empty()) out.push_back(part);
    start = i + 1;
  }
  return out;
}

AtenTemplate parse_template(std::string_view text) {
  AtenTemplate t;
  size_t open = text.find('(');
  std::string name = strip(text.substr(0, open));
  if (name.find("::") == std::string::npos) name = "aten::" + name;
  size_t dot = name.find('.', name.find("::"));
  t.name = name.substr(0, dot);
  if (dot != std::string::npos) t.overload = name.substr(dot + 1);
  if (open == std::string_view::npos) return t;
  t.spelled = true;
  size_t close = text.rfind(')');
  THUNDER_CHECK(close != std::string_view::npos, Internal, text, "a bracket is not closed");
  for (const std::string& part : split_arguments(text.substr(open + 1, close - open - 1))) {
    size_t equal = part.find('=');
    if (equal == std::string::npos) t.args.push_back({{}, part});
    else t.args.push_back({strip(part.substr(0, equal)), strip(part.substr(equal + 1))});
  }
  return t;
}

std::optional<Arg> parse_literal(const std::string& text) {
  if (text == "None") return Arg();
  if (text == "True") return Arg(true);
  if (text == "False") return Arg(false);
  if (text.starts_with("'") || text.starts_with("\"")) return Arg(text.substr(1, text.size() - 2));
  if (text.starts_with("[")) {
    ArgList items;
    for (const std::string& part : split_arguments(std::string_view(text).substr(1, text.size() - 2))) {
      std::optional<Arg> item = parse_literal(part);
      if (!item) return std::nullopt;
      items.push_back(*item);
    }
    return Arg::list(std::move(items));
  }
  if (text.starts_with("torch.")) {
    if (std::optional<DType> t = dtype_from_torch_name(std::string_view(text).substr(6))) return Arg(*t);
    return Arg(ConstantArg{text});
  }
  const char *begin = text.data(), *end = begin + text.size();
  int64_t i = 0;
  if (auto r = std::from_chars(begin, end, i); r.ec == std::errc() && r.ptr == end) return Arg(i);
  double f = 0;
  if (auto r = std::from_chars(begin, end, f); r.ec == std::errc() && r.ptr == end) return Arg(f);
  return std::nullopt;
}

// ---- types ----------------------------------------------------------------------------------------------------------

const TypePtr& type_of_argument(const c10::Argument& a) { return a.real_type(); }

bool is_number_kind(TypeKind k) {
  return k == TypeKind::IntType || k == TypeKind::SymIntType || k == TypeKind::FloatType || k == TypeKind::NumberType ||
         k == TypeKind::BoolType || k == TypeKind::SymFloatType || k == TypeKind::SymBoolType;
}

// Whether an argument of ours can stand where ATen wants `type`.  `wrap`: a number may stand for a tensor.
bool fits(const Arg& a, const TypePtr& type, bool wrap) {
  switch (type->kind()) {
    case TypeKind::OptionalType:
      return a.is_none() || fits(a, type->castRaw<c10::OptionalType>()->getElementType(), wrap);
    // None, which only a `Tensor?` of ours lets through, is an undefined tensor.
    case TypeKind::TensorType: return a.is_tensor() || a.is_none() || (wrap && a.is_number());
    case TypeKind::NumberType: return a.is_number();
    case TypeKind::IntType:
    case TypeKind::SymIntType:
      return a.is_number() && (a.number_kind() == NumberKind::Int || a.number_kind() == NumberKind::Bool);
    case TypeKind::FloatType:
    case TypeKind::SymFloatType: return a.is_number() && a.number_kind() != NumberKind::Complex;
    case TypeKind::BoolType:
    case TypeKind::SymBoolType: return a.is_number() && a.number_kind() == NumberKind::Bool;
    case TypeKind::StringType: return a.kind() == Arg::Kind::Str;
    case TypeKind::ScalarTypeType: return a.kind() == Arg::Kind::DType;
    case TypeKind::DeviceObjType: return a.kind() == Arg::Kind::Device;
    case TypeKind::LayoutType:
    case TypeKind::MemoryFormatType: return a.kind() == Arg::Kind::Constant;
    case TypeKind::ListType: {
      const TypePtr& element = type->castRaw<c10::ListType>()->getElementType();
      if (!a.is_sequence()) return is_number_kind(element->kind()) && fits(a, element, false);
      return std::all_of(a.items().begin(), a.items().end(),
                         [&](const Arg& item) { return fits(item, element, wrap); });
    }
    default: return false;
  }
}

// The same for the whole parameter, before there is an argument.
bool may_fit(const Param& p, const TypePtr& type) {
  using K = Param::Kind;
  TypeKind kind = type->kind();
  if (kind == TypeKind::OptionalType) return may_fit(p, type->castRaw<c10::OptionalType>()->getElementType());
  if (p.kind == K::Any || p.kind == K::Index) return true;
  if (kind == TypeKind::ListType) {
    Param element = p;
    element.list = false;
    return may_fit(element, type->castRaw<c10::ListType>()->getElementType());
  }
  if (p.list) return false;
  switch (p.kind) {
    case K::Tensor: return kind == TypeKind::TensorType;
    case K::Scalar:
    case K::Number: return kind == TypeKind::TensorType || is_number_kind(kind);
    case K::Int:
    case K::Float:
    case K::Bool: return is_number_kind(kind) || kind == TypeKind::TensorType;
    case K::Str: return kind == TypeKind::StringType;
    case K::DType: return kind == TypeKind::ScalarTypeType;
    case K::Device: return kind == TypeKind::DeviceObjType;
    case K::Layout: return kind == TypeKind::LayoutType;
    case K::MemoryFormat: return kind == TypeKind::MemoryFormatType;
    default: return true;
  }
}

Operand::Element element_of(const TypePtr& type) {
  switch (type->kind()) {
    case TypeKind::TensorType: return Operand::Element::Tensor;
    case TypeKind::OptionalType: return Operand::Element::OptionalTensor;
    case TypeKind::IntType:
    case TypeKind::SymIntType: return Operand::Element::Int;
    case TypeKind::FloatType: return Operand::Element::Float;
    case TypeKind::BoolType: return Operand::Element::Bool;
    default: return Operand::Element::Any;
  }
}

Operand::Convert conversion(const Arg& a, const TypePtr& type) {
  if (a.is_tensor()) return Operand::Convert::None;
  switch (type->kind()) {
    case TypeKind::TensorType: return Operand::Convert::Tensor;
    case TypeKind::FloatType: return Operand::Convert::Float;
    case TypeKind::IntType:
    case TypeKind::SymIntType: return Operand::Convert::Int;
    case TypeKind::BoolType: return Operand::Convert::Bool;
    default: return Operand::Convert::None;
  }
}

Operand literal_operand(const Arg& a, const TypePtr& type, at::ScalarType number) {
  switch (type->kind()) {
    case TypeKind::TensorType: return Operand::of(a.is_none() ? at::Tensor() : number_as_tensor(scalar_of(a), number));
    case TypeKind::FloatType: return Operand::of(a.real());
    case TypeKind::IntType:
    case TypeKind::SymIntType: return Operand::of(scalar_of(a).toLong());
    default: return Operand::of(literal_to_ivalue(a));
  }
}

// `number`: the dtype of a number that stands for a tensor.
Operand operand_of(const Arg& a, const TypePtr& type, const Assembler& assembler, at::ScalarType number) {
  if (type->kind() == TypeKind::OptionalType) {
    if (a.is_none()) return Operand::of({});
    return operand_of(a, type->castRaw<c10::OptionalType>()->getElementType(), assembler, number);
  }
  if (type->kind() == TypeKind::ListType) {
    const TypePtr& element = type->castRaw<c10::ListType>()->getElementType();
    Operand o;
    o.kind = Operand::Kind::List;
    o.element = element_of(element);
    bool constant = true;
    for (const Arg& item : a.is_sequence() ? a.items() : ArgList{a}) {
      o.items.push_back(operand_of(item, element, assembler, number));
      constant &= o.items.back().kind == Operand::Kind::Constant;
    }
    if (!constant) return o;
    Frame none;
    return Operand::of(o.load(none));
  }
  const bool computed = a.kind() == Arg::Kind::Int && !a.dim().is_constant();
  if (!computed && !a.is_value()) return literal_operand(a, type, number);
  Operand o = computed ? assembler.expression(a.dim()) : assembler.value(a.value(), conversion(a, type));
  o.convert = conversion(a, type);
  o.number = number;
  return o;
}

// ---- from records to targets ----------------------------------------------------------------------------------------

const char* const kNumberOverloads[] = {"Scalar",      "Tensor_Scalar", "Scalar_Tensor", "ScalarSelf",
                                        "ScalarOther", "Scalar_Scalar", "Tensor_Mode"};

// For these the number as a tensor is both what eager does and the cheaper way; the other overloads wrap it at every
// call.
bool wraps_numbers(const std::string& name) {
  static const char* const kNames[] = {"aten::add", "aten::sub", "aten::mul", "aten::div"};
  return std::any_of(std::begin(kNames), std::end(kNames), [&](const char* n) { return name == n; });
}

std::string map_arguments(const Op& op, const AtenTemplate& t, const c10::FunctionSchema& schema,
                          std::vector<ArgumentSource>& sources) {
  const auto& arguments = schema.arguments();
  sources.assign(arguments.size(), {});
  auto assign = [&](size_t index, ArgumentSource s, const std::string& what) -> std::string {
    if (sources[index].param >= 0 || sources[index].literal)
      return cat("'", arguments[index].name(), "' is given twice");
    const TypePtr& type = type_of_argument(arguments[index]);
    if (s.param >= 0 && !may_fit(op.schema.params[static_cast<size_t>(s.param)], type))
      return cat("'", what, "' cannot stand for '", type->str(), " ", arguments[index].name(), "'");
    if (s.literal && !fits(*s.literal, type, true))
      return cat("the literal ", what, " is not a '", type->str(), " ", arguments[index].name(), "'");
    sources[index] = std::move(s);
    return {};
  };
  auto by_name = [&](const std::string& name) -> std::optional<size_t> {
    for (size_t i = 0; i < arguments.size(); ++i)
      if (arguments[i].name() == name) return i;
    return std::nullopt;
  };
  auto place = [&](size_t position, const std::string& name, bool keyword, ArgumentSource s,
                   const std::string& what) -> std::string {
    bool positional = !keyword && position < arguments.size() && !arguments[position].kwarg_only();
    std::optional<size_t> index = positional ? std::optional<size_t>(position) : by_name(name);
    if (!index) return cat("'", what, "' has no place in ", schema.name(), "(", join(arguments), ")");
    return assign(*index, std::move(s), what);
  };

  std::string problem;
  if (!t.spelled) {
    for (size_t i = 0; i < op.schema.params.size() && problem.empty(); ++i) {
      const Param& p = op.schema.params[i];
      problem = place(i, p.name, p.keyword_only, ArgumentSource{static_cast<int>(i), {}}, p.name);
    }
    return problem;
  }
  for (size_t i = 0; i < t.args.size() && problem.empty(); ++i) {
    const AtenTemplateArg& a = t.args[i];
    ArgumentSource s;
    s.param = op.schema.index_of(a.text);
    if (s.param < 0) s.literal = parse_literal(a.text);
    if (s.param < 0 && !s.literal) return cat("'", a.text, "' is neither a parameter nor a literal");
    problem = place(i, a.keyword, !a.keyword.empty(), std::move(s), a.text);
  }
  return problem;
}

std::string check_required(const c10::FunctionSchema& schema, const std::vector<ArgumentSource>& sources) {
  for (size_t i = 0; i < sources.size(); ++i)
    if (sources[i].param < 0 && !sources[i].literal && !schema.arguments()[i].default_value())
      return cat("nothing is given for '", schema.arguments()[i].name(), "', which has no default");
  return {};
}

// How many results a record declares; -1 for a list or anything.
int declared_results(const std::string& results) {
  if (results == "None") return 0;
  if (results.ends_with("[]") || results == "any") return -1;
  if (!results.starts_with("(")) return 1;
  return static_cast<int>(split_arguments(std::string_view(results).substr(1, results.size() - 2)).size());
}

std::string check_results(const Op& op, const c10::FunctionSchema& schema) {
  int ours = declared_results(op.schema.results);
  const auto& returns = schema.returns();
  bool list = returns.size() == 1 && returns[0].type()->kind() == TypeKind::ListType;
  if (list != (ours == -1) && ours != 0 && op.schema.results != "any")
    return cat("results '", op.schema.results, "' are not those of ATen");
  if (ours > 0 && static_cast<size_t>(ours) > returns.size())
    return cat("declares ", ours, " results, ATen gives ", returns.size());
  return {};
}

}  // namespace

RecordLowering::RecordLowering(const Op& op) : op_(op) {
  if (op.aten.empty()) {
    problem_ = "the record has no `aten` field";
    return;
  }
  try {
    AtenTemplate t = parse_template(op.aten);
    auto& dispatcher = c10::Dispatcher::singleton();
    std::optional<c10::OperatorHandle> handle = dispatcher.findSchema({t.name, t.overload});
    if (!handle) {
      problem_ = cat("this PyTorch has no operator ", t.name, t.overload.empty() ? "" : ".", t.overload);
      return;
    }
    BoundOperator named{*handle, {}};
    problem_ = map_arguments(op, t, handle->schema(), named.sources);
    if (problem_.empty()) problem_ = check_required(handle->schema(), named.sources);
    if (problem_.empty()) problem_ = check_results(op, handle->schema());
    if (!problem_.empty()) return;
    prefer_wrapped_ = wraps_numbers(t.name);
    std::vector<char> mentioned(op.schema.params.size(), 0);
    for (const ArgumentSource& s : named.sources)
      if (s.param >= 0) mentioned[static_cast<size_t>(s.param)] = 1;
    for (size_t i = 0; i < mentioned.size(); ++i)
      // A parameter without a default that the template leaves out does not matter to ATen (graft's first).
      if (!mentioned[i] && op.schema.params[i].default_value) omitted_.push_back(static_cast<int>(i));
    operators_.push_back(std::move(named));
    for (const char* overload : kNumberOverloads) {
      std::optional<c10::OperatorHandle> other = dispatcher.findSchema({t.name, overload});
      if (!other || overload == t.overload) continue;
      BoundOperator alternative{*other, {}};
      if (map_arguments(op, t, other->schema(), alternative.sources).empty() &&
          check_required(other->schema(), alternative.sources).empty() && check_results(op, other->schema()).empty())
        operators_.push_back(std::move(alternative));
    }
  } catch (const Error& e) {
    problem_ = e.what();
  }
}

bool RecordLowering::omitted_at_default(const ArgList& args) const {
  for (int i : omitted_) {
    const Param& p = op_.schema.params[static_cast<size_t>(i)];
    const Arg& a = args[static_cast<size_t>(i)];
    if (!a.is_none() && !a.same(*p.default_value)) return false;
  }
  return true;
}

namespace {
// None of ours where ATen has a plain number with a default: F.embedding's padding_idx.
bool means_default(const Arg& a, const c10::Argument& argument) {
  return a.is_none() && argument.default_value() && type_of_argument(argument)->kind() != TypeKind::OptionalType;
}

// The dtype of a result, or of a tensor that is compared.
at::ScalarType computing_type(const Call& call) {
  at::ScalarType out = at::ScalarType::Undefined;
  auto take = [&](Value v) {
    const bool open = out == at::ScalarType::Undefined || out == at::ScalarType::Bool;
    if (open && v.type().is_tensor()) out = to_aten(v.dtype());
  };
  visit_outputs(call, take);
  visit_all_inputs(call, take);
  return out;
}

bool all_fit(const BoundOperator& t, const ArgList& args, bool wrap) {
  const auto& arguments = t.handle.schema().arguments();
  for (size_t i = 0; i < t.sources.size(); ++i) {
    if (t.sources[i].param < 0) continue;
    const Arg& a = args[static_cast<size_t>(t.sources[i].param)];
    if (!means_default(a, arguments[i]) && !fits(a, type_of_argument(arguments[i]), wrap)) return false;
  }
  return true;
}
}  // namespace

const BoundOperator* RecordLowering::operator_for(const ArgList& args) const {
  if (!problem_.empty() || !omitted_at_default(args)) return nullptr;
  if (all_fit(operators_[0], args, prefer_wrapped_)) return &operators_[0];
  if (!prefer_wrapped_)
    for (size_t i = 1; i < operators_.size(); ++i)
      if (all_fit(operators_[i], args, false)) return &operators_[i];
  return !prefer_wrapped_ && all_fit(operators_[0], args, true) ? &operators_[0] : nullptr;
}

std::unique_ptr<Instruction> RecordLowering::lower(const Call& call, const Assembler& assembler) const {
  const BoundOperator* t = operator_for(call.args);
  THUNDER_CHECK(t, Internal, op_.full_name, "the record's operator '", op_.aten, "' cannot take this call",
                problem_.empty() ? "" : ": ", problem_);
  const c10::FunctionSchema& schema = t->handle.schema();
  bool list = schema.returns().size() == 1 && schema.returns()[0].type()->kind() == TypeKind::ListType;
  auto out = views(schema) ? std::make_unique<ViewCall>(t->handle) : std::make_unique<BoxedCall>(t->handle, list);
  const at::ScalarType number = prefer_wrapped_ ? at::ScalarType::Undefined : computing_type(call);
  for (size_t i = 0; i < t->sources.size(); ++i) {
    const ArgumentSource& s = t->sources[i];
    const c10::Argument& a = schema.arguments()[i];
    if (s.param >= 0 && !means_default(call.args[static_cast<size_t>(s.param)], a))
      out->operands.push_back(
          operand_of(call.args[static_cast<size_t>(s.param)], type_of_argument(a), assembler, number));
    else if (s.literal) out->operands.push_back(operand_of(*s.literal, type_of_argument(a), assembler, number));
    else out->operands.push_back(Operand::of(*a.default_value()));
  }
  out->prepare(call);
  return out;
}

void lower_by_records(const std::string& executor) {
  register_lowering(executor, [](const Call& call, const Assembler& assembler) {
    static std::mutex mutex;
    static std::unordered_map<const Op*, std::unique_ptr<RecordLowering>> lowerings;
    std::lock_guard lock(mutex);
    auto& lowering = lowerings[call.op];
    if (!lowering) lowering = std::make_unique<RecordLowering>(*call.op);
    return lowering->lower(call, assembler);
  });
}

}  // namespace thunder::aten
