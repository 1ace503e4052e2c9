#include <algorithm>

#include "fuser/emit.h"
#include "fuser/emit_common.h"

namespace thunder::fuser {
namespace {

std::string parameters(const Kernel& k) {
  std::string out;
  for (size_t i = 0; i < k.inputs.size(); ++i)
    out += "const " + storage_name(k.inputs[i].dtype()) + "* __restrict__ in" + std::to_string(i) + ", ";
  for (size_t i = 0; i < k.outputs.size(); ++i)
    out += storage_name(k.outputs[i].dtype()) + "* __restrict__ out" + std::to_string(i) + ", ";
  for (size_t i = 0; i < k.sizes.all().size(); ++i)
    out += (k.wide ? "long long n" : "int n") + std::to_string(i) + ", ";
  for (size_t i = 0; i < k.numbers.size(); ++i) out += "double f" + std::to_string(i) + ", ";
  return out;
}

// A thread's chunks by number, all of them at once in registers; or one after the other.
bool numbered(const Kernel& k) { return k.cached || !k.columns.empty() || !reduces_rows(k); }

// Chunks of a thread that make a run of a row's sum.
int run_of(const Kernel& k) { return std::max<int>(1, static_cast<int>(kRun) / k.lanes); }

bool has_row_runs(const Kernel& k, const Phase& p) {
  const bool is_short = k.cols.is_number() && k.chunks().number() <= int64_t{run_of(k)} * cuda_shape(k).threads;
  return !numbered(k) && !is_short && std::any_of(p.reductions.begin(), p.reductions.end(), rounds);
}

std::string chunks(const Kernel& k) { return k.sizes.known(k.chunks()); }

// The number of a thread among those of a row.
std::string in_row(const Kernel& k) { return cuda_shape(k).across ? "threadIdx.y" : "threadIdx.x"; }

// Loads in flight of a thread that walks over a row.
std::string unroll(const Kernel& k) { return k.lanes == 1 ? "#pragma unroll 8\n" : "#pragma unroll 4\n"; }

// The loop over the chunks of a thread; `body` gets the depth at which its lines stand.
template <class F>
std::string over_chunks(const Kernel& k, const std::string& chunk, F&& body) {
  const std::string n = chunks(k);
  if (!numbered(k))
    return unroll(k) + line(2, "for (I q = " + in_row(k) + "; q < " + n + "; q += T) {") + body(3) + line(2, "}");
  return "#pragma unroll\n" + line(2, "for (int k = 0; k < K; ++k) {") + line(3, chunk) +
         line(3, "if (q < " + n + ") {") + body(4) + line(3, "}") + line(2, "}");
}

// Each thread's sum under its own maximum is brought under the row's, then added up like any other.
void reduce(std::string& out, const Phase& p, const CudaShape& s) {
  const std::string function =
      s.across ? "th_reduce_across<T, " + std::to_string(s.rows_per_block) + ">(" : "th_reduce<T>(";
  for (const Accumulator& a : p.reductions) {
    const bool scales = std::any_of(p.reductions.begin(), p.reductions.end(),
                                    [&](const Accumulator& b) { return b.maximum == a.name; });
    if (scales) out += line(2, "const " + a.type + " " + a.name + "_own = " + a.name + ";");
    if (!a.maximum.empty()) out += line(2, a.name + " *= th_exp(" + a.maximum + "_own - " + a.maximum + ");");
    out += line(2, a.name + " = " + function + a.name + ", [](" + a.type + " a, " + a.type + " b) { return " +
                       combine_function(a.combine) + "(a, b); }" + (s.persistent ? ", buffer);" : ");"));
  }
}

// The loop over the chunks of a thread in runs, whose sums th_total() adds up.
std::string runs_of_row(const Kernel& k, const Phase& p, const std::string& statements) {
  const std::string n = chunks(k), run = std::to_string(run_of(k)) + " * T";
  std::string out, after, whole;
  for (const Accumulator& a : p.reductions) {
    if (!rounds(a)) continue;
    const std::string totals = a.name + "_high, " + a.name + "_low";
    out += line(2, a.type + " " + a.name + "_high = 0, " + a.name + "_low = 0;");
    after += line(3, "th_total(" + totals + ", " + a.name + ");") + line(3, a.name + " = 0;");
    whole += line(2, a.name + " = th_whole(" + totals + ");");
  }
  return out + line(2, "for (I start = " + in_row(k) + "; start < " + n + "; start += " + run + ") {") +
         line(3, "const I end = " + n + " - start < " + run + " ? " + n + " : start + " + run + ";") + unroll(k) +
         line(3, "for (I q = start; q < end; q += T) {") + statements + line(3, "}") + after + line(2, "}") + whole;
}

void phase(std::string& out, const Kernel& k, const Phase& p, const std::string& chunk) {
  indent(out, p.row, 2);
  if (&p == &k.phases.front() && !k.cached_loads.empty())
    out += over_chunks(k, chunk, [&](int depth) { return lines(k.cached_loads, depth); });
  for (const Accumulator& a : p.reductions) out += line(2, a.type + " " + a.name + " = " + identity(a) + ";");
  const auto statements = [&](int depth) {
    return lines(p.chunk, depth) + "#pragma unroll\n" +
           line(depth, "for (int j = 0; j < " + std::to_string(k.lanes) + "; ++j) {") + lines(p.lane, depth + 1) +
           line(depth, "}") + lines(p.stores, depth);
  };
  if (has_row_runs(k, p)) out += runs_of_row(k, p, statements(4));
  else if (p.has_loop()) out += over_chunks(k, chunk, statements);
  reduce(out, p, cuda_shape(k));
}

// Each section has blocks of its own, so that no block does the work of two.
std::string sections(const Kernel& k, const CudaShape& s) {
  std::string out = line(1, "constexpr int k = 0;");
  int64_t before = 0;
  for (const Phase& p : k.phases) {
    const bool last = &p == &k.phases.back();
    const int64_t after = last ? 0 : before + (chunks_of(k, p).number() + s.threads - 1) / s.threads;
    out += line(1, last ? "{" : "if (blockIdx.x < " + std::to_string(after) + ") {");
    out += line(2, "const I q = (I(blockIdx.x) - " + std::to_string(before) + ") * T + threadIdx.x;");
    out += line(2, "if (q >= " + k.sizes.known(chunks_of(k, p)) + ") return;");
    indent(out, p.row, 2);
    indent(out, p.chunk, 2);
    out += "#pragma unroll\n" + line(2, "for (int j = 0; j < " + std::to_string(k.lanes) + "; ++j) {");
    indent(out, p.lane, 3);
    out += line(2, "}");
    indent(out, p.stores, 2);
    out += line(1, last ? "}" : "  return;\n  }");
    before = after;
  }
  return out;
}

// Takes up what a part has of an accumulator's sum.
std::string add_part(const Kernel& k, const Accumulator& a, const std::string& high, const std::string& low) {
  if (!rounds(a)) return line(2, a.name + " = " + combine_function(a.combine) + "(" + a.name + ", " + high + ");");
  const std::string runs = has_runs(k, a, Target::Cuda) ? " " + a.name + "_low += " + low + ";" : "";
  return line(2, "th_total(" + a.name + "_high, " + a.name + "_low, " + high + ");" + runs);
}

std::string finish(const Kernel& k, const std::string& name) {
  const std::string cols = k.sizes.known(k.cols);
  std::string out = "extern \"C\" __global__ void __launch_bounds__(" + std::to_string(32 * kFinishRows) + ") " + name +
                    "_finish(" + parameters(k) + "const char* __restrict__ partial, int parts) {\n";
  out += line(1, "using I = long long;");
  out += line(1, "const I c = I(blockIdx.x) * 32 + threadIdx.x;");
  const ColumnPlaces places(k, Target::Cuda);
  std::string walk, joined;
  places.for_each([&](const Accumulator& a, const std::string& at, const std::string& bytes) {
    const auto part = [&](const std::string& offset) {
      return "((const " + a.type + "*)(partial + I(s) * " + places.all() + " + " + places.sum(at, offset) + "))[c]";
    };
    out += line(1, a.type + " " + a.name + " = " + identity(a) + ";");
    if (rounds(a)) out += line(1, a.type + " " + a.name + "_high = 0, " + a.name + "_low = 0;");
    walk += add_part(k, a, part("0"), part(bytes));
    if (rounds(a)) joined += line(1, a.name + " = th_whole(" + a.name + "_high, " + a.name + "_low);");
    joined += line(1, a.name + " = th_reduce_y<" + std::to_string(kFinishRows) + ">(" + a.name + ", [](" + a.type +
                          " a, " + a.type + " b) { return " + combine_function(a.combine) + "(a, b); });");
  });
  // The loads of several parts are in flight at once.
  out += "#pragma unroll 8\n" + line(1, "for (int s = threadIdx.y; s < parts && c < " + cols +
                                            "; s += " + std::to_string(kFinishRows) + ") {");
  out += walk + line(1, "}") + joined;
  out += line(1, "if (threadIdx.y != 0 || c >= " + cols + ") return;");
  indent(out, k.finish, 1);
  return out + "}\n";
}

// Columns of a block, dealt to all its threads.
int columns_each(const Kernel& k, const CudaShape& s) {
  return (s.chunks * k.lanes + s.rows_per_block - 1) / s.rows_per_block;
}

std::string over_columns(const Kernel& k, const CudaShape& s) {
  return "#pragma unroll\n" + line(2, "for (int n = 0; n < " + std::to_string(columns_each(k, s)) + "; ++n) {") +
         line(3, "const int i = (n * " + std::to_string(s.rows_per_block) + " + threadIdx.y) * T + threadIdx.x;") +
         line(3, "if (i >= " + std::to_string(s.threads * s.chunks * k.lanes) +
                     " || first + i >= " + k.sizes.known(k.cols) + ") break;");
}

// The threads of a block that have the same columns join their sums: parts of the sums over all rows, or these sums,
// which `finish` makes something of.
std::string join_rows(const Kernel& k, const CudaShape& s) {
  const int width = s.threads * s.chunks * k.lanes;
  const std::string columns = std::to_string(width), lanes = std::to_string(k.lanes),
                    size = std::to_string(width * s.rows_per_block);
  std::string out = line(1, "__shared__ double room[" + std::to_string((join_bytes(k, s) + 7) / 8) + "];") +
                    line(1, "const I first = I(blockIdx.y) * " + columns + ";");
  const ColumnPlaces places(k, Target::Cuda);
  const std::string each_column = over_columns(k, s);
  std::string finish;
  places.for_each([&](const Accumulator& a, const std::string& at, const std::string& bytes) {
    const bool runs = has_runs(k, a, Target::Cuda);
    if (s.whole) {
      out += line(1, a.type + " " + a.name + "_sum[" + std::to_string(columns_each(k, s)) + "];");
      finish += line(3, "const " + a.type + " " + a.name + " = " + a.name + "_sum[n];");
    }
    const auto fill = [&](const std::string& to, const std::string& from) {
      return line(3, to + "[((threadIdx.y * K + k) * T + threadIdx.x) * " + lanes + " + j] = " + from + "[k][j];");
    };
    const auto store = [&](const std::string& offset, const std::string& value) {
      if (s.whole) return line(3, a.name + "_sum[n] = " + value + ";");
      return line(3, "((" + a.type + "*)(partial + " + places.sum(at, offset) + "))[first + i] = " + value + ";");
    };
    out += line(1, "{") + line(2, a.type + "* highs = (" + a.type + "*)room;") +
           (runs ? line(2, a.type + "* lows = highs + " + size + ";") : "");
    out += line(2, "__syncthreads();") + "#pragma unroll\n" + line(2, "for (int k = 0; k < K; ++k)") +
           "#pragma unroll\n" + line(2, "for (int j = 0; j < " + lanes + "; ++j) {") +
           fill("highs", runs ? a.name + "_high" : a.name) + (runs ? fill("lows", a.name + "_low") : "") +
           line(2, "}") + line(2, "__syncthreads();");
    out += each_column;
    const std::string each = "for (int s = i + " + columns + "; s < " + size + "; s += " + columns + ") ";
    out += line(3, a.type + " high = highs[i]" + (rounds(a) ? runs ? ", low = lows[i];" : ", low = 0;" : ";"));
    if (!rounds(a)) out += line(3, each + "high = " + combine_function(a.combine) + "(high, highs[s]);");
    else out += line(3, each + "{ th_total(high, low, highs[s]);" + (runs ? " low += lows[s]; }" : " }"));
    out += runs ? store("0", "high") + store(bytes, "low") : store("0", rounds(a) ? "th_whole(high, low)" : "high");
    out += line(2, "}") + line(1, "}");
  });
  if (!s.whole) return out;
  out += line(1, "{") + each_column + line(3, "const I c = first + i;") + finish;
  indent(out, k.finish, 3);
  return out + line(2, "}") + line(1, "}");
}

// What a thread does with the sums of its columns, which are over all rows.
std::string last_phase(const Kernel& k, const std::string& chunk) {
  const Phase& p = *k.last;
  return lines(p.row, 1) + over_chunks(k, chunk, [&](int depth) {
           return lines(p.chunk, depth) + "#pragma unroll\n" +
                  line(depth, "for (int j = 0; j < " + std::to_string(k.lanes) + "; ++j) {") +
                  lines(p.lane, depth + 1) + line(depth, "}") + lines(p.stores, depth);
         });
}

// The column sums of each block are a part of their own, unless it has all rows.
std::string store_sums(const Kernel& k, const CudaShape& s, const std::string& chunk) {
  const std::string lanes = std::to_string(k.lanes);
  if (s.whole) return join_rows(k, s);
  const ColumnPlaces places(k, Target::Cuda);
  std::string out = line(1, "partial += (long long)(blockIdx.x) * " + places.all() + ";");
  if (s.rows_per_block > 1) return out + join_rows(k, s);
  out += "#pragma unroll\n" + line(1, "for (int k = 0; k < K; ++k) {") + line(2, chunk);
  out +=
      line(2, "if (q < " + chunks(k) + ")") + "#pragma unroll\n" + line(3, "for (int j = 0; j < " + lanes + "; ++j) {");
  places.for_each([&](const Accumulator& a, const std::string& at, const std::string& bytes) {
    const auto store = [&](const std::string& offset, const std::string& from) {
      out += line(4, "((" + a.type + "*)(partial + " + places.sum(at, offset) + "))[q * " + lanes + " + j] = " + from +
                         "[k][j];");
    };
    if (!has_runs(k, a, Target::Cuda)) return store("0", a.name);
    store("0", a.name + "_high");
    store(bytes, a.name + "_low");
  });
  return out + line(3, "}") + line(1, "}");
}

// Accumulators in registers, for the columns that a thread works on.
std::string declare_columns(const Kernel& k) {
  if (k.columns.empty()) return "";
  const std::string lanes = std::to_string(k.lanes);
  std::string out = "#undef TH_COLUMN\n#define TH_COLUMN(x) x[k][j]\n";
  const auto declare = [&](const Accumulator& a, const std::string& name) {
    out += line(1, a.type + " " + name + "[K][" + lanes + "];") + "#pragma unroll\n" +
           line(1, "for (int i = 0; i < K * " + lanes + "; ++i) (&" + name + "[0][0])[i] = " + identity(a) + ";");
  };
  for (const Accumulator& a : k.columns) {
    declare(a, a.name);
    if (!has_runs(k, a, Target::Cuda)) continue;
    declare(a, a.name + "_high");
    declare(a, a.name + "_low");
  }
  return out;
}

// The end of a run of rows, and of all of them.
std::string total_columns(const Kernel& k) {
  std::string out;
  for (const Accumulator& a : k.columns)
    if (has_runs(k, a, Target::Cuda))
      out +=
          "#pragma unroll\n" + line(2, "for (int i = 0; i < K * " + std::to_string(k.lanes) + "; ++i) { th_total((&" +
                                           a.name + "_high[0][0])[i], (&" + a.name + "_low[0][0])[i], (&" + a.name +
                                           "[0][0])[i]); (&" + a.name + "[0][0])[i] = 0; }");
  return out;
}

// Opens the loop over the rows of a block, or the block of its one row.
std::string rows_of(const Kernel& k, const CudaShape& s) {
  const std::string per_block = std::to_string(s.rows_per_block), rows = k.sizes.known(k.rows);
  const std::string row = s.across ? " + threadIdx.x" : " + threadIdx.y",
                    first = s.rows_per_block > 1 ? "I(blockIdx.x) * " + per_block + row : "I(blockIdx.x)";
  if (walks_columns(k)) {
    // The loads of several rows are in flight at once.
    const std::string step = "I(gridDim.x) * " + per_block, unroll = "#pragma unroll 4\n";
    const std::string walk = "for (I r = start; r < end; r += " + step + ") {";
    if (total_columns(k).empty())
      return line(1, "const I start = " + first + ", end = " + rows + ";") + unroll + line(1, walk);
    const std::string run = std::to_string(kRun) + " * " + step;
    return line(1, "for (I start = " + first + "; start < " + rows + "; start += " + run + ") {") +
           line(1, "const I end = " + rows + " - start < " + run + " ? " + rows + " : start + " + run + ";") + unroll +
           line(1, walk);
  }
  if (s.persistent)
    return (reduces_rows(k) ? line(1, "int buffer = 0;") : "") +
           (total_columns(k).empty() ? "" : line(1, "int run = 0;")) +
           line(1, "for (I r = " + first + "; r < " + rows + "; r += I(gridDim.x) * " + per_block + ") {");
  return line(1, "const I r = " + first + ";") + line(1, "if (r >= " + rows + ") return;") + line(1, "{");
}

// What the block's threads have found of all elements, one after the other in its part.
std::string store_extrema(const Kernel& k, const CudaShape& s) {
  const std::string n = std::to_string(k.extrema.size()), threads = std::to_string(s.threads * s.rows_per_block);
  std::string out;
  for (size_t i = 0; i < k.extrema.size(); ++i) {
    const Accumulator& a = k.extrema[i];
    out += line(1, a.name + " = th_reduce_block<" + threads + ">(" + a.name + ", [](float a, float b) { return " +
                       combine_function(a.combine) + "(a, b); });");
    out +=
        line(1, "if (threadIdx.x == 0 && threadIdx.y == 0) ((float*)partial)[(blockIdx.y * gridDim.x + blockIdx.x) * " +
                    n + " + " + std::to_string(i) + "] = " + a.name + ";");
  }
  return out;
}

std::string finish_extrema(const Kernel& k, const std::string& name) {
  const std::string all = std::to_string(32 * kFinishRows), n = std::to_string(k.extrema.size());
  std::string out = "extern \"C\" __global__ void __launch_bounds__(" + all + ") " + name + "_finish(" + parameters(k) +
                    "const char* __restrict__ partial, int parts) {\n" + line(1, "using I = long long;");
  for (size_t i = 0; i < k.extrema.size(); ++i) {
    const Accumulator& a = k.extrema[i];
    const std::string combine = combine_function(a.combine);
    out += line(1, "float " + a.name + " = " + identity(a) + ";");
    out +=
        line(1, "for (int s = threadIdx.y * 32 + threadIdx.x; s < parts; s += " + all + ") " + a.name + " = " +
                    combine + "(" + a.name + ", ((const float*)partial)[s * " + n + " + " + std::to_string(i) + "]);");
    out += line(1, a.name + " = th_reduce_block<" + all + ">(" + a.name + ", [](float a, float b) { return " + combine +
                       "(a, b); });");
  }
  out += line(1, "if (threadIdx.x != 0 || threadIdx.y != 0) return;");
  indent(out, k.finish, 1);
  return out + "}\n";
}

// Threads load a few rows of a tile each, so that all loads are in flight at once, and transpose it together.
std::string tiles(const Kernel& k, const CudaShape& s, const std::string& name, std::string out) {
  const std::string rows = k.sizes.known(k.rows), cols = k.sizes.known(k.cols),
                    per_thread = std::to_string(kTransposedRows), lanes = std::to_string(k.lanes),
                    height = std::to_string(s.rows_per_block), tile = std::to_string(s.threads) + ", " + height;
  out += line(1, "const I q = I(blockIdx.x) * T + threadIdx.x, first = (I(blockIdx.y) * " + height +
                     " + threadIdx.y) * " + per_thread + ";");
  std::string after;
  for (const Phase& p : k.phases)
    for (const TransposedStore& t : p.transposed) {
      out += line(1, "Vec<" + t.type + ", " + lanes + "> " + t.name + "[" + per_thread + "];");
      after += line(1, "th_store_transposed<" + tile + ">(out" + std::to_string(t.output) + ", " + t.name + ", I(" +
                           rows + "), I(" + cols + "));");
    }
  for (const Accumulator& a : k.extrema) out += line(1, "float " + a.name + " = " + identity(a) + ";");
  // A thread's rows are all there, or none.
  const bool together = k.rows.is_number() && k.rows.number() % kTransposedRows == 0;
  out += line(1, "if (q < " + chunks(k) + " && first < " + rows + ") {") + "#pragma unroll\n" +
         line(2, "for (int i = 0; i < " + per_thread + "; ++i) {") + line(3, "const I r = first + i;");
  if (!together) out += line(3, "if (r >= " + rows + ") break;");
  for (const Phase& p : k.phases) {
    indent(out, p.row, 3);
    indent(out, p.chunk, 3);
    out += "#pragma unroll\n" + line(3, "for (int j = 0; j < " + lanes + "; ++j) {") + lines(p.lane, 4) + line(3, "}");
    indent(out, p.stores, 3);
  }
  out += line(2, "}") + line(1, "}") + after + store_extrema(k, s) + "}\n";
  return k.extrema.empty() ? out : out + finish_extrema(k, name);
}

}  // namespace

std::string emit_cuda(const Kernel& k, const std::string& name) {
  const CudaShape s = cuda_shape(k);
  const bool flat = is_flat(k), tiled = !reduces_rows(k) && !flat;
  // The compiler keeps to the registers with which other blocks fit.
  const int blocks = s.persistent ? s.blocks_per_multiprocessor : s.threads == kRowThreads ? 2 : 1;
  std::string out = "extern \"C\" __global__ void __launch_bounds__(" + std::to_string(s.threads * s.rows_per_block) +
                    (blocks > 1 ? ", " + std::to_string(blocks) : "") + ") " + name + "(" + parameters(k) +
                    "char* __restrict__ partial) {\n";
  out += line(1, std::string("using I = ") + (k.wide ? "long long;" : "int;"));
  out += line(1, "constexpr int T = " + std::to_string(s.threads) + ", K = " + std::to_string(s.chunks) + ";");
  for (int64_t distance : k.distances)
    out += line(1, "constexpr I " + distance_name(distance) + " = " + std::to_string(distance) + ";");
  out += declare_columns(k);
  if (flat) return out + sections(k, s) + "}\n";
  if (k.tiled) return tiles(k, s, name, std::move(out));
  const std::string chunk =
      tiled ? "const I q = (I(blockIdx.y) * K + k) * T + threadIdx.x;" : "const I q = I(k) * T + " + in_row(k) + ";";
  out += rows_of(k, s);
  for (const std::string& v : k.cached_vectors) out += line(2, v);
  for (const Phase& p : k.phases) phase(out, k, p, chunk);
  if (!k.row_stores.empty()) {
    out += line(2, "if (" + in_row(k) + " == 0) {");
    indent(out, k.row_stores, 3);
    out += line(2, "}");
  }
  if (s.persistent && reduces_rows(k)) out += line(2, "buffer ^= 1;");
  const std::string totals = total_columns(k);
  if (totals.empty()) out += line(1, "}");
  else if (walks_columns(k)) out += line(1, "}") + totals + line(1, "}");
  else
    out += line(2, "if (++run < " + std::to_string(kRun) + ") continue;") + line(2, "run = 0;") + totals +
           line(1, "}") + line(1, "{") + totals + line(1, "}");
  if (k.last) out += last_phase(k, chunk);
  if (k.has_finish()) out += store_sums(k, s, chunk);
  out += "}\n";
  if (k.has_finish() && !s.whole) out += finish(k, name);
  return out;
}

}  // namespace thunder::fuser
