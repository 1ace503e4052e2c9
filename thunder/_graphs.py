"""Who records programs as CUDA graphs, and whether one does so without being asked."""

import contextlib
import gc
import os
import threading
import weakref

import torch

from . import _C


def recorder(graphs):
    """Of the option `graphs`: the recorder or None, and whether the recorder decides by itself."""
    if graphs == "auto":
        return automatic_recorder(), True
    return Recorder() if graphs else None, False


_automatic = None


def automatic_recorder():
    """One for all functions: its streams, and the libraries' workspaces for these, are there once."""
    global _automatic
    if _automatic is None:
        _automatic = Recorder()
    return _automatic


class Recorder:
    """Records with torch.cuda.CUDAGraph, on streams and in memory pools of its own.

    csrc/runtime/graph_recording.h says what the parts mean.
    """

    device = "cuda"
    warm_up = True  # loads kernels and makes the libraries' handles, which a capture does not allow

    def __init__(self):
        self._raised = {}  # by device
        self._streams = {}  # by device and stream: one to record on, since the default stream cannot be recorded
        self._shared = {}  # the same: a pool, and the graphs that lie in it

    @staticmethod
    def capturing():
        return torch.cuda.is_current_stream_capturing()

    @staticmethod
    def refuses():
        if not torch.cuda.is_available():
            return "there is no CUDA device"
        for variable, effect in (
            ("CUDA_LAUNCH_BLOCKING", "makes each launch wait"),
            ("PYTORCH_NO_CUDA_MEMORY_CACHING", "gives PyTorch's memory back at once"),
        ):
            if os.environ.get(variable, "0") not in ("", "0"):
                return f"{variable} {effect}"
        if torch.cuda.get_allocator_backend() != "native":
            return f"PyTorch's memory comes from {torch.cuda.get_allocator_backend()}"
        return None

    @staticmethod
    def memory(index):
        free, total = torch.cuda.mem_get_info(index)
        return total, free + torch.cuda.memory_reserved(index) - torch.cuda.memory_allocated(index)

    def others_have_streams(self, index):
        if index not in self._raised:
            self._raised[index] = RaisedPools(index)
        return self._raised[index].others_took() or _C.others_took_streams(index)

    def record(self, run, index, shared, pool):
        with torch.cuda.device(index):
            current = torch.cuda.current_stream()
            key = (index, current.cuda_stream)
            if key not in self._streams:
                stream, device, kind = _C.take_stream(index)
                self._streams[key] = torch.cuda.Stream(stream_id=stream, device_index=device, device_type=kind)
            pool = pool or (self._shared_pool(key) if shared else torch.cuda.graph_pool_handle())
            before = _bytes_of(pool)
            graph = torch.cuda.CUDAGraph()
            torch.cuda.synchronize()
            if not shared:
                torch.cuda.empty_cache()  # what the runs before have left; a capture cannot use it
            try:
                self._capture(graph, run, index, pool, self._streams[key])
            except BaseException:
                self._shared.pop(key, None)
                raise
            current.wait_stream(self._streams[key])
            if shared:
                self._shared[key][1].add(graph)
            kept = _bytes_of(pool)
        if not kept:
            # It would be given to others between replays.
            raise RuntimeError("PyTorch took its memory elsewhere, as within torch.cuda.use_mem_pool()")
        return graph.replay, kept - before, pool

    def _shared_pool(self, key):
        # PyTorch gives up a pool with the last graph in it.
        if key not in self._shared or not self._shared[key][1]:
            self._shared[key] = torch.cuda.graph_pool_handle(), weakref.WeakSet()
        return self._shared[key][0]

    @staticmethod
    def _capture(graph, run, index, pool, stream):
        # cuBLAS's handle belongs to a thread, and the warm-up may have been another's.  Each stream that the handle is
        # asked for gets a workspace of 32 MB: the current one has it, and a capture makes its own where it needs one.
        # That of the first capture in a thread lies in the capture's pool, and serves the later ones.
        torch.cuda.current_blas_handle()
        with _no_garbage_collection(), torch.cuda.stream(stream):
            # Not "global": other threads may allocate memory meanwhile.
            graph.capture_begin(pool=pool, capture_error_mode="thread_local")
            try:
                run()
            except BaseException:
                with contextlib.suppress(RuntimeError):
                    _end(graph, index, pool)
                raise
            _end(graph, index, pool)


class RaisedPools:
    """A device's streams of a raised priority: whether anybody has taken one.

    The compiler takes streams of normal priority itself: for those csrc/runtime/own_streams.h has the same.  That file
    reaches no others without CUDA's headers.
    """

    places = 32  # of a pool, whose streams are given out by turns
    place_bit = 5  # of a stream's id, from which on its place stands

    def __init__(self, index):
        self.index = index
        _, greatest = torch.cuda.Stream.priority_range()
        self._next = dict.fromkeys(range(greatest, 0), 0)  # place, by priority
        self._others = False
        self._lock = threading.Lock()

    def others_took(self):
        with self._lock:
            self._look()
        return self._others

    def _look(self):
        for priority, expected in self._next.items():
            place = torch.cuda.Stream(self.index, priority=priority).stream_id >> self.place_bit
            self._others = self._others or place != expected
            self._next[priority] = (place + 1) % self.places


def _bytes_of(pool):
    return sum(segment["total_size"] for segment in torch.cuda.memory_snapshot(pool))


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
