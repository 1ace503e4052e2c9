// Arguments of normalisations, embeddings, losses, attention, and of gradients that have the shape of their input.
#include "fuzz/makers.h"

namespace thunder::fuzz {
namespace {

using Shape = Draw::Shape;

// Statistics and weights of losses, through which PyTorch gives no gradient.
Value positive(Draw& d, Shape shape, DType t) {
  return d.tensor({.dtype = t, .shape = std::move(shape), .values = Domain{0.2, 2}, .constant = true});
}

Arg maybe(Draw& d, Value v) { return d.random.chance(0.6) ? Arg(v) : Arg(); }

Arg output_mask(Draw& d) { return Arg::list({true, d.random.chance(0.7), d.random.chance(0.7)}); }

// ---- layer norm -----------------------------------------------------------------------------------------------------

Made layer_norm(Draw& d) {
  Value x = floats(d, d.shape(1, 3));
  Shape s = Draw::shape_of(x), normalized(s.begin() + d.random.below(static_cast<int64_t>(s.size())), s.end());
  Shape outer(s.begin(), s.end() - static_cast<long>(normalized.size()));
  for (size_t i = 0; i < normalized.size(); ++i) outer.push_back(1);
  Arg weight = maybe(d, floats(d, normalized, x.dtype())), bias = maybe(d, floats(d, normalized, x.dtype()));
  return Named{{"input", x},
               {"normalized_shape", Arg(normalized)},
               {"weight", weight},
               {"bias", bias},
               {"eps", 0.1},
               {"grad_out", floats(d, s, x.dtype())},
               {"mean", floats(d, outer, x.dtype())},
               {"rstd", positive(d, outer, x.dtype())},
               {"output_mask", Arg::list({true, !weight.is_none(), !bias.is_none()})}};
}

// ---- channels -------------------------------------------------------------------------------------------------------

Made batch_norm(Draw& d) {
  // Statistics of an instance need more than one place each.
  bool instance = d.op.schema.name.starts_with("instance_norm");
  Shape s = {d.random.between(2, 3), d.random.between(1, 3), d.random.between(instance ? 2 : 1, 3)};
  if (!instance && d.random.chance(0.3)) s.pop_back();
  Value x = floats(d, s);
  DType t = x.dtype();
  Shape c = {s[1]};
  bool train = d.random.chance(0.5);
  bool no_statistics = d.op.schema.name != "_native_batch_norm_legit_functional" && train && d.random.chance(0.3);
  if (d.op.schema.name == "instance_norm") no_statistics = train;
  Arg mean = no_statistics ? Arg() : Arg(positive(d, c, t)), var = no_statistics ? Arg() : Arg(positive(d, c, t));
  return Named{{"input", x},
               {"weight", maybe(d, floats(d, c, t))},
               {"bias", maybe(d, floats(d, c, t))},
               {"running_mean", mean},
               {"running_var", var},
               {"training", train},
               {"use_input_stats", train},
               {"train", train},
               {"eps", 0.1},
               {"momentum", 0.1},
               {"grad_out", floats(d, s, t)},
               {"save_mean", floats(d, c, t)},
               {"save_invstd", positive(d, c, t)},
               {"output_mask", output_mask(d)}};
}

Made group_norm(Draw& d) {
  int64_t groups = d.random.between(1, 2), channels = groups * d.random.between(1, 2), n = d.random.between(1, 2),
          inner = d.random.between(1, 3);
  Shape s = {n, channels, inner};
  Value x = floats(d, s);
  DType t = x.dtype();
  return Named{{"input", x},
               {"num_groups", groups},
               {"group", groups},
               {"N", n},
               {"C", channels},
               {"HxW", inner},
               {"eps", 0.1},
               {"weight", maybe(d, floats(d, {channels}, t))},
               {"bias", maybe(d, floats(d, {channels}, t))},
               {"grad_out", floats(d, s, t)},
               {"mean", floats(d, {n, groups}, t)},
               {"rstd", positive(d, {n, groups}, t)},
               {"output_mask", output_mask(d)}};
}

// ---- embedding and losses -------------------------------------------------------------------------------------------

Made embedding(Draw& d) {
  int64_t rows = d.random.between(1, 4), width = d.random.between(1, 3);
  Value weight = floats(d, {rows, width}), indices = d.indices(d.shape(0, 2), rows);
  bool functional = d.op.schema.overload == "functional";
  Shape g = Draw::shape_of(indices);
  g.push_back(width);
  // No gradient flows to the padding's row.
  Arg no_padding = functional ? Arg() : Arg(-1);
  if (!d.smooth() && d.random.chance(0.5)) no_padding = d.random.below(rows);
  Named m = {{"weight", weight},          {functional ? "input" : "indices", indices},
             {"padding_idx", no_padding}, {"max_norm", d.op.schema.name == "embedding_renorm" ? Arg(1.0) : Arg()},
             {"norm_type", 2.0},          {"scale_grad_by_freq", false},
             {"sparse", false},           {"num_weights", rows}};
  if (d.op.schema.name == "embedding_backward") m["grad"] = floats(d, g, weight.dtype());
  return m;
}

Made pairs(Draw& d) {
  const int64_t n = d.random.between(1, 4), width = d.random.between(1, 4);
  const Value x = floats(d, {n, width});
  return Named{{"input1", x},
               {"input2", floats(d, {n, width}, x.dtype())},
               {"target", floats(d, {n}, x.dtype())},
               {"reduction", d.random.between(0, 2)}};
}

Made classification(Draw& d) {
  int64_t n = d.random.between(1, 4), classes = d.random.between(1, 4);
  bool planes = d.op.schema.name.find("2d") != std::string::npos ||
                (d.op.schema.params[0].name == "input" && d.random.chance(0.3));
  Shape x = {n, classes}, t = {n};
  if (planes) {
    x.insert(x.end(), {2, 2});
    t.insert(t.end(), {2, 2});
  }
  Value input = floats(d, x), target = d.indices(t, classes);
  DType type = input.dtype();
  int64_t reduction = d.random.between(0, 2);
  Named m = {{"input", input},
             {"self", input},
             {"target", target},
             {"weight", maybe(d, positive(d, {classes}, type))},
             {"size_average", nullptr},
             {"reduce", nullptr},
             {"ignore_index", d.random.chance(0.7) ? -100 : 0},
             {"total_weight", positive(d, {}, type)}};
  if (d.op.schema.index_of("grad_output") >= 0) m["grad_output"] = floats(d, reduction == 0 ? t : Shape{}, type);
  const Param& p = d.op.schema.params.at(static_cast<size_t>(d.op.schema.index_of("reduction")));
  if (p.kind == Param::Kind::Int) m["reduction"] = reduction;
  return m;
}

Made probabilities_loss(Draw& d) {
  DType t = d.float_type();
  Shape s = d.shape();
  auto inside = [&] { return d.tensor({.dtype = t, .shape = s, .values = Domain{0.1, 0.9}}); };
  int64_t reduction = d.random.between(0, 2);
  Named m = {
      {"input", inside()},       {"self", inside()},   {"target", inside()},    {"weight", maybe(d, positive(d, s, t))},
      {"size_average", nullptr}, {"reduce", nullptr},  {"pos_weight", nullptr}, {"log_target", false},
      {"input1", inside()},      {"input2", inside()}, {"beta", 0.5},           {"delta", 0.7}};
  if (d.op.schema.name == "mse_loss" || d.op.schema.name == "huber_loss") m["weight"] = nullptr;
  if (d.op.schema.index_of("grad_output") >= 0) m["grad_output"] = floats(d, reduction == 0 ? s : Shape{}, t);
  const Param& p = d.op.schema.params.at(static_cast<size_t>(d.op.schema.index_of("reduction")));
  if (p.kind == Param::Kind::Int) m["reduction"] = reduction;
  return m;
}

Made attention(Draw& d) {
  int64_t batch = d.random.between(1, 2), heads = d.random.between(1, 2), q = d.random.between(1, 3),
          k = d.random.between(1, 3), e = d.random.between(1, 3);
  DType t = d.float_type();
  Value query = floats(d, {batch, heads, q, e}, t);
  bool causal = d.random.chance(0.3);
  return Named{{"query", query},
               {"key", floats(d, {batch, heads, k, e}, t)},
               {"value", floats(d, {batch, heads, k, e}, t)},
               {"attn_mask", causal || d.random.chance(0.5) ? Arg() : Arg(floats(d, {q, k}, t))},
               {"dropout_p", d.random.chance(0.8) || d.smooth() ? 0.0 : 0.5},
               {"is_causal", causal},
               {"left", d.random.between(-1, 1)},
               {"right", d.random.chance(0.5) ? -1 : 2},  // so that each row sees a column
               {"scale", d.random.chance(0.5) ? Arg() : Arg(0.5)},
               {"enable_gqa", false}};
}

// ---- the rest -------------------------------------------------------------------------------------------------------

// All tensors of one shape and floating dtype; the rest from the schema.
Made alike(Draw& d) {
  Value x = floats(d, d.shape());
  Named m;
  for (const Param& p : d.op.schema.params)
    if (p.kind == Param::Kind::Tensor && !p.list) m[p.name] = m.empty() ? x : d.like(x);
  if (d.op.schema.name == "native_dropout_backward") m["mask"] = d.mask(Draw::shape_of(x));
  m["input_dtype"] = x.dtype();
  if (x.rank() == 0) m["dim"] = 0;
  return m;
}

Made halves(Draw& d) {
  Shape s = d.shape(1, 3);
  int64_t dim = d.random.below(static_cast<int64_t>(s.size()));
  s[static_cast<size_t>(dim)] = 2 * d.random.between(1, 2);
  Value x = floats(d, s);
  s[static_cast<size_t>(dim)] /= 2;
  return Named{{"input", x}, {"self", x}, {"dim", dim}, {"grad_output", floats(d, s, x.dtype())}};
}

Made prelu(Draw& d) {
  Value x = floats(d, d.shape(2, 4));
  return Named{{"input", x}, {"weight", floats(d, {d.random.chance(0.5) ? 1 : Draw::size(x, 1)}, x.dtype())}};
}

Made one_float(Draw& d) { return Named{{param(d, 0), floats(d, d.shape())}}; }
Made with_channels(Draw& d) { return Named{{param(d, 0), floats(d, d.shape(2, 4))}}; }

Made complex_or_float(Draw& d) {
  Value x = floats(d, d.shape(1, 3));
  return Named{{param(d, 0), x}, {param(d, 1), d.like(x)}, {"dim", d.random.below(x.rank())}};
}

Made norm(Draw& d) {
  static const std::vector<Arg> orders = {"fro", 2.0, 1.0, 3.0};
  return Named{{"input", floats(d, d.shape(0, 3))},
               {"p", d.random.pick(orders)},
               {"ord", d.random.pick(std::vector<Arg>{2.0, 1.0, 3.0})}};
}

Made type_name(Draw& d) {
  static const std::vector<const char*> names = {"torch.FloatTensor", "torch.DoubleTensor", "torch.LongTensor"};
  return Named{{"dtype", d.random.pick(names)}};
}

}  // namespace

void add_nn_makers(Makers& m) {
  m.insert({{"torch.layer_norm", layer_norm},
            {"torch.layer_norm.torch", layer_norm},
            {"torch.native_layer_norm", layer_norm},
            {"torch.native_layer_norm_backward", layer_norm},
            {"torch.rms_norm", layer_norm},
            {"torch.batch_norm_functional", batch_norm},
            {"torch.native_batch_norm", batch_norm},
            {"torch.native_batch_norm_functional", batch_norm},
            {"torch._native_batch_norm_legit_functional", batch_norm},
            {"torch.native_batch_norm_backward", batch_norm},
            {"torch.instance_norm", batch_norm},
            {"torch.instance_norm_functional", batch_norm},
            {"torch.group_norm", group_norm},
            {"torch.native_group_norm", group_norm},
            {"torch.native_group_norm_backward", group_norm},
            {"torch.group_norm_as_laid_out", group_norm},
            {"torch.group_norm_as_laid_out_backward", group_norm}});
  m.insert({{"torch.embedding", embedding},
            {"torch.embedding.functional", embedding},
            {"torch.embedding_backward", embedding},
            {"torch.embedding_renorm", embedding},
            {"torch.cosine_embedding_loss", pairs},
            {"torch.cross_entropy", classification},
            {"torch.nll_loss", classification},
            {"torch.nll_loss_forward", classification},
            {"torch.nll_loss_backward", classification},
            {"torch.nll_loss2d_forward", classification},
            {"torch.nll_loss2d_backward", classification},
            {"torch.scaled_dot_product_attention", attention},
            {"torch.windowed_attention", attention}});
  for (const char* loss :
       {"mse_loss", "_mse_loss", "mse_loss_backward", "l1_loss", "smooth_l1_loss", "_smooth_l1_loss",
        "smooth_l1_loss_backward", "huber_loss", "_huber_loss", "huber_loss_backward", "binary_cross_entropy",
        "_binary_cross_entropy", "binary_cross_entropy_backward", "binary_cross_entropy_with_logits", "kl_div",
        "soft_margin_loss", "margin_ranking_loss", "hinge_embedding_loss"})
    m[std::string("torch.") + loss] = probabilities_loss;
  for (const char* gradient :
       {"threshold", "hardtanh", "hardsigmoid", "hardswish", "leaky_relu", "softshrink", "hardshrink", "gelu", "silu",
        "mish", "elu", "softplus", "log_sigmoid", "native_dropout", "tanh", "sigmoid", "cumprod"})
    m[std::string("torch.") + gradient + "_backward"] = alike;
  m.insert({{"torch._softmax_backward_data", alike},
            {"torch._log_softmax_backward_data", alike},
            {"torch.glu", halves},
            {"torch.glu_backward", halves},
            {"torch.prelu", prelu},
            {"torch.native_dropout", one_float},
            {"torch.dropout", one_float},
            {"torch.dropout.torch", one_float},
            {"torch.alpha_dropout", one_float},
            {"torch.feature_dropout", with_channels},
            {"torch.dropout1d", with_channels},
            {"torch.dropout2d", with_channels},
            {"torch.dropout3d", with_channels},
            {"torch.normalize", with_channels},
            {"torch.cosine_similarity", complex_or_float},
            {"torch.norm", norm},
            {"torch.vector_norm", norm},
            {"torch.type.name", type_name},
            {"prims.bernoulli_like", one_float},
            {"prims.dropout_mask_like", one_float}});
}

}  // namespace thunder::fuzz
