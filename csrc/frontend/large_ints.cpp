#include "frontend/large_ints.h"

#include <algorithm>

#include "core/dtype.h"
#include "core/error.h"
#include "core/op.h"

namespace thunder::frontend {
namespace {

using Keyword = std::vector<std::pair<std::string, Arg>>;

// Whether the operator computes with the operand in the dtype of integers; others convert a number to int64 first.
bool takes_operand(const std::string& op, std::string_view name) {
  const std::vector<const Op*>& overloads = Registry::instance().overloads(op);
  return std::any_of(overloads.begin(), overloads.end(), [&](const Op* o) {
    const std::vector<Param>& params = o->schema.params;
    auto is_operand = [](const Param& p) { return p.kind == Param::Kind::Scalar; };
    if (!o->has(kPointwise) || params.size() < 2 || params.size() > 3) return false;
    return is_operand(params[0]) && is_operand(params[1]) && (name == params[0].name || name == params[1].name);
  });
}

// Whether integers give a float.
bool divides(const std::string& op, const Keyword& keyword) {
  static constexpr const char* kFloat[] = {"torch.div", "torch.float_power", "torch.atan2", "torch.xlogy",
                                           "torch.xlog1py"};
  const bool rounds = std::any_of(keyword.begin(), keyword.end(),
                                  [](const auto& k) { return k.first == "rounding_mode" && !k.second.is_none(); });
  return !rounds && std::find(std::begin(kFloat), std::end(kFloat), op) != std::end(kFloat);
}

// The name of a positional argument.
std::string name_of(const std::string& op, size_t i) {
  const std::vector<const Op*>& overloads = Registry::instance().overloads(op);
  return overloads.empty() || i >= overloads[0]->schema.params.size() ? "" : overloads[0]->schema.params[i].name;
}

// The dtype that decides what a number is: a given one, else the first tensor's.
std::optional<DType> deciding_dtype(const ArgList& positional, const Keyword& keyword) {
  for (const auto& [name, a] : keyword)
    if (name == "dtype" && a.kind() == Arg::Kind::DType) return a.dtype();
  for (const Arg& a : positional)
    if (a.is_tensor()) return a.value().dtype();
  for (const auto& [name, a] : keyword)
    if (a.is_tensor()) return a.value().dtype();
  return std::nullopt;
}

Arg large_int(const std::string& op, const std::string& name, PyObject* o, std::optional<DType> dtype, bool is_float) {
  const unsigned long long bits = PyLong_AsUnsignedLongLong(o);
  if (dtype && (is_inexact(*dtype) || is_float)) return Arg(static_cast<double>(bits));
  THUNDER_CHECK(dtype && takes_operand(op, name), Runtime, op, "the value ", bits,
                " cannot be converted to int64 without overflow");
  THUNDER_CHECK(*dtype != DType::boolean, Runtime, op, "the integer ", bits,
                " is a uint64, which PyTorch does not promote bool to");
  return Arg(static_cast<int64_t>(bits));
}

}  // namespace

bool is_beyond_int64(PyObject* o) {
  if (!PyLong_Check(o)) return false;
  int overflow = 0;
  PyLong_AsLongLongAndOverflow(o, &overflow);
  return overflow != 0;
}

bool is_large_int(PyObject* o) {
  if (!is_beyond_int64(o)) return false;
  const bool fits = PyLong_AsUnsignedLongLong(o) != static_cast<unsigned long long>(-1) || !PyErr_Occurred();
  PyErr_Clear();
  return fits;
}

void take_large_ints(const std::string& op, PyObject* args, PyObject* kwargs, ArgList& positional, Keyword& keyword) {
  std::optional<DType> dtype;
  bool known = false;
  auto taken = [&](const std::string& name, PyObject* o) {
    if (!std::exchange(known, true)) dtype = deciding_dtype(positional, keyword);
    return large_int(op, name, o, dtype, divides(op, keyword));
  };
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i)
    if (PyObject* o = PyTuple_GET_ITEM(args, i); is_large_int(o))
      positional[static_cast<size_t>(i)] = taken(name_of(op, static_cast<size_t>(i)), o);
  for (auto& [name, a] : keyword)
    if (PyObject* o = PyDict_GetItemString(kwargs, name.c_str()); o && is_large_int(o)) a = taken(name, o);
}

}  // namespace thunder::frontend
