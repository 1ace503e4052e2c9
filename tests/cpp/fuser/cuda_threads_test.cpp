// Rows and columns of many lengths, dealt to the threads of a GPU: the kernels run as emulated threads.
#include <doctest.h>

#include "core/error.h"
#include "core/parse.h"
#include "fuser/emit.h"
#include "fuser/kernel_checks.h"
#include "fuzz/random.h"
#include "ops/families.h"
#include "runtime/kernels/host_compiler.h"

namespace thunder::test {
namespace {

using fuser::LowerOptions;

// Rows `x` of [rows, cols]; `y` has the same elements in another order in memory.
struct Rows {
  int64_t rows, cols;
  std::string matrix(const char* type = "bf16") const { return cat("\"cpu ", type, "[", rows, ", ", cols, "]"); }
  std::string full(const char* type = "bf16") const { return matrix(type) + "\""; }
  std::string transposed() const { return matrix() + cat(" strides=(1, ", rows, ")\""); }
  std::string row(const char* more = "") const { return cat("\"cpu f32[", rows, "]", more, "\""); }
  std::string column() const { return cat("\"cpu f32[", cols, "]\""); }
  // A value of the rows, broadcast over the columns.
  std::string spread(const std::string& name, const std::string& of) const {
    return cat("  ", name, " = prims.broadcast_in_dim(", of, ", [", rows, ", ", cols, "], [0])  # ", name, ": ",
               matrix("f32"), " strides=(1, 0)\"\n");
  }
};

std::string softmax(const Rows& r) {
  return "  # x: " + r.full() + "\n  t1 = prims.convert_element_type(x, torch.float32)  # t1: " + r.full("f32") +
         "\n  t2 = prims.amax(t1, [1])  # t2: " + r.row() + "\n" + r.spread("t3", "t2") +
         "  t4 = prims.sub(t1, t3)  # t4: " + r.full("f32") + "\n  t5 = prims.exp(t4)  # t5: " + r.full("f32") +
         "\n  t6 = prims.sum(t5, [1])  # t6: " + r.row() + "\n" + r.spread("t7", "t6") +
         "  t8 = prims.div(t5, t7)  # t8: " + r.full("f32") + "\n  return (t2, t6, t8)\n";
}

// Sums of rows that the result needs, and of columns; `y` is read along the columns of memory.
std::string norm_gradient(const Rows& r) {
  return "  # x: " + r.full() + "\n  # y: " + r.transposed() +
         "\n  t1 = prims.convert_element_type(x, torch.float32)  # t1: " + r.full("f32") +
         "\n  t2 = prims.convert_element_type(y, torch.float32)  # t2: " + r.matrix("f32") +
         cat(" strides=(1, ", r.rows, ")\"\n") + "  t3 = prims.mul(t1, t2)  # t3: " + r.full("f32") +
         "\n  t4 = prims.sum(t3, [1])  # t4: " + r.row() + "\n" + r.spread("t5", "t4") +
         "  t6 = prims.sub(t1, t5)  # t6: " + r.full("f32") + "\n  t7 = prims.sum(t3, [0])  # t7: " + r.column() +
         "\n  t8 = prims.sum(t1, [0])  # t8: " + r.column() + "\n  return (t4, t6, t7, t8)\n";
}

std::string column_sum(const Rows& r) {
  return "  # x: " + r.full() + "\n  # y: " + r.full() + "\n  t1 = prims.mul(x, y)  # t1: " + r.full() +
         "\n  t2 = prims.convert_element_type(t1, torch.float32)  # t2: " + r.full("f32") +
         "\n  t3 = prims.sum(t2, [0])  # t3: " + r.column() + "\n  return (t1, t3)\n";
}

// An image with channels last: the elements of a channel lie apart.
std::string scaled_channels(const Rows& r) {
  const std::string shape = cat("[3, ", r.rows, ", ", r.cols, "]"), row = cat("\"cuda:0 f32[3, ", r.rows, "]\"\n"),
                    apart = cat(" strides=(", r.rows * r.cols, ", 1, ", r.rows, ")\"\n"),
                    full = "\"cuda:0 f32" + shape + apart;
  const auto spread = [&](const char* name, const char* of) {
    return cat("  ", name, " = prims.broadcast_in_dim(", of, ", ", shape, ", [0, 1])  # ", name, ": \"cuda:0 f32",
               shape, " strides=(", r.rows, ", 1, 0)\"\n");
  };
  return "  # y: \"cuda:0 bf16" + shape + apart + "  t1 = prims.convert_element_type(y, torch.float32)  # t1: " + full +
         "  t2 = prims.amax(t1, [2])  # t2: " + row + spread("t3", "t2") + "  t4 = prims.sub(t1, t3)  # t4: " + full +
         "  t5 = prims.sum(t4, [2])  # t5: " + row + spread("t6", "t5") + "  t7 = prims.mul(t1, t6)  # t7: " + full +
         "  return (t2, t5, t7)\n";
}

// Three matrices side by side, and something made of their sums.
std::string middle_sum(const Rows& r) {
  const std::string shape = cat("[3, ", r.rows, ", ", r.cols, "]\""), full = "\"cuda:0 bf16" + shape,
                    wide = "\"cuda:0 f32" + shape, column = cat("\"cuda:0 f32[3, ", r.cols, "]\"");
  return "  # x: " + full + "\n  # y: " + full + "\n  t1 = prims.mul(x, y)  # t1: " + full +
         "\n  t2 = prims.convert_element_type(t1, torch.float32)  # t2: " + wide +
         "\n  t3 = prims.sum(t2, [1])  # t3: " + column +
         "\n  t4 = prims.convert_element_type(x, torch.float32)  # t4: " + wide +
         "\n  t5 = prims.amax(t4, [1])  # t5: " + column + "\n  t6 = prims.mul(t3, t5)  # t6: " + column +
         "\n  return (t1, t3, t5, t6)\n";
}

std::string transposed_copy(const Rows& r) {
  return "  # y: " + r.transposed() + "\n  t1 = prims.mul(y, 2.0)  # t1: " + r.transposed() +
         "\n  t2 = prims.clone(t1, memory_format=torch.contiguous_format)  # t2: " + r.full() + "\n  return t2\n";
}

// Whether the program is one kernel: rows of one element are not told from columns.
bool add(KernelChecks& checks, const std::string& name, const std::string& inputs, const std::string& body,
         bool across = false) {
  const Trace trace = parse("import torch\nimport thunder.core.prims as prims\n\ndef f(" + inputs + "):\n" + body);
  std::map<ValueId, const Call*> maker;
  for (const Call* c : trace.calls) maker[c->output.value().id()] = c;
  std::vector<fuser::Root> roots;
  visit_values(trace.output, [&](Value v) { roots.push_back({v, true}); });
  const fuser::Producer producer = [&](Value v) {
    const auto it = maker.find(v.id());
    return it == maker.end() ? nullptr : it->second;
  };
  const fuser::Materialized none = [](Value) { return false; };
  const std::optional<fuser::Kernel> plain = fuser::lower(roots, producer, none, {});
  if (!plain) return false;
  Fused f{.roots = roots,
          .calls = trace.calls,
          .inputs = plain->inputs,
          .outputs = plain->outputs,
          .plain = *plain,
          .lowered = {}};
  for (int lanes : {8, 4, 1}) {
    const LowerOptions options{.lanes = lanes,
                               .cached = true,
                               .keep_singles = lanes != 4,
                               .keep_costly = lanes != 4,
                               .split_rows = LowerOptions::SplitRows::Long};
    if (auto k = fuser::lower(roots, producer, none, options)) f.lowered.push_back(*k);
  }
  if (across)
    for (const fuser::Kernel& k : f.lowered) CHECK(fuser::cuda_shape(k).across);
  fuzz::Random random(7);
  std::vector<reference::Datum> values;
  for (Value v : f.inputs) {
    std::vector<int64_t> shape;
    for (const Dim& d : v.shape()) shape.push_back(d.constant());
    auto a = reference::make_array(v.dtype(), v.tensor().device, shape);
    for (auto& e : a->data) e = reference::Element::real(reference::round_real(v.dtype(), random.uniform(-1, 1)));
    values.push_back(reference::Datum(a));
  }
  checks.add(f, expect(f, values, trace.arena, 1).value(), trace.arena, name);
  return true;
}

}  // namespace

TEST_CASE("emit_cuda: rows and columns of any length, read along rows and across them") {
  std::string why_not;
  if (host_compiler_command(&why_not).empty()) {
    MESSAGE("skipped: " << why_not);
    return;
  }
  ops::register_all();
  KernelChecks checks;
  for (int64_t rows : {3, 70})
    for (int64_t cols : {1, 2, 49, 96, 197, 776, 3104}) {
      const Rows r{rows, cols};
      const std::string at = cat(" of ", rows, " x ", cols);
      CHECK(add(checks, "softmax" + at, "x", softmax(r)));
      CHECK(add(checks, "norm's gradient" + at, "x, y", norm_gradient(r)) == (cols > 1));
      CHECK(add(checks, "sum of columns" + at, "x, y", column_sum(r)));
      CHECK(add(checks, "transposed copy" + at, "y", transposed_copy(r)));
      CHECK(add(checks, "sum over the middle" + at, "x, y", middle_sum(r)) == (cols == 1 || cols * 4 >= 64));
    }
  // More rows than the threads of a block walk over.
  for (int64_t cols : {2, 49, 96}) {
    const Rows r{2100, cols};
    CHECK(add(checks, cat("sum of 2100 x ", cols), "x, y", column_sum(r)));
    CHECK(add(checks, cat("sum over the middle of 2100 x ", cols), "x, y", middle_sum(r)) == (cols * 4 >= 64));
  }
  // Neighbouring threads have neighbouring rows.
  for (int64_t channels : {715, 2833})
    for (int64_t cols : {2, 7, 49, 110, 112, 512})
      if (channels * cols < 1000000)
        CHECK(
            add(checks, cat("channels of 3 x ", channels, " x ", cols), "y", scaled_channels({channels, cols}), true));
  for (const std::string& wrong : checks.run()) FAIL_CHECK(wrong);
}

TEST_CASE("cuda_shape: neighbouring threads work on rows that lie together") {
  fuser::Kernel k;
  for (int i = 0; i < 2; ++i) k.phases.emplace_back();
  for (fuser::Phase& p : k.phases) p.lane = {"x;"};
  k.phases[0].reductions.push_back({"sum0", "float", Combine::Add, ""});
  k.rows_together = 16;
  k.usual_rows = 32768;
  k.cols = k.usual_cols = 196;
  const fuser::CudaShape s = fuser::cuda_shape(k);
  CHECK(s.across);
  CHECK(s.width() == 32);
  CHECK(s.width() * s.height() <= 1024);
  CHECK(s.chunks <= 16);
  CHECK(s.height() * s.chunks < 196 + s.height());  // no thread idles
  k.usual_rows = 4096;                              // a block has as many as one fetch from memory serves
  CHECK(fuser::cuda_shape(k).width() == 16);
  k.usual_rows = 512;  // too few blocks
  CHECK_FALSE(fuser::cuda_shape(k).across);
  k.usual_rows = 32768;
  k.along_rows = true;
  CHECK_FALSE(fuser::cuda_shape(k).across);
}

TEST_CASE("cuda_shape: no thread of a row idles where its chunks can be dealt evenly") {
  fuser::Kernel k;
  k.phases.emplace_back();
  k.phases[0].reductions.push_back({"sum0", "float", Combine::Add, ""});
  k.lanes = 8;
  k.usual_rows = 100000;
  for (int64_t chunks : {1, 2, 3, 4, 6, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384}) {
    k.cols = k.usual_cols = 8 * chunks;
    const fuser::CudaShape s = fuser::cuda_shape(k);
    CAPTURE(chunks);
    CHECK(s.threads * s.chunks == chunks);
    CHECK(s.threads * s.rows_per_block <= 512);
  }
}

TEST_CASE("cuda_shape: a row of single elements is a warp's, or a block's of threads that have several each") {
  fuser::Kernel k;
  for (int i = 0; i < 3; ++i) k.phases.emplace_back();
  for (fuser::Phase& p : k.phases) p.lane = {"x;"};
  k.phases[0].reductions.push_back({"sum0", "float", Combine::Max, ""});
  k.cached = true;
  k.cached_bytes = 4;
  const auto threads = [&](int64_t rows, int64_t cols) {
    k.usual_rows = rows;
    k.cols = k.usual_cols = cols;
    return fuser::cuda_shape(k).threads;
  };
  CHECK(threads(150000, 197) == 32);
  CHECK(threads(50000, 333) == 32);
  CHECK(threads(300000, 50) == 8);
  CHECK(threads(16384, 1001) == 128);
  CHECK(threads(2000000, 7) == 2);
  CHECK(threads(256, 50257) == 1024);
}

TEST_CASE("cuda_shape: sums of rows and of columns are apart where a cache holds what both read") {
  fuser::Kernel k;
  k.phases.emplace_back();
  k.phases[0].reductions.push_back({"sum0", "float", Combine::Add, ""});
  const auto value = [arena = std::make_shared<Arena>()](Dims shape) {
    return arena->make_value(TensorType{DType::f32, Device{}, shape, shape, false});
  };
  const auto apart = [&](int64_t rows, int64_t cols) {
    k.usual_rows = rows;
    k.rows = rows;
    k.cols = k.usual_cols = cols;
    k.inputs = {value({rows, cols}), value({cols})};
    return fuser::joins_sums_badly(k);
  };
  CHECK(!apart(2048, 1024));  // no column is summed
  k.columns.push_back({"col0", "float", Combine::Add, ""});
  CHECK(apart(2048, 1024));
  CHECK(apart(512, 12288));
  CHECK(!apart(16384, 1024));
  CHECK(!apart(2048, 128));
  k.phases[0].reductions.clear();
  CHECK(!apart(2048, 1024));
}

}  // namespace thunder::test
