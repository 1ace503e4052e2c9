// Metas, bodies and errors of matrix products, activations, norms and embedding.
#include <doctest.h>

#include "core/builder.h"
#include "core/error.h"
#include "ops/families.h"

using namespace thunder;

namespace {

struct Fixture {
  Fixture() { ops::register_all(); }
  std::shared_ptr<Arena> arena = std::make_shared<Arena>();
  Builder b{arena};
  Expr input(Dims shape, DType t = DType::f32) {
    TensorType type{.dtype = t, .device = {}, .shape = shape, .strides = contiguous_strides(shape)};
    return b.expr(b.input(type));
  }
};

std::string message(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE_FIXTURE(Fixture, "matmul follows PyTorch's rules for vectors and batches") {
  auto shape = [&](Dims x, Dims y) { return str(b("torch.matmul", input(x), input(y)).shape()); };
  CHECK(shape({3}, {3}) == "[]");
  CHECK(shape({2, 3}, {3}) == "[2]");
  CHECK(shape({3}, {3, 4}) == "[4]");
  CHECK(shape({2, 3}, {3, 4}) == "[2, 4]");
  CHECK(shape({5, 2, 3}, {3, 4}) == "[5, 2, 4]");
  CHECK(shape({5, 2, 3}, {3}) == "[5, 2]");
  CHECK(shape({3}, {5, 3, 4}) == "[5, 4]");
  CHECK(shape({2, 3}, {5, 3, 4}) == "[5, 2, 4]");
  CHECK(shape({6, 1, 2, 3}, {5, 3, 4}) == "[6, 5, 2, 4]");
  CHECK(message([&] { shape({2, 3}, {4, 5}); }) == "[matmul] mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)");
  CHECK(message([&] { b("torch.matmul", input({2, 3}), input({3, 2}, DType::f64)); }) ==
        "[matmul] expected m1 and m2 to have the same dtype, but got: float != double");
}

TEST_CASE_FIXTURE(Fixture, "linear keeps leading dimensions and checks its operands") {
  CHECK(str(b("torch.linear", input({2, 5, 3}), input({4, 3}), input({4})).shape()) == "[2, 5, 4]");
  CHECK(str(b("torch.linear", input({3}), input({4, 3})).shape()) == "[4]");
  CHECK(str(b("torch.linear", input({2, 3}), input({3})).shape()) == "[2]");
  CHECK(message([&] { b("torch.linear", input({2, 3}), input({4, 5})); }) ==
        "[linear] mat1 and mat2 shapes cannot be multiplied (2x3 and 5x4)");
}

TEST_CASE_FIXTURE(Fixture, "embedding adds the width to the shape of the indices") {
  Expr rows = b("torch.embedding.functional", input({2, 5}, DType::i64), input({10, 3}));
  CHECK(str(rows.shape()) == "[2, 5, 3]");
  CHECK(message([&] { b("torch.embedding.functional", input({2}, DType::f32), input({10, 3})); }).find("Long, Int; but got Float") !=
        std::string::npos);
  CHECK(message([&] { b("torch.embedding.functional", input({2}, DType::i64), input({10, 3}), 10); }) ==
        "[embedding] Padding_idx must be within num_embeddings");
}

TEST_CASE_FIXTURE(Fixture, "activations keep dtype and layout") {
  TensorType t{.dtype = DType::bf16, .device = {}, .shape = {3, 4}, .strides = {1, 3}};
  Expr x = b.expr(b.input(t));
  for (const char* op : {"torch.relu", "torch.gelu", "torch.silu", "torch.mish", "torch.elu", "torch.softplus", "torch.hardswish",
                         "torch.hardsigmoid", "torch.hardtanh", "torch.leaky_relu", "torch.selu", "torch.celu", "torch.softshrink",
                         "torch.hardshrink", "torch.relu6"}) {
    CAPTURE(op);
    Expr y = b(op, x);
    CHECK(y.dtype() == DType::bf16);
    CHECK(str(y.tensor().strides) == "[1, 3]");
  }
  CHECK(str(b("torch.logsigmoid", x).tensor().strides) == "[4, 1]");
  CHECK(message([&] { b("torch.gelu", input({3}, DType::i64)); }) == "[gelu] \"GeluKernelImpl\" not implemented for 'Long'");
  CHECK(message([&] { b("torch.gelu", x, kw("approximate", "fast")); }) ==
        "[gelu] approximate argument must be either none or tanh.");
}
