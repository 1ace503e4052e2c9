// Recurrent layers by PyTorch's operators for cuDNN (prims.recurrent and its backward).
//
// cuDNN reads all weights from one buffer.  nn.LSTM, nn.GRU and nn.RNN keep their parameters in one: weights that lie
// where cuDNN expects them are read there, and others, of autocast say, are copied into a new buffer.
#pragma once

#include "executors/aten/own_functions.h"

namespace thunder::aten {

c10::IValue recurrent(const FunctionArgs& a);
c10::IValue recurrent_backward(const FunctionArgs& a);

}  // namespace thunder::aten
