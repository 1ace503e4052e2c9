// Gradients of random programs: autodiff and split against finite differences and against each other.
#include <cmath>

#include "core/error.h"
#include "core/parse.h"
#include "core/verify.h"
#include "fuzz/checks.h"

namespace thunder::fuzz {

using reference::Array;
using reference::ArrayPtr;
using reference::Datum;
using reference::Element;

namespace {

constexpr double kStep = 1e-4;

// Real numbers all the way: a difference quotient of rounded numbers says nothing.
reference::EvaluatorOptions unrounded() {
  reference::EvaluatorOptions o;
  o.rounding = reference::Rounding::None;
  return o;
}

Datum random_like(const TensorType& t, const std::vector<int64_t>& shape, Random& random) {
  ArrayPtr a = reference::make_array(t.dtype, t.device, shape);
  for (Element& e : a->data) e = {0, random.uniform(-1, 1), is_complex(t.dtype) ? random.uniform(-1, 1) : 0};
  return Datum(a);
}

// The real part of the inner product of two tensors.
double inner(const Array& a, const Array& b) {
  double total = 0;
  for (size_t k = 0; k < a.data.size(); ++k) total += a.data[k].re * b.data[k].re + a.data[k].im * b.data[k].im;
  return total;
}

double inner_magnitude(const Array& a, const Array& b) {
  double total = 0;
  for (size_t k = 0; k < a.data.size(); ++k)
    total += std::fabs(a.data[k].re * b.data[k].re) + std::fabs(a.data[k].im * b.data[k].im);
  return total;
}

std::vector<Datum> moved(const std::vector<Datum>& inputs, const std::vector<Datum>& direction, double h) {
  std::vector<Datum> out;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!direction[i].is_tensor()) {
      out.push_back(inputs[i]);
      continue;
    }
    auto a = std::make_shared<Array>(*inputs[i].array);
    for (size_t k = 0; k < a->data.size(); ++k) {
      a->data[k].re += h * direction[i].array->data[k].re;
      a->data[k].im += h * direction[i].array->data[k].im;
    }
    out.push_back(Datum(a));
  }
  return out;
}

class GradientChecker {
 public:
  GradientChecker(const Program& program, const Passes& passes, GradientStatistics& statistics)
      : program_(program), passes_(passes), statistics_(statistics), random_(program.seed ^ 0xABCDEF) {}

  std::vector<std::string> run() {
    try {
      check();
    } catch (const reference::Undefined&) {
    } catch (const std::exception& e) {
      found(e.what());
    }
    return std::move(findings_);
  }

 private:
  void found(const std::string& what) {
    findings_.push_back(cat("seed ", program_.seed, ", gradients: ", what, "\n", thunder::print(program_.trace)));
  }

  void expect_same(const char* what, const Datum& a, const Datum& b, const Trace& t) {
    std::string why;
    if (!same_datum(a, b, &why)) found(cat(what, ": ", why, "\n", thunder::print(t)));
  }

  Datum evaluate(const Trace& t, const std::vector<Datum>& inputs) {
    return reference::evaluate(t, inputs, unrounded());
  }

  void check() {
    std::vector<Datum> inputs = program_.fresh_inputs();
    Datum original = evaluate(program_.trace, inputs);
    JointTrace joint = passes_.autodiff(program_.trace);
    if (joint.differentiable_outputs.empty()) {
      ++statistics_.without;
      return;
    }
    verify(joint.trace);
    std::string why;
    if (!structurally_equal(joint.trace, parse(passes_.print(joint.trace), python_context(joint.trace)), &why))
      found("the joint trace parses to another: " + why);
    std::vector<Datum> all = inputs;
    for (size_t i : joint.differentiable_outputs) {
      cotangents_.push_back(random_like(joint.outputs()[i].value().tensor(), original.items[i].array->shape, random_));
      all.push_back(cotangents_.back());
    }
    Datum result = evaluate(joint.trace, all);
    expect_same("the joint trace gives other outputs", original, result.items[0], joint.trace);
    for (const Trace& t :
         {passes_.dce(joint.trace), passes_.cse(joint.trace), thunder::cse(joint.trace, joint.forward_calls)}) {
      verify(t);
      expect_same("the joint trace gives something else after a pass", result, evaluate(t, all), t);
    }
    for (bool aggressive : {false, true})
      check_split(joint, SplitOptions{aggressive}, inputs, original, result.items[1]);
    compare_with_differences(joint, inputs, all);
  }

  void check_split(const JointTrace& joint, const SplitOptions& options, const std::vector<Datum>& inputs,
                   const Datum& original, const Datum& gradients) {
    ForwardBackward fb = passes_.split(joint, options);
    verify(fb.forward);
    verify(fb.backward);
    for (const Trace* t : {&fb.forward, &fb.backward}) {
      std::string why;
      if (!structurally_equal(*t, parse(passes_.print(*t), python_context(*t)), &why))
        found(t->name + " parses to another trace: " + why);
    }
    // ({'output': ..., 'flat_args': ..., 'flat_output': outputs}, (tensors, numbers)); a dict is its keys and values in
    // turn.
    Datum forward = evaluate(passes_.delete_last_used(fb.forward), inputs);
    expect_same("forward gives other outputs", original, forward.items.at(0).items.at(5), fb.forward);
    std::vector<Datum> arguments = leaves(forward.items.at(1));
    arguments.insert(arguments.end(), cotangents_.begin(), cotangents_.end());
    expect_same("backward gives other gradients than the joint trace", gradients,
                evaluate(passes_.delete_last_used(fb.backward), arguments), fb.backward);
  }

  // ---- finite differences -------------------------------------------------------------------------------------------

  double loss(const JointTrace& joint, const std::vector<Datum>& inputs) {
    Datum outputs = evaluate(program_.trace, inputs);
    double total = 0;
    for (size_t i = 0; i < cotangents_.size(); ++i)
      total += inner(*outputs.items[joint.differentiable_outputs[i]].array, *cotangents_[i].array);
    return total;
  }

  enum class Verdict { Agree, Differ, Rough };

  Verdict compare_at(const JointTrace& joint, const std::vector<Datum>& inputs, const std::vector<Datum>& direction,
                     std::string& text) {
    std::vector<Datum> all = inputs;
    all.insert(all.end(), cotangents_.begin(), cotangents_.end());
    Datum gradients = evaluate(joint.trace, all).items[1];
    double exact = 0, scale = 1;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!direction[i].is_tensor() || !gradients.items[i].is_tensor()) continue;
      exact += inner(*gradients.items[i].array, *direction[i].array);
      scale += inner_magnitude(*gradients.items[i].array, *direction[i].array);
    }
    auto quotient = [&](double h) {
      return (loss(joint, moved(inputs, direction, h)) - loss(joint, moved(inputs, direction, -h))) / (2 * h);
    };
    double coarse = quotient(kStep), fine = quotient(kStep / 4);
    scale += std::fabs(fine) + 1e-4 * std::fabs(loss(joint, inputs));
    if (!std::isfinite(exact) || !std::isfinite(coarse) || !std::isfinite(fine)) return Verdict::Rough;
    if (std::fabs(coarse - fine) > 1e-4 * scale) return Verdict::Rough;
    if (std::fabs(fine - exact) <= 1e-4 * scale) return Verdict::Agree;
    text = cat("the gradient along a direction is ", exact, ", its difference quotients are ", coarse, " and ", fine,
               "\n", thunder::print(joint.trace));
    return Verdict::Differ;
  }

  // A kink (the maximum of two equal numbers) is no error: what differs must differ at points nearby, too.
  void compare_with_differences(const JointTrace& joint, std::vector<Datum> inputs, const std::vector<Datum>&) {
    int differ = 0;
    std::string text;
    for (int attempt = 0; attempt < 3; ++attempt) {
      std::vector<Datum> direction;
      for (size_t i = 0; i < inputs.size(); ++i) {
        Value v = joint.trace.inputs[i];
        direction.push_back(v.requires_grad() ? random_like(v.tensor(), inputs[i].array->shape, random_) : Datum());
      }
      Verdict verdict = compare_at(joint, inputs, direction, text);
      if (verdict == Verdict::Agree) {
        ++statistics_.compared;
        return;
      }
      differ += verdict == Verdict::Differ;
      inputs = moved(inputs, direction, 0.01);
    }
    if (differ < 3) ++statistics_.rough;
    else found(text);
  }

  const Program& program_;
  const Passes& passes_;
  GradientStatistics& statistics_;
  Random random_;
  std::vector<Datum> cotangents_;
  std::vector<std::string> findings_;
};

}  // namespace

std::vector<std::string> check_gradients(const Program& program, const Passes& passes, GradientStatistics& statistics) {
  ShapeEnv::Scope scope(*program.environment);
  return GradientChecker(program, passes, statistics).run();
}

}  // namespace thunder::fuzz
