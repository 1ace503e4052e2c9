#include "reference/evaluator.h"

#include "core/builder.h"
#include "core/error.h"
#include "core/print.h"
#include "core/rewrite.h"

namespace thunder::reference {

// ---- Datum ----------------------------------------------------------------------------------------------------------

Datum Datum::of_number(NumberKind kind, Element value) {
  Datum d;
  d.kind = Kind::Number;
  d.number_kind = kind;
  d.number = value;
  return d;
}

Datum Datum::sequence(std::vector<Datum> items) {
  Datum d;
  d.kind = Kind::Sequence;
  d.items = std::move(items);
  return d;
}

Datum Datum::future(std::string group, int64_t start) {
  Datum d;
  d.kind = Kind::Future;
  d.text = std::move(group);
  d.number = Element::integer(start);
  return d;
}

namespace {
bool exact_kind(NumberKind k) { return k == NumberKind::Bool || k == NumberKind::Int; }
thunder::DType type_of_kind(NumberKind k) {
  switch (k) {
    case NumberKind::Bool: return thunder::DType::boolean;
    case NumberKind::Int: return thunder::DType::i64;
    case NumberKind::Float: return thunder::DType::f64;
    default: return thunder::DType::c128;
  }
}
}  // namespace

double Datum::real() const {
  if (!is_number()) throw Wrong("a number is expected");
  return to_double(number, type_of_kind(number_kind));
}

int64_t Datum::integer() const {
  if (!is_number() || !exact_kind(number_kind)) throw Wrong("an integer is expected");
  return number.i;
}

bool Datum::truth() const {
  if (!is_number()) throw Wrong("a number is expected");
  return is_true(number, type_of_kind(number_kind));
}

Element Datum::as(thunder::DType t) const {
  if (!is_number()) throw Wrong("a number is expected");
  return converted(number, type_of_kind(number_kind), t);
}

std::vector<Datum> leaves(const Datum& d) {
  if (!d.is_sequence()) return {d};
  std::vector<Datum> out;
  for (const Datum& item : d.items)
    for (Datum& leaf : leaves(item)) out.push_back(std::move(leaf));
  return out;
}

bool same_datum(const Datum& a, const Datum& b, std::string* why) {
  auto differ = [&](const std::string& text) {
    if (why) *why = text;
    return false;
  };
  if (a.kind != b.kind) return differ("things of another kind");
  switch (a.kind) {
    case Datum::Kind::Tensor: return same_array(*a.array, *b.array, why);
    case Datum::Kind::Number:
      if (a.number_kind != b.number_kind) return differ("numbers of another kind");
      return same_element(a.number, b.number, type_of_kind(a.number_kind)) || differ("another number");
    case Datum::Kind::Sequence: {
      if (a.items.size() != b.items.size())
        return differ(cat("sequences of ", a.items.size(), " and of ", b.items.size()));
      for (size_t i = 0; i < a.items.size(); ++i) {
        std::string inner;
        if (!same_datum(a.items[i], b.items[i], &inner)) return differ(cat("item ", i, ": ", inner));
      }
      return true;
    }
    case Datum::Kind::Text: return a.text == b.text || differ("another text");
    default: return true;
  }
}

// ---- Inputs ---------------------------------------------------------------------------------------------------------

const Datum& Inputs::operator[](std::string_view param) const {
  int i = op_.schema.index_of(param);
  if (i < 0) throw Unknown(op_.full_name + " has no parameter '" + std::string(param) + "'");
  return args_[static_cast<size_t>(i)];
}

const Array& Inputs::tensor(std::string_view param) const {
  const Datum& d = (*this)[param];
  if (!d.is_tensor()) throw Wrong(op_.full_name + ": '" + std::string(param) + "' is not a tensor");
  return *d.array;
}

std::vector<int64_t> Inputs::integers(std::string_view param) const {
  std::vector<int64_t> out;
  for (const Datum& d : (*this)[param].items) out.push_back(d.integer());
  return out;
}

std::vector<const Array*> Inputs::tensors(std::string_view param) const {
  std::vector<const Array*> out;
  for (const Datum& d : (*this)[param].items) out.push_back(d.array.get());
  return out;
}

Shape Inputs::declared_strides(std::string_view param) const {
  const Arg& a = call_.args.at(static_cast<size_t>(op_.schema.index_of(param)));
  Shape out;
  for (const Dim& d : a.value().tensor().strides) out.push_back(evaluator_.evaluate(d));
  return out;
}

Rounding Inputs::rounding() const { return evaluator_.options().rounding; }

double Inputs::uniform() const { return static_cast<double>(evaluator_.next_random() >> 11) * 0x1p-53; }

const Kernels& kernels() {
  static const Kernels all = [] {
    Kernels k;
    add_elementwise(k);
    add_creation(k);
    add_counted_random(k);
    add_reductions(k);
    add_shapes(k);
    add_indexing(k);
    add_sorting(k);
    add_nn(k);
    add_padding(k);
    add_pooling(k);
    add_resampling(k);
    add_unique(k);
    add_linalg(k);
    add_recurrent(k);
    return k;
  }();
  return all;
}

// ---- Evaluator ------------------------------------------------------------------------------------------------------

uint64_t Evaluator::next_random() {
  uint64_t z = (random_state_ += 0x9E3779B97F4A7C15ull);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

const Datum& Evaluator::get(Value v) const {
  auto it = values_.find(v.id());
  if (it == values_.end()) throw Wrong(cat("value ", v.name(), " is read but not defined (or deleted)"));
  return it->second;
}

int64_t Evaluator::evaluate(const Dim& d) const {
  Dim known = d.substitute([&](SymbolId id) -> Dim {
    auto it = symbols_.find(id);
    if (it == symbols_.end()) throw Wrong(cat("the size ", d.str(), " is read before it is known"));
    return it->second;
  });
  return known.constant();
}

void Evaluator::define(Value v, Datum d) {
  if (std::optional<SymbolId> s = bound_symbol(v)) symbols_[*s] = d.integer();
  values_[v.id()] = std::move(d);
}

Datum Evaluator::argument(const Arg& arg) const {
  Datum d;
  switch (arg.kind()) {
    case Arg::Kind::None: return d;
    case Arg::Kind::Bool: return Datum::of_number(NumberKind::Bool, Element::integer(arg.boolean()));
    case Arg::Kind::Int: return Datum::integer(evaluate(arg.dim()));
    case Arg::Kind::Float: return Datum::of_number(NumberKind::Float, Element::real(arg.real()));
    case Arg::Kind::Complex: return Datum::of_number(NumberKind::Complex, Element::complex(arg.complex()));
    case Arg::Kind::Value: return get(arg.value());
    case Arg::Kind::Str:
      d.kind = Datum::Kind::Text;
      d.text = arg.str();
      return d;
    case Arg::Kind::DType:
      d.kind = Datum::Kind::DType;
      d.dtype = arg.dtype();
      return d;
    case Arg::Kind::Device:
      d.kind = Datum::Kind::Device;
      d.device = arg.device();
      return d;
    case Arg::Kind::List:
    case Arg::Kind::Tuple:
      d.kind = Datum::Kind::Sequence;
      for (const Arg& item : arg.items()) d.items.push_back(argument(item));
      return d;
    case Arg::Kind::Slice:
      d.kind = Datum::Kind::Other;
      d.text = "slice";
      d.items = {argument(arg.slice().start), argument(arg.slice().stop), argument(arg.slice().step)};
      return d;
    case Arg::Kind::Dict:  // as its entries, key and value alternating
      d.kind = Datum::Kind::Sequence;
      for (const auto& [key, value] : arg.entries()) {
        d.items.push_back(argument(key));
        d.items.push_back(argument(value));
      }
      return d;
    case Arg::Kind::Constant:
      d.kind = Datum::Kind::Other;
      d.text = arg.constant().name;
      return d;
    case Arg::Kind::Opaque:
      d.kind = Datum::Kind::Other;
      d.text = arg.opaque().name;
      return d;
  }
  return d;
}

void Evaluator::check_type(Value v, const Datum& d, const Call& call) {
  auto wrong = [&](const auto&... parts) {
    throw Wrong(cat("[", call.op->full_name, "] ", parts..., " in ", print(call)));
  };
  if (v.type().is_number()) {
    if (!d.is_number()) wrong("is declared to give a number and does not");
    return;
  }
  if (!v.type().is_tensor()) return;
  if (!d.is_tensor()) wrong("is declared to give a tensor and does not");
  const TensorType& t = v.tensor();
  if (d.array->dtype != t.dtype) wrong("gives ", d.array->dtype, ", declared ", t.dtype);
  if (d.array->rank() != t.rank()) wrong("gives rank ", d.array->rank(), ", declared ", t.rank());
  for (size_t i = 0; i < t.shape.size(); ++i) {
    bool known = true;
    for (SymbolId s : t.shape[i].symbols()) known &= symbols_.contains(s);
    if (!known) continue;
    if (evaluate(t.shape[i]) != d.array->shape[i])
      wrong("gives shape [", join(d.array->shape), "], declared ", str(t.shape));
  }
}

void Evaluator::bind(const Arg& output, const Datum& result, const Call& call) {
  if (output.is_none()) return;
  if (output.is_value()) {
    if (options_.check_types) check_type(output.value(), result, call);
    define(output.value(), result);
    return;
  }
  if (!output.is_sequence()) return;
  if (!result.is_sequence() || result.items.size() != output.items().size())
    throw Wrong(cat("[", call.op->full_name, "] gives another number of results than declared in ", print(call)));
  for (size_t i = 0; i < result.items.size(); ++i) bind(output.items()[i], result.items[i], call);
}

// An executor that took a call whole runs it on its arguments, in which it finds every length again: the numbers that
// bind them outside, and that the call's body names, need not be there any more.
void Evaluator::define_lengths(const std::vector<const Call*>& body, std::vector<ValueId>& defined_here) {
  for (const Call* c : body) {
    for (Value v : c->symbols) {
      auto known = symbols_.find(*bound_symbol(v));
      if (known == symbols_.end() || defined(v)) continue;
      values_[v.id()] = Datum::integer(known->second);
      defined_here.push_back(v.id());
    }
    define_lengths(c->body, defined_here);
  }
}

void Evaluator::run_body(const Call& call, const std::vector<const Call*>& body, const std::shared_ptr<Arena>& arena) {
  std::vector<ValueId> inner;
  for (Value v : call.symbols) get(v);
  if (!call.op->executor.empty()) define_lengths(body, inner);
  for (const Call* c : body) {
    for (Value v : outputs_of(*c))
      if (!defined(v)) inner.push_back(v.id());  // a call may also return what it was given
    run(*c, arena);
  }
  Datum result = argument(call.output);
  // What a body computes on its way is nobody else's to read.
  for (ValueId id : inner) values_.erase(id);
  bind(call.output, result, call);
}

void Evaluator::run_record_body(const Call& call, const Op& op, const std::shared_ptr<Arena>& arena) {
  Builder b(arena);
  Arg output;
  {
    b.open_scope();
    output = op.body(b, Args(op, call.args));
    for (const Call* c : b.close_scope()) run(*c, arena);
  }
  bind(call.output, argument(output), call);
}

void Evaluator::run(const Call& call, const std::shared_ptr<Arena>& arena) {
  const Op* op = call.op;
  while (op->implements) op = op->implements;
  if (op->full_name == "prims.python_del") {
    for (const Arg& a : call.args)
      visit_values(a, [&](Value v) {
        get(v);
        values_.erase(v.id());
      });
    return;
  }
  auto it = kernels().find(op->full_name);
  if (it == kernels().end()) {
    if (!call.body.empty()) return run_body(call, call.body, arena);
    if (op->body) return run_record_body(call, *op, arena);
    throw Unknown("the reference evaluator does not know " + op->full_name);
  }
  for (Value v : call.symbols) get(v);
  std::vector<Datum> args;
  for (const Arg& a : call.args) args.push_back(argument(a));
  Datum result = it->second(Inputs(*this, *op, call, std::move(args)));
  bind(call.output, result, call);
}

Datum Evaluator::run(const Trace& trace, const std::vector<Datum>& inputs) {
  if (inputs.size() != trace.inputs.size())
    throw Wrong(cat("the program takes ", trace.inputs.size(), " inputs, got ", inputs.size()));
  for (size_t i = 0; i < inputs.size(); ++i) define(trace.inputs[i], inputs[i]);
  for (const Call* c : trace.calls) run(*c, trace.arena);
  return argument(trace.output);
}

Datum evaluate(const Trace& trace, const std::vector<Datum>& inputs, EvaluatorOptions options) {
  return Evaluator(options).run(trace, inputs);
}

}  // namespace thunder::reference
