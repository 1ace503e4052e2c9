// The tracer's parts up to those that a test needs, each made with the parts before it and with nothing else.
#pragma once

#include "fake_torch.h"
#include "frontend/acquisition.h"
#include "frontend/constants.h"
#include "frontend/inputs.h"
#include "frontend/layouts.h"
#include "frontend/proxies.h"
#include "frontend/python_draws.h"
#include "frontend/tensors.h"
#include "frontend/value_questions.h"

namespace thunder::frontend::test {

struct UpToProxies {
  FakeTorch torch;
  Acquisition acquisition;
  Layouts layouts{acquisition};
  Proxies proxies{acquisition, layouts};
  Builder& b = acquisition.builder();
};

struct UpToTensors : UpToProxies {
  Inputs inputs{acquisition};
  Tensors tensors{acquisition, proxies, inputs, {}, {}};
  size_t arguments = 0;

  /// The proxy of a new argument.
  Ref argument(const Dims& shape, DType dtype = DType::f32, bool requires_grad = false) {
    return tensors.add_argument(tensor(shape, dtype, requires_grad).get(), arguments++);
  }
  Value value(const Ref& proxy) { return tensors.value_of(proxy.get()); }
};

struct UpToQuestions : UpToTensors {
  ValueQuestions questions{acquisition, inputs, tensors};
};

/// The same of a rule, which records into the builder of another program.
struct UpToQuestionsOfRule {
  FakeTorch torch;
  Acquisition owner;
  Acquisition acquisition{owner.builder(), false};
  Layouts layouts{acquisition};
  Proxies proxies{acquisition, layouts};
  Inputs inputs{acquisition};
  Tensors tensors{acquisition, proxies, inputs, {}, {}};
  ValueQuestions questions{acquisition, inputs, tensors};
};

struct UpToDraws : UpToQuestions {
  PythonDraws draws{acquisition, proxies, tensors, questions};
};

struct UpToConstants : UpToDraws {
  Constants constants{acquisition, tensors, questions};
};

}  // namespace thunder::frontend::test
