// Recurrent layers by PyTorch's operators for cuDNN (prims.recurrent and its backward).
//
// cuDNN reads all weights from one buffer.  nn.LSTM, nn.GRU and nn.RNN keep their parameters in one: weights that lie
// where cuDNN expects them are read there, and others, of autocast say, are copied into a new buffer.
#pragma once

#include "executors/aten/kernels.h"

namespace thunder::aten {

c10::IValue recurrent(const KernelArgs& a);
c10::IValue recurrent_backward(const KernelArgs& a);

}  // namespace thunder::aten
