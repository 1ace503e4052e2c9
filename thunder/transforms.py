"""Transforms that come with Thunder, for `thunder.jit(..., transforms=[...])`."""

import contextlib
import gc
import weakref

import torch

__all__ = ["CUDAGraphTransform"]


class CUDAGraphTransform:
    """Runs whole programs as CUDA graphs: one launch for the forward, one for the backward.

        model = thunder.jit(model, transforms=[thunder.transforms.CUDAGraphTransform()])

    It pays where kernels are so short that the host cannot issue them fast enough: small batches, token by token
    generation. Results, gradients and random numbers are those of the same program without it.

    The first call of each program (each combination of shapes, dtypes and grad mode) runs as usual, the second is
    recorded, later ones are replayed. Arguments are copied into the graph's memory and outputs out of it. Parameters
    and buffers are read where they lie; when one is moved (`param.data = ...`), the program is recorded again.

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

    `thunder.compile_stats(f)["graphs"]` counts what happened: {"captures", "replays", "ungraphed"}.
    """

    def graph_recorder(self):
        """What records the programs of one compiled function; csrc/runtime/graph_recording.h says what it must have."""
        return _Recorder()

    def __repr__(self):
        return "CUDAGraphTransform()"


class _Recorder:
    """Records with torch.cuda.CUDAGraph, on streams and in memory pools of its own."""

    device = "cuda"
    warm_up = True  # loads kernels and makes the libraries' handles, which a capture does not allow

    def __init__(self):
        self._streams = {}  # by device and stream: one to record on, since the default stream cannot be recorded
        self._shared = {}  # the same: a pool, and the graphs that lie in it

    @staticmethod
    def capturing():
        return torch.cuda.is_current_stream_capturing()

    def record(self, run, index, shared):
        with torch.cuda.device(index):
            current = torch.cuda.current_stream()
            key = (index, current.cuda_stream)
            if key not in self._streams:
                self._streams[key] = torch.cuda.Stream()
            pool = self._shared_pool(key) if shared else torch.cuda.graph_pool_handle()
            graph = torch.cuda.CUDAGraph()
            torch.cuda.synchronize()
            try:
                self._capture(graph, run, index, pool, self._streams[key])
            except BaseException:
                self._shared.pop(key, None)
                raise
            current.wait_stream(self._streams[key])
            if shared:
                self._shared[key][1].add(graph)
        return graph.replay

    def _shared_pool(self, key):
        # PyTorch gives up a pool with the last graph in it.
        if key not in self._shared or not self._shared[key][1]:
            self._shared[key] = torch.cuda.graph_pool_handle(), weakref.WeakSet()
        return self._shared[key][0]

    @staticmethod
    def _capture(graph, run, index, pool, stream):
        with _no_garbage_collection(), torch.cuda.stream(stream):
            # cuBLAS's handle belongs to a thread, and the warm-up may have been another's.
            torch.cuda.current_blas_handle()
            # Not "global": other threads may allocate memory meanwhile.
            graph.capture_begin(pool=pool, capture_error_mode="thread_local")
            try:
                run()
            except BaseException:
                with contextlib.suppress(RuntimeError):
                    _end(graph, index, pool)
                raise
            _end(graph, index, pool)


@contextlib.contextmanager
def _no_garbage_collection():
    # What it frees (another graph, an event) may not be freed during a capture.
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _end(graph, index, pool):
    try:
        graph.capture_end()
    except RuntimeError:
        # The capture was broken off, by a call that waits for the GPU; PyTorch leaves its state as it is then.
        with contextlib.suppress(RuntimeError):
            torch._C._cuda_endAllocateToPool(index, pool)
            torch._C._cuda_releasePool(index, pool)
        _repair_generator(index)
        raise


def _repair_generator(index):
    """Releases of PyTorch before 2.12 may leave the device's generator in a state that only a capture can use."""
    generator = torch.cuda.default_generators[index]
    with contextlib.suppress(RuntimeError):
        offset = generator.get_offset()
        try:
            torch.empty(1, device=f"cuda:{index}").uniform_()
        except RuntimeError:
            generator.graphsafe_set_state(generator.clone_state())
        generator.set_offset(offset)
