#include <algorithm>

#include "fuser/emit.h"
#include "fuser/emit_common.h"

namespace thunder::fuser {

namespace {

// Operands that may share memory are not promised to be apart.
std::string pointers(const Kernel& k) {
  std::string out;
  auto promise = [&](size_t InPlace::*side, size_t operand) {
    return std::any_of(k.in_place.begin(), k.in_place.end(), [&](const InPlace& p) { return p.*side == operand; })
               ? ""
               : "__restrict ";
  };
  for (size_t i = 0; i < k.inputs.size(); ++i) {
    const std::string type = storage_name(k.inputs[i].dtype()), n = std::to_string(i);
    out += line(
        1, "const " + type + "* " + promise(&InPlace::input, i) + "in" + n + " = (const " + type + "*)in[" + n + "];");
  }
  for (size_t i = 0; i < k.outputs.size(); ++i) {
    const std::string type = storage_name(k.outputs[i].dtype()), n = std::to_string(i);
    out += line(1, type + "* " + promise(&InPlace::output, i) + "out" + n + " = (" + type + "*)out[" + n + "];");
  }
  return out;
}

std::string column_pointers(const Kernel& k, const std::string& part) {
  std::string out;
  for_each_column(k, [&](const Accumulator& a, int64_t at) {
    out += line(
        1, a.type + "* __restrict " + a.name + "_part = (" + a.type + "*)(" + part + " + " + std::to_string(at) + ");");
  });
  return out;
}

constexpr size_t kRanges = 4;   // of a row, between the places at which conditions turn
constexpr int64_t kBlock = 32;  // partial results of a reduction: enough that no addition waits for the one before

std::string simd(bool gathers) {
  return std::string("#pragma omp simd") + (gathers ? " reduction(|:th_outside)" : "") + "\n";
}

constexpr int64_t kAhead = 256;  // random numbers that are made together: they stay in the first level cache

// The random numbers of `count` columns, at most `room`, from column `start` on.
void draw_ahead(std::string& out, const Phase& p, const std::string& start, const std::string& count, int64_t room,
                int depth) {
  constexpr int64_t kBlockOfWords = 4;
  for (const Ahead& a : p.ahead) {
    out += line(depth, "alignas(64) " + a.kind + "::type " + a.name + "_room[" + std::to_string(room + kBlockOfWords) +
                           "], *" + a.name + ";");
    out += line(depth, "{ const int64 q = " + start + "; " + a.name + " = th_random_fill<" + a.kind + ">(" + a.name +
                           "_room, " + a.state + ", " + a.first + ", " + count + "); }");
  }
}

void body(std::string& out, const Phase& p, int depth) {
  indent(out, p.chunk, depth);
  indent(out, p.lane, depth);
  indent(out, p.stores, depth);
  out += line(depth - 1, "}");
}

// A reduction adds up kBlock partial results side by side.  What is left at the end of a row goes to the first ones.
void reduction(std::string& out, const Kernel& k, const Phase& p, int depth) {
  const int64_t width = std::clamp<int64_t>(k.cols, 1, kBlock), blocks = k.cols / width, rest = k.cols % width;
  const std::string n = std::to_string(width);
  auto loop = [&](const std::string& start, int64_t count, int at) {
    if (!p.ahead.empty()) out += line(at - 1, "{");
    draw_ahead(out, p, start, std::to_string(count), count, at);
    out += simd(k.gathers) + line(at, "for (int64 l = 0; l < " + std::to_string(count) + "; ++l) {") +
           line(at + 1, "const int64 q = " + start + " + l;");
    for (const Accumulator& a : p.reductions)
      out += line(at + 1, a.type + "& " + a.name + " = " + a.name + "_block[l];");
    body(out, p, at + 1);
    if (!p.ahead.empty()) out += line(at - 1, "}");
  };
  for (const Accumulator& a : p.reductions)
    out += line(depth, "alignas(64) " + a.type + " " + a.name + "_block[" + n + "];") +
           line(depth, "for (int l = 0; l < " + n + "; ++l) " + a.name + "_block[l] = " + identity(a) + ";");
  if (blocks > 1) out += line(depth, "for (int64 b = 0; b < " + std::to_string(blocks * width) + "; b += " + n + ")");
  if (blocks > 0) loop(blocks > 1 ? "b" : "0", width, depth + (blocks > 1));
  if (rest > 0) loop(std::to_string(blocks * width), rest, depth);
  for (const Accumulator& a : p.reductions)
    out += line(depth, a.type + " " + a.name + " = th_join<" + n + ">(" + a.name + "_block, [](" + a.type + " a, " +
                           a.type + " b) { return " + a.type + "(" + combine_function(a.combine) + "(a, b)); });");
}

void phase(std::string& out, const Kernel& k, const Phase& p, const std::string& first, const std::string& last,
           int depth) {
  indent(out, p.row, depth);
  if (!p.reductions.empty()) return reduction(out, k, p, depth);
  if (!p.has_loop()) return;
  if (!p.ahead.empty()) {
    const std::string most = std::to_string(kAhead);
    out += line(depth, "for (int64 b = " + first + "; b < " + last + "; b += " + most + ") {");
    out += line(depth + 1, "const int64 n = " + last + " - b < " + most + " ? " + last + " - b : " + most + ";");
    draw_ahead(out, p, "b", "n", kAhead, depth + 1);
    out += simd(k.gathers) + line(depth + 1, "for (int64 l = 0; l < n; ++l) {");
    out += line(depth + 2, "const int64 q = b + l;");
    body(out, p, depth + 2);
    out += line(depth, "}");
    return;
  }
  auto loop = [&](const std::string& from, const std::string& to) {
    out += simd(k.gathers) + line(depth, "for (int64 q = " + from + "; q < " + to + "; ++q) {");
    body(out, p, depth + 1);
  };
  // In a loop of its own each range has conditions that the compiler knows: a select of loads is not vectorised.
  std::string from = first;
  if (k.turns.size() < kRanges && first == "0")
    for (int64_t turn : k.turns) {
      loop(from, std::to_string(turn));
      from = std::to_string(turn);
    }
  loop(from, last);
}

std::string finish(const Kernel& k, const std::string& name) {
  const std::string cols = std::to_string(k.cols), bytes = std::to_string(partial_bytes(k));
  std::string out =
      "extern \"C\" int " + name +
      "_finish(const void* const* in, void* const* out, char* partial, int64 parts) {\n  int th_outside = 0;\n" +
      pointers(k) + column_pointers(k, "partial") + line(1, "for (int64 s = 1; s < parts; ++s) {");
  for_each_column(k, [&](const Accumulator& a, int64_t at) {
    out += line(2, "const " + a.type + "* __restrict from_" + a.name + " = (const " + a.type + "*)(partial + s * " +
                       bytes + " + " + std::to_string(at) + ");");
    out += "#pragma omp simd\n" +
           line(2, "for (int64 c = 0; c < " + cols + "; ++c) " + a.name + "_part[c] = " + combine_function(a.combine) +
                       "(" + a.name + "_part[c], from_" + a.name + "[c]);");
  });
  out += line(1, "}") + simd(k.gathers) + line(1, "for (int64 c = 0; c < " + cols + "; ++c) {");
  for (const Accumulator& a : k.columns)
    out += line(2, "const " + a.type + " " + a.name + " = " + a.name + "_part[c];");
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
                    "(const void* const* in, void* const* out, char* partial, int64 begin, int64 end) {\n  using I = "
                    "int64;\n  int th_outside = 0;\n" +
                    pointers(k);
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
  for (const std::string& buffer : k.row_buffers) out += line(1, "alignas(64) " + buffer);
  out += line(1, "for (int64 r = begin; r < end; ++r) {");
  for (const Phase& p : k.phases) phase(out, k, p, "0", cols, 2);
  indent(out, k.row_stores, 2);
  out += "  }\n  return th_outside;\n}\n";
  if (!k.columns.empty()) out += finish(k, name);
  return out;
}

}  // namespace thunder::fuser
