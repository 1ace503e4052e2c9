"""Attention of one query a head under a mask on NVIDIA GPUs: tokens that are generated with a static cache."""

from thunder import _C

decoding_ex = ex = _C.find_executor("decoding")
