#include "ops/families.h"

#include <mutex>

namespace thunder::ops {

// Each family's table stands in csrc/ops/<level>/<name>.cpp.
namespace prims {
std::span<const OpDef> control();
std::span<const OpDef> memory();
std::span<const OpDef> distributed();
std::span<const OpDef> sparse();
std::span<const OpDef> view();
std::span<const OpDef> identity();
std::span<const OpDef> shape();
std::span<const OpDef> index();
std::span<const OpDef> segments();
std::span<const OpDef> sort();
std::span<const OpDef> unique();
std::span<const OpDef> nn();
std::span<const OpDef> recurrent();
std::span<const OpDef> float8();
std::span<const OpDef> elementwise(), creation(), random(), reduction();
}  // namespace prims
namespace clang {
std::span<const OpDef> elementwise(), shape();
}  // namespace clang
namespace torch {
std::span<const OpDef> view();
std::span<const OpDef> split();
std::span<const OpDef> view_copy();
std::span<const OpDef> shape();
std::span<const OpDef> shape_backward();
std::span<const OpDef> pad();
std::span<const OpDef> index();
std::span<const OpDef> getitem();
std::span<const OpDef> sort();
std::span<const OpDef> rearrange();
std::span<const OpDef> matmul();
std::span<const OpDef> float8();
std::span<const OpDef> activation();
std::span<const OpDef> smooth_activation();
std::span<const OpDef> softmax();
std::span<const OpDef> norm();
std::span<const OpDef> embedding();
std::span<const OpDef> embedding_bag();
std::span<const OpDef> loss();
std::span<const OpDef> dropout();
std::span<const OpDef> attention();
std::span<const OpDef> unary(), binary(), comparison(), ternary(), dtype(), reduction(), creation(), random();
std::span<const OpDef> scan();
std::span<const OpDef> channel_norm();
std::span<const OpDef> group_norm();
std::span<const OpDef> conv();
std::span<const OpDef> pool();
std::span<const OpDef> patches();
std::span<const OpDef> resample();
std::span<const OpDef> pointwise_loss();
std::span<const OpDef> distance();
std::span<const OpDef> contraction();
std::span<const OpDef> complex();
std::span<const OpDef> linalg();
std::span<const OpDef> distributed();
}  // namespace torch
namespace numpy {
std::span<const OpDef> elementwise(), reduction(), shape(), index(), linalg(), creation();
}  // namespace numpy

namespace {

constexpr Family kFamilies[] = {
    {"prims", "control", prims::control},
    {"prims", "memory", prims::memory},
    {"prims", "distributed", prims::distributed},
    {"prims", "sparse", prims::sparse},
    {"prims", "elementwise", prims::elementwise},
    {"prims", "view", prims::view},
    {"prims", "identity", prims::identity},
    {"prims", "shape", prims::shape},
    {"prims", "index", prims::index},
    {"prims", "segments", prims::segments},
    {"prims", "sort", prims::sort},
    {"prims", "unique", prims::unique},
    {"prims", "nn", prims::nn},
    {"prims", "recurrent", prims::recurrent},
    {"prims", "float8", prims::float8},
    {"prims", "creation", prims::creation},
    {"prims", "random", prims::random},
    {"prims", "reduction", prims::reduction},

    {"clang", "elementwise", clang::elementwise},
    {"clang", "shape", clang::shape},

    {"torch", "view", torch::view},
    {"torch", "split", torch::split},
    {"torch", "view_copy", torch::view_copy},
    {"torch", "shape", torch::shape},
    {"torch", "shape_backward", torch::shape_backward},
    {"torch", "pad", torch::pad},
    {"torch", "index", torch::index},
    {"torch", "getitem", torch::getitem},
    {"torch", "sort", torch::sort},
    {"torch", "rearrange", torch::rearrange},
    {"torch", "matmul", torch::matmul},
    {"torch", "float8", torch::float8},
    {"torch", "activation", torch::activation},
    {"torch", "smooth_activation", torch::smooth_activation},
    {"torch", "softmax", torch::softmax},
    {"torch", "norm", torch::norm},
    {"torch", "embedding", torch::embedding},
    {"torch", "embedding_bag", torch::embedding_bag},
    {"torch", "loss", torch::loss},
    {"torch", "dropout", torch::dropout},
    {"torch", "attention", torch::attention},
    {"torch", "channel_norm", torch::channel_norm},
    {"torch", "group_norm", torch::group_norm},
    {"torch", "conv", torch::conv},
    {"torch", "pool", torch::pool},
    {"torch", "patches", torch::patches},
    {"torch", "resample", torch::resample},
    {"torch", "pointwise_loss", torch::pointwise_loss},
    {"torch", "distance", torch::distance},
    {"torch", "contraction", torch::contraction},
    {"torch", "complex", torch::complex},
    {"torch", "linalg", torch::linalg},
    {"torch", "distributed", torch::distributed},
    {"torch", "unary", torch::unary},
    {"torch", "binary", torch::binary},
    {"torch", "comparison", torch::comparison},
    {"torch", "ternary", torch::ternary},
    {"torch", "dtype", torch::dtype},
    {"torch", "reduction", torch::reduction},
    {"torch", "scan", torch::scan},
    {"torch", "creation", torch::creation},
    {"torch", "random", torch::random},

    {"numpy", "elementwise", numpy::elementwise},
    {"numpy", "reduction", numpy::reduction},
    {"numpy", "shape", numpy::shape},
    {"numpy", "index", numpy::index},
    {"numpy", "linalg", numpy::linalg},
    {"numpy", "creation", numpy::creation},
};

}  // namespace

std::span<const Family> families() { return kFamilies; }

void register_all() {
  static std::once_flag once;
  std::call_once(once, [] {
    for (const Family& f : kFamilies)
      for (const OpDef& def : f.records()) Registry::instance().add(f.level, def);
  });
}

}  // namespace thunder::ops
