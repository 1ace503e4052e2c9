#!/bin/sh
# The suite on a GPU: results, gradients and layouts against eager, PyTorch's operator samples, litgpt's architectures.
# Arguments go to pytest; THUNDER_SAMPLES=3 for fewer samples of each operator.
here=$(dirname "$0")
exec "${PYTHON:-python3}" -m pytest --device cuda -q -p no:cacheprovider "$here/test_cuda_attention.py" "$here/test_cuda_trained_masks.py" "$here/test_cuda_batched_products.py" "$here/test_cuda_fuser.py" \
  "$here"/test_cuda_graphs*.py "$here/test_cuda_matmul.py" "$here/test_cuda_rows.py" "$here/test_row_sums.py" "$here/test_fused_random.py" \
  "$here"/test_float8*.py \
  "$here/test_gradient_accumulation.py" "$here"/test_jit*.py "$here/test_litgpt.py" "$here/test_ops.py" "$@"
