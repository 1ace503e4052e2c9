#include "frontend/interpreter/code.h"

#include <opcode.h>

#include <algorithm>
#include <string_view>

#include "frontend/interpreter/interpreter.h"
#include "python/ref.h"
#include "python/text.h"

namespace thunder::frontend::interpreter {
namespace {

struct InternalPaths {
  std::vector<std::string> paths, interpreted;

  bool hold(const std::string& place) const {
    auto begins = [&](const std::string& path) { return place.starts_with(path); };
    return std::any_of(paths.begin(), paths.end(), begins) &&
           std::none_of(interpreted.begin(), interpreted.end(), begins);
  }
};

InternalPaths& internal_paths() {
  static auto* paths = new InternalPaths();
  return *paths;
}

void release(void* decoded) { delete static_cast<DecodedCode*>(decoded); }

// CPython keeps a pointer of ours with each code object, under an index of ours.
#if PY_VERSION_HEX >= 0x030C0000
const auto request_index = PyUnstable_Eval_RequestCodeExtraIndex;
const auto get_extra = PyUnstable_Code_GetExtra;
const auto set_extra = PyUnstable_Code_SetExtra;
#else
const auto request_index = _PyEval_RequestCodeExtraIndex;
const auto get_extra = _PyCode_GetExtra;
const auto set_extra = _PyCode_SetExtra;
#endif

Py_ssize_t extra_index() {
  static const Py_ssize_t index = request_index(release);
  return index;
}

// 6 bits a byte, the most significant first; bit 6: more follow.
int read_varint(const unsigned char*& p) {
  int value = *p & 63;
  while (*p++ & 64) value = value << 6 | (*p & 63);
  return value;
}

std::unique_ptr<DecodedCode> decode(PyCodeObject* code) {
  auto out = std::make_unique<DecodedCode>();
  Ref text = Ref::steal(PyCode_GetCode(code));  // without what CPython specialised
  const auto* bytes = reinterpret_cast<const unsigned char*>(PyBytes_AS_STRING(text.get()));
  size_t n = static_cast<size_t>(PyBytes_GET_SIZE(text.get())) / 2;
  const Handler* table = handlers();
  int extended = 0;
  for (size_t i = 0; i < n; ++i) {
    uint8_t opcode = bytes[2 * i];
    int argument = extended << 8 | bytes[2 * i + 1];
    extended = opcode == EXTENDED_ARG ? argument : 0;
    uint8_t size = 1;
    while (opcode != CACHE && i + size < n && bytes[2 * (i + size)] == CACHE) ++size;
    out->instructions.push_back({table[opcode], argument, opcode, size});
  }
  const std::string file = printable(code->co_filename), name = printable(code->co_qualname);
  out->alone = file == kAloneFile;
  out->imports = file == "<frozen importlib._bootstrap>" && name == "_gcd_import";
  out->internal = internal_paths().hold(file + ":" + name);
  return out;
}

}  // namespace

std::optional<Region> DecodedCode::handler(PyCodeObject* code, int place) {
  const auto* p = reinterpret_cast<const unsigned char*>(PyBytes_AS_STRING(code->co_exceptiontable));
  const auto* end = p + PyBytes_GET_SIZE(code->co_exceptiontable);
  while (p < end) {
    int start = read_varint(p), length = read_varint(p), target = read_varint(p), depth = read_varint(p);
    if (place < start) break;
    if (place < start + length) return Region{target, depth >> 1, (depth & 1) != 0};
  }
  return std::nullopt;
}

const DecodedCode* decoded(PyCodeObject* code) {
  void* kept = nullptr;
  if (get_extra(reinterpret_cast<PyObject*>(code), extra_index(), &kept) < 0) return nullptr;
  if (kept) return static_cast<DecodedCode*>(kept);
  // A frame may begin with an exception that is thrown into it.
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  auto made = decode(code);
  PyErr_Restore(type, value, traceback);
  if (set_extra(reinterpret_cast<PyObject*>(code), extra_index(), made.get()) < 0) return nullptr;
  return made.release();
}

void set_internal_paths(std::vector<std::string> paths, std::vector<std::string> interpreted) {
  internal_paths() = {std::move(paths), std::move(interpreted)};
}

const char* opcode_name(int opcode) {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> out(256);
    Ref module = Ref::steal(PyImport_ImportModule("opcode"));
    Ref map = Ref::steal(PyObject_GetAttrString(module.get(), "opmap"));
    PyObject *name, *number;
    for (Py_ssize_t i = 0; PyDict_Next(map.get(), &i, &name, &number);) {
      long n = PyLong_AsLong(number);
      if (n < 256) out[static_cast<size_t>(n)] = printable(name);
    }
    return out;
  }();
  return names[static_cast<size_t>(opcode)].c_str();
}

}  // namespace thunder::frontend::interpreter
