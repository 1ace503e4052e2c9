#include "fuser/loops.h"

#include "fuser/emit_common.h"

namespace thunder::test {

using namespace fuser;

const std::string& loops_prelude() {
  static const std::string text = R"(
extern "C" { int th_misaligned = 0; }
template <class T, int N> struct Vec { T at[N]; };
template <class T, int N> static inline Vec<T, N> th_load_vector(const T* p, bool wanted = true) {
  Vec<T, N> v;
  for (int i = 0; i < N; ++i) v.at[i] = T();
  if (!wanted) return v;
  if ((unsigned long)p % (sizeof(T) * N > 16 ? 16 : sizeof(T) * N)) th_misaligned = 1;
  for (int i = 0; i < N; ++i) v.at[i] = p[i];
  return v;
}
template <int N, class T> static inline void th_online(T& m, T& s, const T (&v)[N]) {
  T n = m, b;
  for (int j = 0; j < N; ++j) n = th_max(n, v[j]);
  b = n == -TH_INF ? 0 : n;
  s *= th_exp(m - b);
  for (int j = 0; j < N; ++j) s += th_exp(v[j] - b);
  m = n;
}
template <class T, int N> static inline void th_store_vector(T* p, const Vec<T, N>& v) {
  if ((unsigned long)p % (sizeof(T) * N > 16 ? 16 : sizeof(T) * N)) th_misaligned = 1;
  for (int i = 0; i < N; ++i) p[i] = v.at[i];
}
)";
  return text;
}

namespace {

std::string pointers(const Kernel& k) {
  std::string out;
  for (size_t i = 0; i < k.inputs.size(); ++i) {
    const std::string type = storage_name(k.inputs[i].dtype()), n = std::to_string(i);
    out += "  const " + type + "* in" + n + " = (const " + type + "*)in[" + n + "];\n";
  }
  for (size_t i = 0; i < k.outputs.size(); ++i) {
    const std::string type = storage_name(k.outputs[i].dtype()), n = std::to_string(i);
    out += "  " + type + "* out" + n + " = (" + type + "*)out[" + n + "];\n";
  }
  return out;
}

}  // namespace

std::string loops(const Kernel& k, const std::string& name) {
  const std::string chunks = k.sizes.known(k.chunks()), lanes = std::to_string(k.lanes), cols = k.sizes.known(k.cols);
  std::string out = "#undef TH_COLUMN\n#define TH_COLUMN(x) x##_all[" + lanes + " * q + j]\nextern \"C\" int " + name +
                    "(const void* const* in, void* const* out, const int64* sizes, const double* numbers) {\n  using I "
                    "= int64; int64 th_outside = 0;\n";
  for (size_t i = 0; i < k.sizes.all().size(); ++i)
    out += "  const int64 n" + std::to_string(i) + " = sizes[" + std::to_string(i) + "];\n";
  for (size_t i = 0; i < k.numbers.size(); ++i)
    out += "  const double f" + std::to_string(i) + " = numbers[" + std::to_string(i) + "];\n";
  out += "  const int64 K = " + chunks + ";\n" + pointers(k);
  for (const Accumulator& a : k.extrema) out += "  " + a.type + " " + a.name + " = " + identity(a) + ";\n";
  for (const Accumulator& a : k.columns)
    out += "  " + a.type + " " + a.name + "_all[" + cols + "];\n  for (auto& x : " + a.name +
           "_all) x = " + identity(a) + ";\n";
  out += "  for (I r = 0; r < " + k.sizes.known(k.rows) + "; ++r) {\n";
  indent(out, k.cached_vectors, 2);
  for (const Phase& p : k.phases) {
    indent(out, p.row, 2);
    if (&p == &k.phases.front() && !k.cached_loads.empty()) {
      out += "    for (I q = 0; q < K; ++q) {\n      const int k = q; (void)k;\n";
      indent(out, k.cached_loads, 3);
      out += "    }\n";
    }
    for (const Accumulator& a : p.reductions) out += "    " + a.type + " " + a.name + " = " + identity(a) + ";\n";
    out += "    for (I q = 0; q < " + (p.chunks ? std::to_string(p.chunks) : chunks) +
           "; ++q) {\n      const int k = q; (void)k;\n";
    indent(out, p.chunk, 3);
    for (const TransposedStore& t : p.transposed)
      out += "      Vec<" + t.type + ", " + lanes + "> " + t.name + "[1]; const int i = 0; (void)i;\n";
    out += "      for (int j = 0; j < " + lanes + "; ++j) {\n";
    indent(out, p.lane, 4);
    out += "      }\n";
    for (const TransposedStore& t : p.transposed)
      out += "      for (int j = 0; j < " + lanes + "; ++j) out" + std::to_string(t.output) + "[(" + lanes +
             " * q + j) * " + k.sizes.known(k.rows) + " + r] = " + t.name + "[0].at[j];\n";
    indent(out, p.stores, 3);
    out += "    }\n";
    // As where several threads' sums are brought under one maximum: of nothing but -inf it is not a number.
    for (const Accumulator& a : p.reductions)
      if (!a.maximum.empty()) out += "    " + a.name + " *= th_exp(" + a.maximum + " - " + a.maximum + ");\n";
  }
  indent(out, k.row_stores, 2);
  out += "  }\n";
  if (!k.extrema.empty()) indent(out, k.finish, 1);
  if (k.last) {
    out += lines(k.last->row, 1) + "  for (I q = 0; q < K; ++q) {\n    const int k = q; (void)k;\n" +
           lines(k.last->chunk, 2) + "    for (int j = 0; j < " + lanes + "; ++j) {\n" + lines(k.last->lane, 3) +
           "    }\n" + lines(k.last->stores, 2) + "  }\n";
  } else if (!k.columns.empty()) {
    out += "  for (I c = 0; c < " + cols + "; ++c) {\n";
    for (const Accumulator& a : k.columns) out += "    const " + a.type + " " + a.name + " = " + a.name + "_all[c];\n";
    indent(out, k.finish, 2);
    out += "  }\n";
  }
  return out + "  return th_outside < 0;\n}\n";
}

}  // namespace thunder::test
