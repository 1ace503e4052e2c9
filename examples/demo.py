"""What `make demo` shows."""

import torch

import thunder

print(f"thunder {thunder.__version__} with PyTorch {torch.__version__}: {thunder._C.__doc__}")
