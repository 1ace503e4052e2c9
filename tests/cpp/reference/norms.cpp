// Gradients of normalisations, from their definition.
#include "reference/evaluator.h"

namespace thunder::reference {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

// Elements that share statistics, and those that share weight and bias.
struct Groups {
  std::vector<size_t> statistic, channel;
  size_t statistics = 0, channels = 0;
};

struct Gradients {
  std::vector<double> x, weight, bias;
};

// y = (x - mean) * rstd * w + b, of which the statistics depend on x.
Gradients normalisation_gradients(const Array& g, const Array& x, const Groups& groups, const std::vector<double>& mean,
                                  const std::vector<double>& rstd, const std::vector<double>& weight) {
  size_t n = x.data.size();
  Gradients out{std::vector<double>(n), std::vector<double>(groups.channels), std::vector<double>(groups.channels)};
  std::vector<double> sum(groups.statistics), product(groups.statistics), members(groups.statistics), normal(n),
      inner(n);
  for (size_t k = 0; k < n; ++k) {
    size_t s = groups.statistic[k], c = groups.channel[k];
    normal[k] = (x.data[k].re - mean[s]) * rstd[s];
    inner[k] = g.data[k].re * weight[c];
    sum[s] += inner[k];
    product[s] += inner[k] * normal[k];
    members[s] += 1;
    out.weight[c] += g.data[k].re * normal[k];
    out.bias[c] += g.data[k].re;
  }
  for (size_t k = 0; k < n; ++k) {
    size_t s = groups.statistic[k];
    const double correction = (sum[s] + normal[k] * product[s]) / members[s];
    out.x[k] = rstd[s] * (inner[k] - correction);
  }
  return out;
}

std::vector<double> reals(const Inputs& in, std::string_view name, size_t n, double otherwise) {
  std::vector<double> out(n, otherwise);
  if (in.has(name))
    for (size_t k = 0; k < n; ++k) out[k] = in.tensor(name).data.at(k).re;
  return out;
}

Datum masked(const Inputs& in, const Array& x, const Gradients& g) {
  std::vector<Datum> results(3);
  const std::vector<Datum>& mask = in["output_mask"].items;
  auto stored_as = [&](const std::vector<double>& values, DType t, Shape shape) {
    ArrayPtr out = make_array(t, x.device, std::move(shape));
    for (size_t k = 0; k < values.size(); ++k) out->data[k] = in.store(t, Element::real(values[k]));
    return Datum(out);
  };
  DType t = in.has("weight") ? in.tensor("weight").dtype : x.dtype;
  Shape channels = {static_cast<int64_t>(g.weight.size())};
  if (mask.at(0).truth()) results[0] = stored_as(g.x, x.dtype, x.shape);
  if (mask.at(1).truth()) results[1] = stored_as(g.weight, t, channels);
  if (mask.at(2).truth()) results[2] = stored_as(g.bias, t, channels);
  return Datum::sequence(std::move(results));
}

Datum group_norm_backward(const Inputs& in) {
  const Array &g = in.tensor("grad_out"), &x = in.tensor("input");
  int64_t channels = in.integer("C"), group = in.integer("group"), inner = in.integer("HxW");
  Groups groups;
  groups.channels = at(channels);
  groups.statistics = at(in.integer("N") * group);
  for (int64_t k = 0; k < x.numel(); ++k) {
    int64_t sample = k / (channels * inner), channel = k / inner % channels;
    groups.channel.push_back(at(channel));
    groups.statistic.push_back(at(sample * group + channel / (channels / group)));
  }
  return masked(
      in, x,
      normalisation_gradients(g, x, groups, reals(in, "mean", groups.statistics, 0),
                              reals(in, "rstd", groups.statistics, 1), reals(in, "weight", groups.channels, 1)));
}

}  // namespace

void add_norms(Kernels& k) { k["torch.native_group_norm_backward"] = group_norm_backward; }

}  // namespace thunder::reference
