#include <algorithm>

#include "fuser/emit.h"
#include "fuser/emit_common.h"
#include "fuser/scalar.h"

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

// The arguments of a launch that are numbers, by name, and distances.
std::string named_numbers(const Kernel& k) {
  std::string out;
  for (int64_t distance : k.distances) {
    const std::string name = distance_name(distance);
    out += line(1, "int64 " + name + " = " + std::to_string(distance) + "; asm(\"\" : \"+r\"(" + name + "));");
  }
  for (size_t i = 0; i < k.sizes.all().size(); ++i) {
    const std::string n = std::to_string(i);
    out += line(1, "const int64 n" + n + " = sizes[" + n + "];");
  }
  for (size_t i = 0; i < k.numbers.size(); ++i) {
    const std::string n = std::to_string(i);
    out += line(1, "const double f" + n + " = numbers[" + n + "];");
  }
  return out;
}

std::string number_parameters(const Kernel& k) {
  return k.has_arguments() ? ", const int64* sizes, const double* numbers" : "";
}

// The arrays of a column's sum: of the run at hand, and of those before.
std::vector<std::string> column_arrays(const Kernel& k, const Accumulator& a) {
  if (!has_runs(k, a, Target::Host)) return {"part"};
  return {"part", "high", "low"};
}

std::string column_pointers(const Kernel& k, const std::string& qualifier, const std::string& prefix,
                            const std::string& base, int depth) {
  std::string out;
  const ColumnPlaces places(k, Target::Host);
  places.for_each([&](const Accumulator& a, std::string at, const std::string& bytes) {
    for (const std::string& array : column_arrays(k, a)) {
      out += line(depth, qualifier + a.type + "* __restrict " + prefix + a.name + "_" + array + " = (" + qualifier +
                             a.type + "*)(" + base + " + " + at + ");");
      at = places.sum(at, bytes);
    }
  });
  return out;
}

std::string clear_columns(const Kernel& k) {
  std::string out;
  for (const Accumulator& a : k.columns)
    for (const std::string& array : column_arrays(k, a))
      out += line(1, "for (int64 q = 0; q < " + k.sizes.known(k.cols) + "; ++q) " + a.name + "_" + array +
                         "[q] = " + identity(a) + ";");
  return out;
}

// The end of a run of rows.
std::string total_columns(const Kernel& k) {
  std::string out;
  for (const Accumulator& a : k.columns)
    if (has_runs(k, a, Target::Host))
      out += "#pragma omp simd\n" +
             line(2, "for (int64 q = 0; q < " + k.sizes.known(k.cols) + "; ++q) { th_total(" + a.name + "_high[q], " +
                         a.name + "_low[q], " + a.name + "_part[q]); " + a.name + "_part[q] = 0; }");
  return out;
}

constexpr size_t kRanges = 16;  // of a row, between the places at which conditions change
// Partial results of a reduction: so many that no addition waits for the one before.  Of a short row it takes longer to
// join them.
constexpr int64_t kBlock = 32, kShortBlock = 16, kFewColumns = 256;

std::string simd(const Kernel& k) {
  std::string out = "#pragma omp simd";
  if (k.gathers) out += " reduction(|:th_outside)";
  if (k.may_run_twice()) out += " reduction(|:th_far)";
  return out + "\n";
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
// Those of a sum are added up in runs of kRun, in runs of such runs, and those by th_total().
class PartialResults {
 public:
  PartialResults(std::string& out, const Kernel& k, const Phase& p, int depth)
      : out_(out), k_(k), p_(p), depth_(depth) {}

  void print() {
    for (const Accumulator& a : p_.reductions) {
      declare(a, "block");
      if (totals(a)) declare(a, "run");
      if (totals(a) && long_) out_ += line(depth_, a.type + " " + a.name + "_high = 0, " + a.name + "_low = 0;");
    }
    if (long_ && any_totals()) run_of_runs();
    else if (has_runs_ && any_totals()) run("0", whole_, depth_);
    else if (has_blocks_) block("0", whole_, depth_);
    if (!rest_.empty()) loop(whole_, rest_, depth_);
    for (const Accumulator& a : p_.reductions) {
      if (!totals(a)) {
        out_ += line(depth_, a.type + " " + a.name + " = " + joined(a, "block") + ";");
        continue;
      }
      out_ += add_block(a, depth_);
      const std::string last = joined(a, "run");
      if (!long_) out_ += line(depth_, a.type + " " + a.name + " = " + last + ";");
      else
        out_ += line(depth_, "th_total(" + a.name + "_high, " + a.name + "_low, " + last + ");") +
                line(depth_, a.type + " " + a.name + " = th_whole(" + a.name + "_high, " + a.name + "_low);");
    }
  }

 private:
  bool totals(const Accumulator& a) const { return rounds(a) && has_runs_; }
  bool any_totals() const { return std::any_of(p_.reductions.begin(), p_.reductions.end(), rounds); }
  std::string lanes() const { return "for (int l = 0; l < " + std::to_string(width_) + "; ++l) "; }

  void declare(const Accumulator& a, const std::string& array) {
    const std::string name = a.name + "_" + array;
    out_ += line(depth_, "alignas(64) " + a.type + " " + name + "[" + std::to_string(width_) + "];") +
            line(depth_, lanes() + name + "[l] = " + identity(a) + ";");
  }

  std::string joined(const Accumulator& a, const std::string& array) const {
    return "th_join<" + std::to_string(width_) + ">(" + a.name + "_" + array + ", [](" + a.type + " a, " + a.type +
           " b) { return " + a.type + "(" + combine_function(a.combine) + "(a, b)); })";
  }

  std::string add_block(const Accumulator& a, int depth) const {
    return line(depth, lanes() + "{ " + a.name + "_run[l] += " + a.name + "_block[l]; " + a.name + "_block[l] = 0; }");
  }

  // The elements of `count` neighbouring columns, at most `width_`.
  void loop(const std::string& start, const std::string& count, int at) {
    if (!p_.ahead.empty()) out_ += line(at, "{");
    draw_ahead(out_, p_, start, count, width_, at + 1);
    out_ += simd(k_) + line(at, "for (int64 l = 0; l < " + count + "; ++l) {") +
            line(at + 1, "const int64 q = " + start + " + l;");
    for (const Accumulator& a : p_.reductions)
      out_ += line(at + 1, a.type + "& " + a.name + " = " + a.name + "_block[l];");
    body(out_, p_, at + 1);
    if (!p_.ahead.empty()) out_ += line(at, "}");
  }

  void block(const std::string& first, const std::string& last, int at) {
    const std::string width = std::to_string(width_);
    if (one_block_) return loop("0", width, at);
    out_ += line(at, "for (int64 b = " + first + "; b < " + last + "; b += " + width + ")");
    loop("b", width, at + 1);
  }

  std::string least(const std::string& start, int64_t length) const {
    const std::string end = start + " + " + std::to_string(length);
    const bool fits = k_.cols.is_number() && k_.cols.number() / width_ * width_ % length == 0;
    return fits ? end : "(" + end + " < " + whole_ + " ? " + end + " : " + whole_ + ")";
  }

  void run(const std::string& first, const std::string& last, int at) {
    const int64_t length = kRun * width_;
    out_ += line(at, "for (int64 c = " + first + "; c < " + last + "; c += " + std::to_string(length) + ") {");
    out_ += line(at + 1, "const int64 end = " + least("c", length) + ";");
    block("c", "end", at + 1);
    for (const Accumulator& a : p_.reductions)
      if (totals(a)) out_ += add_block(a, at + 1);
    out_ += line(at, "}");
  }

  void run_of_runs() {
    const int64_t length = kRun * kRun * width_;
    out_ += line(depth_, "for (int64 d = 0; d < " + whole_ + "; d += " + std::to_string(length) + ") {");
    out_ += line(depth_ + 1, "const int64 stop = " + least("d", length) + ";");
    run("d", "stop", depth_ + 1);
    for (const Accumulator& a : p_.reductions)
      if (totals(a))
        out_ += line(depth_ + 1, "th_total(" + a.name + "_high, " + a.name + "_low, " + joined(a, "run") + ");") +
                line(depth_ + 1, lanes() + a.name + "_run[l] = 0;");
    out_ += line(depth_, "}");
  }

  std::string& out_;
  const Kernel& k_;
  const Phase& p_;
  const int depth_;
  // A row of any length may have any number of blocks.
  const bool any_ = !k_.cols.is_number();
  const int64_t block_ = any_ || k_.cols.number() > kFewColumns ? kBlock : kShortBlock,
                width_ = any_ ? block_ : std::clamp<int64_t>(k_.cols.number(), 1, block_),
                blocks_ = any_ ? 0 : k_.cols.number() / width_;
  const bool has_blocks_ = any_ || blocks_ > 0, one_block_ = blocks_ == 1, has_runs_ = any_ || blocks_ > kRun,
             long_ = any_ || blocks_ > kRun *kRun;
  // Columns in whole blocks, and those behind them; empty if there are none.
  const std::string cols_ = k_.sizes.known(k_.cols), in_blocks_ = std::to_string(blocks_ * width_),
                    whole_ = any_ ? "(" + cols_ + " - " + cols_ + " % " + std::to_string(width_) + ")" : in_blocks_,
                    left_ = any_ ? "" : std::to_string(k_.cols.number() % width_),
                    rest_ = any_           ? cols_ + " % " + std::to_string(width_)
                            : left_ == "0" ? ""
                                           : left_;
};

// Parts of a row in which no index is divided.
void parts(std::string& out, const Kernel& k, const Phase& p, int depth) {
  const std::string count = std::to_string(k.cols.number() / p.part), length = std::to_string(p.part);
  out += line(depth, "for (int64 p = 0; p < " + count + "; ++p) {");
  indent(out, p.chunk, depth + 1);
  out += simd(k) + line(depth + 1, "for (int64 j = 0; j < " + length + "; ++j) {") +
         line(depth + 2, "const int64 q = " + length + " * p + j;");
  indent(out, p.lane, depth + 2);
  out += line(depth + 1, "}");
  indent(out, p.stores, depth + 1);
  out += line(depth, "}");
}

void phase(std::string& out, const Kernel& k, const Phase& p, const std::string& first, const std::string& last,
           int depth) {
  indent(out, p.row, depth);
  if (!p.reductions.empty()) return PartialResults(out, k, p, depth).print();
  if (!p.has_loop()) return;
  if (p.part > 0) return parts(out, k, p, depth);
  if (!p.ahead.empty()) {
    const std::string most = std::to_string(kAhead);
    out += line(depth, "for (int64 b = " + first + "; b < " + last + "; b += " + most + ") {");
    out += line(depth + 1, "const int64 n = " + last + " - b < " + most + " ? " + last + " - b : " + most + ";");
    draw_ahead(out, p, "b", "n", kAhead, depth + 1);
    out += simd(k) + line(depth + 1, "for (int64 l = 0; l < n; ++l) {");
    out += line(depth + 2, "const int64 q = b + l;");
    body(out, p, depth + 2);
    out += line(depth, "}");
    return;
  }
  auto loop = [&](const std::string& from, const std::string& to) {
    out += simd(k) + line(depth, "for (int64 q = " + from + "; q < " + to + "; ++q) {");
    body(out, p, depth + 1);
  };
  // In a loop of its own each range has conditions that the compiler knows: a select of loads is not vectorised.
  std::string from = first;
  if (k.condition_changes.size() < kRanges && first == "0")
    for (int64_t change : k.condition_changes) {
      loop(from, std::to_string(change));
      from = std::to_string(change);
    }
  loop(from, last);
}

// Whether what lies side by side in memory is in neighbouring rows, so that a row reads one element of each line.
bool walks_across_lines(const Kernel& k) {
  const Phase& p = k.phases.front();
  return k.rows_together > 0 && k.columns.empty() && k.phases.size() == 1 && p.reductions.empty() && p.ahead.empty() &&
         p.part == 0 && k.condition_changes.empty() && k.row_buffers.empty() && k.row_stores.empty();
}

// The lines that a square of so many rows and columns reads stay in the first level cache.
constexpr int64_t kSquareRows = 32, kSquareCols = 64;

// Squares of neighbouring rows and columns, one after the other.
void squares(std::string& out, const Kernel& k, const std::string& cols) {
  const auto strip = [&](int depth, const std::string& name, const std::string& begin, const std::string& end,
                         int64_t step) {
    const std::string first = name + "0", last = name + "1", n = std::to_string(step);
    out += line(depth, "for (int64 " + first + " = " + begin + "; " + first + " < " + end + "; " + first + " += " + n +
                           ") {") +
           line(depth + 1, "const int64 " + last + " = " + first + " + " + n + " < " + end + " ? " + first + " + " + n +
                               " : " + end + ";");
  };
  strip(1, "r", "begin", "end", kSquareRows);
  strip(2, "q", "0", cols, kSquareCols);
  out += line(3, "for (int64 r = r0; r < r1; ++r) {");
  phase(out, k, k.phases.front(), "q0", "q1", 4);
  out += line(3, "}") + line(2, "}") + line(1, "}");
}

std::string finish(const Kernel& k, const std::string& name) {
  const std::string cols = k.sizes.known(k.cols), bytes = ColumnPlaces(k, Target::Host).all();
  std::string out = "extern \"C\" int " + name +
                    "_finish(const void* const* in, void* const* out, char* partial, int64 parts" +
                    number_parameters(k) + ") {\n  using I = int64;\n  int64 th_outside = 0;\n" +
                    (k.may_run_twice() ? line(1, "int64 th_far = 0;") : "") + named_numbers(k) + pointers(k) +
                    column_pointers(k, "", "", "partial", 1) + line(1, "for (int64 s = 1; s < parts; ++s) {") +
                    column_pointers(k, "const ", "from_", "partial + s * " + bytes, 2);
  for (const Accumulator& a : k.columns) {
    const std::string loop = "for (int64 c = 0; c < " + cols + "; ++c) ";
    out += "#pragma omp simd\n";
    if (has_runs(k, a, Target::Host))
      out += line(2, loop + "{ th_total(" + a.name + "_high[c], " + a.name + "_low[c], from_" + a.name + "_high[c]); " +
                         a.name + "_low[c] += from_" + a.name + "_low[c]; }");
    else
      out += line(2, loop + a.name + "_part[c] = " + combine_function(a.combine) + "(" + a.name + "_part[c], from_" +
                         a.name + "_part[c]);");
  }
  out += line(1, "}") + simd(k) + line(1, "for (int64 c = 0; c < " + cols + "; ++c) {");
  for (const Accumulator& a : k.columns)
    out += line(2, "const " + a.type + " " + a.name + " = " +
                       (has_runs(k, a, Target::Host) ? "th_whole(" + a.name + "_high[c], " + a.name + "_low[c]);"
                                                     : a.name + "_part[c];"));
  indent(out, k.finish, 2);
  return out + "  }\n  return th_outside < 0;\n}\n";
}

// Up to the body.  A kernel with periodic functions is two functions: the first one is arithmetic, and says whether an
// argument was too large for it; then the second one runs.
std::string begin(const Kernel& k, const std::string& name) {
  const std::string types =
      "(const void* const* in, void* const* out, char* partial, int64 begin, int64 end" + number_parameters(k);
  const std::string body = ") {\n  using I = int64;\n  int64 th_outside = 0;\n";
  if (!k.may_run_twice()) return "extern \"C\" int " + name + types + body;
  return "template <bool th_exact> static int " + name + "_of" + types + ", int64& far" + body +
         "  int64 th_far = 0;\n";
}

std::string end(const Kernel& k, const std::string& name) {
  std::string out = "  return th_outside < 0;\n}\n";
  if (!k.may_run_twice()) return out;
  out = "  far = th_far;\n" + out;
  const std::string arguments =
      "(in, out, partial, begin, end" + std::string(k.has_arguments() ? ", sizes, numbers" : "") + ", far)";
  return out + "extern \"C\" int " + name +
         "(const void* const* in, void* const* out, char* partial, int64 begin, int64 end" + number_parameters(k) +
         ") {\n" + line(1, "int64 far = 0;") + line(1, "const int outside = " + name + "_of<false>" + arguments + ";") +
         line(1, "return far < 0 ? " + name + "_of<true>" + arguments + " : outside;") + "}\n";
}

}  // namespace

bool Kernel::may_run_twice() const {
  return std::any_of(calls.begin(), calls.end(), [](const Call* c) { return is_periodic(*c->op); });
}

int64_t partial_bytes(const Kernel& k, Target target, int64_t cols) {
  int64_t bytes = static_cast<int64_t>(sizeof(float) * k.extrema.size());
  for (const Accumulator& a : k.columns) bytes += arrays_of(k, a, target) * bytes_of_columns(a, cols);
  return bytes;
}

bool host_splits_columns(const Kernel& k) {
  if (!k.rows.is(1) || !k.columns.empty()) return false;
  for (const Phase& p : k.phases)
    if (!p.reductions.empty()) return false;
  return k.row_stores.empty();
}

std::string emit_host(const Kernel& k, const std::string& name) {
  const std::string cols = k.sizes.known(k.cols);
  std::string out = begin(k, name) + named_numbers(k) + pointers(k);
  if (!k.columns.empty()) {
    out += "#undef TH_COLUMN\n#define TH_COLUMN(x) x##_part[q]\n";
    out += column_pointers(k, "", "", "partial", 1) + clear_columns(k);
  }
  if (host_splits_columns(k)) {
    Size before = 0;
    for (const Phase& p : k.phases) {
      const Size after = before + chunks_of(k, p);
      const std::string start = k.sizes.known(before), end = k.sizes.known(after);
      out += line(1, "{");
      out += line(2, "const int64 first = begin > " + start + " ? begin - " + start + " : 0;");
      out += line(2, "const int64 last = (end < " + end + " ? end : " + end + ") - " + start + ";");
      phase(out, k, p, "first", "last", 2);
      out += line(1, "}");
      before = after;
    }
    return out + end(k, name);
  }
  if (walks_across_lines(k)) {
    squares(out, k, cols);
    return out + end(k, name);
  }
  for (const std::string& buffer : k.row_buffers) out += line(1, "alignas(64) " + buffer);
  const std::string totals = total_columns(k), run = std::to_string(kRun);
  if (!totals.empty())
    out += line(1, "for (int64 first = begin; first < end; first += " + run + ") {") +
           line(1, "const int64 last = first + " + run + " < end ? first + " + run + " : end;") +
           line(1, "for (int64 r = first; r < last; ++r) {");
  else out += line(1, "for (int64 r = begin; r < end; ++r) {");
  for (const Phase& p : k.phases) phase(out, k, p, "0", cols, 2);
  indent(out, k.row_stores, 2);
  if (!totals.empty()) out += "  }\n" + totals;
  out += "  }\n" + end(k, name);
  if (!k.columns.empty()) out += finish(k, name);
  return out;
}

}  // namespace thunder::fuser
