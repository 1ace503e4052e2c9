"""Transforms that come with Thunder, for `thunder.jit(..., transforms=[...])`."""

from . import _graphs
from ._float8 import Float8

__all__ = ["CUDAGraphTransform", "Float8"]


class CUDAGraphTransform:
    """Runs whole programs as CUDA graphs: one launch for the forward, one for the backward.

        model = thunder.jit(model, transforms=[thunder.transforms.CUDAGraphTransform()])
        model = thunder.jit(model, graphs=True)  # the same

    Every program that can be recorded is, where the default, `graphs="auto"`, chooses those for which it pays. It pays
    where kernels are so short that the host cannot issue them fast enough: small batches, token by token generation.
    Results, gradients and random numbers are those of the same program without it.

    The first call of each program (each combination of shapes, dtypes and grad mode) runs as usual, the second is
    recorded, later ones are replayed. Arguments are copied into the graph's memory and outputs out of it. Parameters
    and buffers, and arguments that are large or written to and lay in one place before, are read where they lie; when
    one is moved (`param.data = ...`), the program is recorded again.

    What is saved for the backward stays in the graph's memory until the backward has run, and gradients until nobody
    holds them any more. While a graph is busy, a call is recorded a second time (a program has at most 4 forwards, each
    with 2 backwards, at a time) or runs without a graph. So does a call under
    `torch.autograd.graph.saved_tensors_hooks`, under a torch dispatch mode, or while somebody else records a graph; a
    graph belongs to the stream on which it was recorded.

    A program that cannot be recorded gives one RuntimeWarning that says why, and runs without a graph: one that reads
    or gives tensors on the CPU, whose sizes depend on data, in which the host waits for a result (`.item()`), that
    calls operators written in Python, or that works on several GPUs.

    Costs and limits:
        - Memory of a recorded program is not given back between calls: what the backward needs, and the gradients,
          stay allocated for each recording.
        - A gradient is memory of the graph. Do not drop it while another stream still reads it:
          `Tensor.record_stream` does not keep it from being overwritten.

    `thunder.compile_stats(f)["graphs"]` says what happened.
    """

    def graph_recorder(self):
        """What records the programs of one compiled function; csrc/runtime/graph_recording.h says what it must have."""
        return _graphs.Recorder()

    def __repr__(self):
        return "CUDAGraphTransform()"
