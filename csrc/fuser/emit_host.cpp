#include "fuser/emit.h"
#include "fuser/emit_common.h"

namespace thunder::fuser {

namespace {

std::string pointers(const Kernel& k) {
  std::string out;
  for (size_t i = 0; i < k.inputs.size(); ++i) {
    const std::string type = storage_name(k.inputs[i].dtype()), n = std::to_string(i);
    out += line(1, "const " + type + "* __restrict in" + n + " = (const " + type + "*)in[" + n + "];");
  }
  for (size_t i = 0; i < k.outputs.size(); ++i) {
    const std::string type = storage_name(k.outputs[i].dtype()), n = std::to_string(i);
    out += line(1, type + "* __restrict out" + n + " = (" + type + "*)out[" + n + "];");
  }
  return out;
}

std::string column_pointers(const Kernel& k, const std::string& part) {
  std::string out;
  for_each_column(k, [&](const Accumulator& a, int64_t at) {
    out += line(1, a.type + "* __restrict " + a.name + "_part = (" + a.type + "*)(" + part + " + " + std::to_string(at) + ");");
  });
  return out;
}

// Compilers vectorise a reduction whose order they may choose.
std::string simd(const Phase& p, bool gathers) {
  constexpr const char* names[] = {"+", "*", "th_max", "th_min", "th_or", "th_and"};
  std::string out = "#pragma omp simd";
  if (gathers) out += " reduction(|:th_outside)";
  for (const Accumulator& a : p.reductions) out += " reduction(" + std::string(names[static_cast<size_t>(a.combine)]) + ":" + a.name + ")";
  return out + "\n";
}

void phase(std::string& out, const Kernel& k, const Phase& p, const std::string& first, const std::string& last, int depth) {
  indent(out, p.row, depth);
  for (const Accumulator& a : p.reductions) out += line(depth, a.type + " " + a.name + " = " + identity(a) + ";");
  if (!p.has_loop()) return;
  out += simd(p, k.gathers) + line(depth, "for (int64 q = " + first + "; q < " + last + "; ++q) {");
  indent(out, p.chunk, depth + 1);
  indent(out, p.lane, depth + 1);
  indent(out, p.stores, depth + 1);
  out += line(depth, "}");
}

std::string finish(const Kernel& k, const std::string& name) {
  const std::string cols = std::to_string(k.cols), bytes = std::to_string(partial_bytes(k));
  std::string out = "extern \"C\" int " + name +
                    "_finish(const void* const* in, void* const* out, char* partial, int64 parts) {\n  int th_outside = 0;\n" + pointers(k) +
                    column_pointers(k, "partial") + line(1, "for (int64 s = 1; s < parts; ++s) {");
  for_each_column(k, [&](const Accumulator& a, int64_t at) {
    out += line(2, "const " + a.type + "* __restrict from_" + a.name + " = (const " + a.type + "*)(partial + s * " + bytes + " + " +
                       std::to_string(at) + ");");
    out += "#pragma omp simd\n" + line(2, "for (int64 c = 0; c < " + cols + "; ++c) " + a.name + "_part[c] = " + combine_function(a.combine) +
                                              "(" + a.name + "_part[c], from_" + a.name + "[c]);");
  });
  out += line(1, "}") + simd({}, k.gathers) + line(1, "for (int64 c = 0; c < " + cols + "; ++c) {");
  for (const Accumulator& a : k.columns) out += line(2, "const " + a.type + " " + a.name + " = " + a.name + "_part[c];");
  indent(out, k.finish, 2);
  return out + "  }\n  return th_outside;\n}\n";
}

}  // namespace

int64_t partial_bytes(const Kernel& k) {
  return for_each_column(k, [](const Accumulator&, int64_t) {});
}

bool host_splits_columns(const Kernel& k) {
  if (k.rows != 1 || !k.columns.empty()) return false;
  for (const Phase& p : k.phases)
    if (!p.reductions.empty()) return false;
  return k.row_stores.empty();
}

std::string emit_host(const Kernel& k, const std::string& name) {
  const std::string cols = std::to_string(k.cols);
  std::string out = "extern \"C\" int " + name +
                    "(const void* const* in, void* const* out, char* partial, int64 begin, int64 end) {\n  using I = int64;\n  int th_outside = 0;\n" + pointers(k);
  if (!k.columns.empty()) {
    out += "#undef TH_COLUMN\n#define TH_COLUMN(x) x##_part[q]\n";
    out += column_pointers(k, "partial");
    for (const Accumulator& a : k.columns)
      out += line(1, "for (int64 q = 0; q < " + cols + "; ++q) " + a.name + "_part[q] = " + identity(a) + ";");
  }
  if (host_splits_columns(k)) {
    int64_t before = 0;
    for (const Phase& p : k.phases) {
      const std::string start = std::to_string(before), end = std::to_string(before + chunks_of(k, p));
      out += line(1, "{");
      out += line(2, "const int64 first = begin > " + start + " ? begin - " + start + " : 0;");
      out += line(2, "const int64 last = (end < " + end + " ? end : " + end + ") - " + start + ";");
      phase(out, k, p, "first", "last", 2);
      out += line(1, "}");
      before += chunks_of(k, p);
    }
    return out + "  return th_outside;\n}\n";
  }
  out += line(1, "for (int64 r = begin; r < end; ++r) {");
  for (const Phase& p : k.phases) phase(out, k, p, "0", cols, 2);
  indent(out, k.row_stores, 2);
  out += "  }\n  return th_outside;\n}\n";
  if (!k.columns.empty()) out += finish(k, name);
  return out;
}

}  // namespace thunder::fuser
