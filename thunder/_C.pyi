"""
The C++ side of Thunder: traces, operators, passes, front end and runtime.
"""

from collections.abc import Callable, Sequence


def show_progress(on: bool) -> None: ...

def warn_once(topic: str, message: str) -> None:
    """
    Warns with a RuntimeWarning, once in the life of the process for each topic: what the compiler itself calls for a missing library or a cache that cannot be written.
    """

class Value:
    """A value of a trace."""

    @property
    def name(self) -> str: ...

    @property
    def is_tensor(self) -> bool: ...

    @property
    def shape(self) -> tuple: ...

    @property
    def strides(self) -> tuple: ...

    @property
    def dtype(self) -> object: ...

    @property
    def device(self) -> object: ...

    @property
    def requires_grad(self) -> bool: ...

    @property
    def nbytes(self) -> object:
        """None if a size is known only when the program runs."""

    def __eq__(self, other: object | None) -> bool: ...

    def __hash__(self) -> int: ...

    def __repr__(self) -> str: ...

class Call:
    """A call of an operator in a trace."""

    @property
    def name(self) -> str: ...

    @property
    def op(self) -> str: ...

    @property
    def executor(self) -> str: ...

    @property
    def may_be_fused(self) -> bool:
        """
        Whether a fusion executor may take it: nobody has claimed it, or its executor yields to fusion.
        """

    @property
    def inputs(self) -> list[str]:
        """Names of the values it reads."""

    @property
    def outputs(self) -> list[str]:
        """Names of the values it makes."""

    @property
    def args(self) -> list[str]:
        """Its arguments as they print, in schema order."""

    @property
    def body(self) -> list: ...

    @property
    def location(self) -> object:
        """(file, line) of the user's program, or None."""

    @property
    def arguments(self) -> list:
        """Its arguments in schema order; values are Value objects."""

    @property
    def result(self) -> object:
        """A Value, None, or a container of these."""

    @property
    def input_values(self) -> list: ...

    @property
    def output_values(self) -> list: ...

    @property
    def symbol(self) -> str:
        """What it computes, whoever claimed it: "torch.add", "prims.add"."""

    @property
    def has_effects(self) -> bool:
        """Draws random numbers, writes, communicates, or is waited for."""

    @property
    def is_view(self) -> bool:
        """
        Whether its results share memory with its arguments, and nothing else is done.
        """

    @property
    def is_symbolic(self) -> bool:
        """Whether a size is known only when the program runs."""

    def __eq__(self, other: object | None) -> bool: ...

    def __hash__(self) -> int: ...

    def __repr__(self) -> str: ...

class Trace:
    """
    A program of the compiler. str() prints it as Python; exec() of that text runs it.
    """

    def __str__(self) -> str: ...

    def __repr__(self) -> str: ...

    def python(self, bodies: bool = False) -> str:
        """The program without the primitives of its calls and without strides."""

    def text(self, header: bool = True, annotations: bool = True, bodies: bool = True, strides: bool = True) -> str: ...

    def opaque_context(self) -> dict:
        """The objects that the text names and cannot spell."""

    @property
    def name(self) -> str: ...

    @property
    def inputs(self) -> list[str]: ...

    @property
    def outputs(self) -> list[str]: ...

    @property
    def calls(self) -> list: ...

    @property
    def input_values(self) -> list: ...

    @property
    def result(self) -> object:
        """What the program returns; values are Value objects."""

    @property
    def pass_name(self) -> str: ...

    @property
    def milliseconds(self) -> float: ...

    def verify(self) -> None:
        """RuntimeError with the call that is wrong."""

    def replace(self, calls: Sequence[Call], fn: object, *, executor: Executor, name: str | None = None) -> Trace:
        """
        The trace with `calls` replaced by one call of `fn`, which takes the values that they read from outside, in order
            of appearance, and returns a tuple of those that others read. `name`: what the call prints as, a number follows.
        """

    def python_ctx(self) -> dict[str, object]:
        """
        Names that the printed program uses, not imports: executors' operators, objects that print cannot spell.
        """

    def python_callable(self) -> Callable:
        """The printed program as a Python function."""

def reduce(trace: Trace, check: Callable) -> Trace:
    """The smallest part of a trace for which the check still holds."""

def parse(text: str, context: dict = {}) -> Trace:
    """The reverse of str(trace)."""

def difference(arg0: Trace, arg1: Trace, /) -> str:
    """Empty if the traces are structurally equal, else the first difference."""

class Op:
    """An operator's record."""

    @property
    def level(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def full_name(self) -> str: ...

    @property
    def print_name(self) -> str: ...

    @property
    def doc(self) -> str: ...

    @property
    def aten(self) -> str: ...

    @property
    def python(self) -> list[str]: ...

    @property
    def scalar(self) -> str: ...

    @property
    def executor(self) -> str: ...

    @property
    def schema(self) -> str: ...

    @property
    def results(self) -> str: ...

    @property
    def tags(self) -> list: ...

    @property
    def domain(self) -> tuple[float, float]: ...

    @property
    def has_meta(self) -> bool: ...

    @property
    def has_body(self) -> bool: ...

    @property
    def has_vjp(self) -> bool: ...

    @property
    def params(self) -> list: ...

    def __repr__(self) -> str: ...

def passes() -> list:
    """The pipeline: for each stage what it works on and its passes in order."""

def ops() -> list:
    """All operators, in order of registration."""

def find_op(arg: str, /) -> Op: ...

def tag_names() -> list[str]:
    """Names of the operators' tags, in the order of their bits."""

def check_record(arg: Op, /) -> str:
    """What is wrong with the record's ATen operator; empty if nothing."""

class Executor:
    """Who runs operators: see docs/adding_an_executor.md."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def is_fusion(self) -> bool: ...

    @property
    def unavailable(self) -> str:
        """Why it cannot be used here; empty if it can."""

    @property
    def symbols(self) -> list[str]:
        """Symbols that it has implementations of."""

    def __repr__(self) -> str: ...

def load_executor(path: str) -> Executor:
    """Loads the library of an executor in C++."""

def reserve_names() -> None:
    """
    Executors and levels of operators that are there now are Thunder's own: none that is made later has their names.
    """

def wait_for_compilations() -> None:
    """Until no kernel is being compiled in the background."""

def parallel_ranges(n: int, grain: int) -> list[tuple[int, int, int]]:
    """How a kernel's rows are divided: (from, to, thread)."""

def trace_kernels(arg: Trace, /) -> list[tuple[str, str]]:
    """The kernels of a program as (name, source), each once."""

def trace_cuda_texts(arg: Trace, /) -> list[tuple[str, str]]: ...

def always_emit_cuda(on: bool) -> None:
    """Makes the CUDA text of every kernel, for trace_cuda_texts()."""

def compile_cuda(sources: Sequence[tuple[str, str]], major: int, minor: int) -> list[tuple[bool, str]]:
    """For each source whether NVRTC compiled it, and its log."""

def check_records() -> list[tuple[str, str]]:
    """
    Records whose `aten` field does not fit the operator of this PyTorch, with what is wrong.
    """

def all_executors() -> list[Executor]: ...

def default_executors() -> list[Executor]: ...

def always_executors() -> list[Executor]: ...

def find_executor(arg: str, /) -> Executor: ...

def add_executor(arg: Executor, /) -> None: ...

def remove_executor(arg: str, /) -> None: ...

def add_default_executor(arg: Executor, /) -> None: ...

def remove_default_executor(arg: str, /) -> None: ...

def add_always_executor(arg: Executor, /) -> None: ...

class Tracer:
    """Records the torch calls of a running function."""

    def handle(self, func: object, args: object, kwargs: object | None) -> object: ...

    def apply(self, op: str, args: tuple, kwargs: dict = {}, in_place: bool = False) -> object: ...

    def call_symbol(self, arg0: str, arg1: tuple, arg2: dict, /) -> object: ...

    def run(self, arg0: object, arg1: object, arg2: object, /) -> object: ...

    def call_user(self, arg0: object, arg1: tuple, /) -> object: ...

    def set_language(self, arg: str, /) -> str:
        """The language of the user's code from here on; returns the one before."""

    def leave_to_eager(self, why: str, warns: bool = False) -> None:
        """
        Ends the acquisition: the function itself has to run, for this reason, of which the user is told if `warns`.
        """

    @property
    def left_to_eager(self) -> bool:
        """Whether the acquisition has ended, by leave_to_eager()."""

    def take_calls(self) -> None: ...

    @property
    def interprets(self) -> bool: ...

    @property
    def seems_compiled(self) -> bool: ...

    def made(self, arg: object, /) -> None: ...

    def made_inside(self, arg: object, /) -> bool: ...

    @property
    def location(self) -> str: ...

    def copy_into(self, arg0: object, arg1: object, arg2: str, /) -> None: ...

    def write_out(self, arg0: object, arg1: object, arg2: str, /) -> None: ...

    def set_data(self, arg0: object, arg1: object, /) -> None: ...

    def set_uncounted(self, arg: object, /) -> None: ...

    def check_writable(self, arg0: object, arg1: str, /) -> None: ...

    def forbid_writes(self, arg: object, /) -> None: ...

    def become(self, arg0: object, arg1: object, arg2: str, /) -> None: ...

    def detach_in_place(self, arg: object, /) -> None: ...

    def memory_from(self, tensor: object, sizes: object, strides: object, storage_offset: object | None) -> object: ...

    def share_memory(self, arg0: object, arg1: object, /) -> bool: ...

    def is_from_outside(self, arg: object, /) -> bool: ...

    def is_plain_input(self, arg: object, /) -> bool: ...

    def add_captured(self, arg: object, /) -> None: ...

    def shape(self, arg: object, /) -> tuple: ...

    def stride(self, arg: object, /) -> tuple: ...

    def keep_strides(self, arg: object, /) -> None: ...

    def layout(self, arg: object, /) -> str: ...

    def dense_dims(self, arg: object, /) -> int: ...

    def is_contiguous(self, arg0: object, arg1: str, /) -> bool: ...

    def is_conj(self, arg: object, /) -> bool: ...

    def describe(self, arg: object, /) -> str: ...

    def knows(self, arg: object, /) -> bool: ...

    def number_operation(self, arg0: str, arg1: object, arg2: object, /) -> object: ...

    def number_function(self, arg0: str, arg1: object, arg2: int, /) -> object: ...

    def specialize(self, arg: object, /) -> object: ...

    def constant(self, arg: object, /) -> object: ...

    def read(self, arg0: object, arg1: str, /) -> object: ...

    def drawn(self, arg0: object, arg1: bool, /) -> object: ...

    def add_part(self, arg0: object, arg1: object, arg2: object, /) -> object: ...

    def values(self, arg: list, /) -> list[int]: ...

    def calls_made(self) -> int: ...

    def begin_trial(self) -> None: ...

    def end_trial(self, arg: int, /) -> bool: ...

    def whole_of(self, arg0: object, arg1: object, /) -> object: ...

    def parts(self, arg0: int, arg1: Sequence[tuple[object, int]], arg2: list, /) -> list[int | None]: ...

    def made_leaf(self, arg: object, /) -> bool | None: ...

    def require_grad(self, arg: object, /) -> None: ...

    def requires_grad(self, arg: object, /) -> bool: ...

    def has_gradient(self, arg: object, /) -> bool:
        """
        Whether gradients flow through it: requires_grad, but for views that were made under no_grad.
        """

    def with_gradient(self, arg0: list, arg1: list, arg2: object, arg3: str, /) -> list: ...

    def gradients(self, arg0: list, arg1: list, arg2: list, arg3: bool, arg4: bool, arg5: bool, /) -> list: ...

    def pullback(self, fn: object, inputs: list, recording: bool, linear: bool, any_cotangent: bool) -> tuple:
        """
        Records a function of tensors, and its gradient apart: the list that it returns, and a number for pull().
        """

    def pull(self, arg0: int, arg1: list, /) -> list: ...

    def batched(self, arg0: object, arg1: list, arg2: str, /) -> list: ...

    def why_no_hook(self, arg: object, /) -> str: ...

    def put_hook(self, arg0: object, arg1: object, arg2: str, arg3: bool, /) -> int: ...

    def remove_hook(self, arg: int, /) -> None: ...

    def retain_gradient(self, arg: object, /) -> int | None: ...

def register_function(callable: object, kind: str, op: str = '', in_place: bool = False, reflected: bool = False, method: bool = False, handler: object | None = None, result: object | None = None, language: str = 'torch', creates: bool = False) -> None: ...

def register_attribute(arg0: str, arg1: str, arg2: object, arg3: bool, /) -> None: ...

def is_registered(arg: object, /) -> bool: ...

def replace_function(function: object, by: object) -> None:
    """
    A function of PyTorch's, and what compiled functions call in its place.
    """

def set_unrecorded(arg: object, /) -> None: ...

def set_hooks(arg0: object, arg1: object, arg2: tuple, arg3: list, arg4: list, arg5: Sequence[str], arg6: object, /) -> None: ...

def settings_version() -> int: ...

def set_outside_states(arg: object, /) -> None: ...

def set_autocast(arg: object, /) -> None: ...

def any_autocast() -> bool: ...

def add_dtypes(arg: list, /) -> None:
    """Objects that mean dtypes: pairs of one and PyTorch's name."""

def dtype_names() -> list[str]: ...

def number_hint(arg: object, /) -> object: ...

def may_be_one(arg: object, /) -> bool:
    """
    Whether a traced number is a size that is 1 in some calls of the program.
    """

def holds_dtensor(arg: object, /) -> bool: ...

def set_dtensors(dtensor: object, part: object, function: object) -> None:
    """
    PyTorch's class, the class of what stands for one in programs, and what records a torch call with either.
    """

def interpret(callable: object, args: tuple, kwargs: object | None = None) -> object:
    """Calls it with every Python frame in this thread interpreted."""

def interpreter_counts() -> dict:
    """How often each opcode was interpreted in this process."""

def natively_run() -> list[str]:
    """
    file:function of the frames that CPython ran while frames were being interpreted.
    """

class Float8Recorded:
    """Whether scales can follow from what backwards have recorded."""

    def __init__(self) -> None: ...

    @property
    def yes(self) -> bool: ...

    @yes.setter
    def yes(self, arg: bool, /) -> None: ...

class CompiledFunction:
    """A function compiled by thunder.jit."""

    def __call__(self, /, *args, **kwargs):
        """Call self as a function."""

    def __get__(self, instance, owner=None, /):
        """Return an attribute of instance, which is of type owner."""

def make_function(fn: object, module: object | None, options: object) -> object:
    """
    The compiled function of `fn`. `module`: the nn.Module that it runs, or None. `options`: the Options of thunder/_options.py.
    """

def compile_for(function: object, capability: int, cudnn_version: int, args: tuple, kwargs: dict) -> tuple[Trace, Trace | None]:
    """
    The last traces of a call's forward and backward (or None), compiled for a GPU that need not be here; nothing is run, and tensors may be of subclasses without memory. `capability`: 90 for 9.0.
    """

def set_inner_modules(function: object, modules: object, quiet: bool) -> None: ...

def inner_modules(arg: object, /) -> object:
    """The InnerModules of thunder/_inner_modules.py, or None."""

def clear_cache(arg: object, /) -> None: ...

def check_guards(arg0: object, /, *args) -> bool:
    """
    Whether a call with these positional arguments would hit the cache; runs the guards and nothing else.
    """

def last_traces(arg: object, /) -> list[Trace]: ...

def last_backward_traces(arg: object, /) -> list[Trace]: ...

def last_epilogue_traces(arg: object, /) -> list[Trace]: ...

def last_program(arg: object, /) -> str: ...

def guards(arg: object, /) -> list[str]: ...

def stats(arg: object, /) -> dict: ...

def backward_uses(outputs: int) -> bool:
    """
    Whether one of these outputs, given by bits, has a gradient in the backward that runs.
    """

def keep_gradient(place: int, gradient: object) -> None:
    """Adds to the .grad of a result of the call whose backward runs."""

def backward_notes() -> object:
    """A dict that belongs to the call of a function whose backward runs."""

def take_stream(gpu: int) -> tuple:
    """
    A stream of PyTorch's pool for work of this project: id, device index and device type of a torch.cuda.Stream.
    """

def others_took_streams(gpu: int) -> bool:
    """
    Whether somebody else has taken a stream of normal priority on this GPU.
    """

def evaluate(arg0: str, arg1: tuple, arg2: dict, /) -> object:
    """Runs one operator on real tensors, without autograd."""

def empty_cache() -> None: ...

def host_cache_stats() -> dict:
    """
    Of memory on the CPU for what programs compute: bytes that tensors hold and that are kept for later ones, and how many blocks were new and how many were found among those kept.
    """

def set_ignores_watchers(on: bool) -> None:
    """
    Tests compile for devices that are not there, on fake tensors: modes and classes of tensors do not make a call run eagerly then.
    """

class PythonExecutor(Executor):
    def __init__(self, name: str, version: str, unavailable: str) -> None: ...

class PythonFusionExecutor(PythonExecutor):
    def __init__(self, name: str, version: str, unavailable: str) -> None: ...

class RecordedGraph:
    """What autograd recorded from `inputs`, which are leaves, to `outputs`."""

    def __init__(self, inputs: Sequence, outputs: Sequence) -> None: ...

    def gradients(self, outputs: Sequence[int], cotangents: Sequence, keep: bool) -> list:
        """Of the inputs, from those of the outputs with these numbers."""

def register_gradient_rule(arg0: str, arg1: object, /) -> None: ...

def unregister_gradient_rule(arg: str, /) -> None: ...

def get_grad(arg: object, /) -> object: ...

def put_grad(argument: object, gradient: object | None) -> None: ...

def new_tensor(tracer: Tracer, like: object | None, shape: object | None, dtype: object | None, device: object | None, requires_grad: object | None, strides: object | None, layout: str = 'strided', dense_dims: int = 0) -> object: ...

def call_aten(arg: Call, /) -> object: ...

def call_function(arg: Call, /) -> object:
    """
    What runs the call, as a function of its arguments, which are all values.
    """

def trace_replace(trace: Trace, calls: Sequence[Call], fn: object, executor: str, prefix: str) -> Trace: ...

def region_values(arg0: Trace, arg1: Sequence[Call], /) -> tuple[list, list]:
    """
    What the calls read from outside, and what of their results others read.
    """

class CommunicationPlan:
    """How a model's parameters lie on processes, and what they communicate."""

    def __init__(self, id: str, group: str, reduce_group: str, world: int, regather: bool, reduce_dtype: str | None, bytes_in_flight: int, replicas: str = '', copies: int = 1) -> None: ...

    def add_replicated(self, name: str, parameter: object, bucket: int, holders: Sequence[tuple[dict, str]]) -> None: ...

    def add_sharded(self, name: str, parameter: object, local: object, shape: Sequence[int], dtype: str, bucket: int, wrap: object | None, holders: Sequence[tuple[dict, str]], kept: bool = False, dtensor: bool = False) -> None: ...

    def forget(self) -> None:
        """Its parameters are plain ones from here on."""

    def text(self) -> str:
        """Lines that are the same on every process."""

    def take_kept_gradients(self) -> list[tuple[str, object]]:
        """
        What backwards within no_sync() left to be reduced: parameters' names and whole gradients, then forgotten.
        """

    @property
    def synchronizes(self) -> bool:
        """
        Whether backwards of programs that are called from now on synchronise gradients.
        """

    @synchronizes.setter
    def synchronizes(self, arg: bool, /) -> None: ...

    @property
    def first(self) -> tuple[int, int]:
        """
        Whose first programs decide about the order of collectives: its ranks in the group and in the replicas.
        """

    @first.setter
    def first(self, arg: tuple[int, int], /) -> None: ...

    @property
    def scale(self) -> float:
        """What means over all processes are multiplied by."""

    @scale.setter
    def scale(self, arg: float, /) -> None: ...

    @property
    def joining(self) -> bool:
        """Whether only calls behind tell() may communicate."""

    @joining.setter
    def joining(self, arg: bool, /) -> None: ...

    def tell(self) -> None:
        """Processes without data know of the next call."""

    @property
    def backwards(self) -> int:
        """How many backwards of programs have run."""

    def knows_order(self, differentiates: bool, reduces: bool) -> bool:
        """
        Whether a call of the module follows an order, so that its compilation takes none from another process.
        """

    def shadow(self, differentiates: bool, reduces: bool, gradients: bool) -> list[tuple[str, object]]:
        """
        Takes part in a call of the others, without data; if `gradients`, gives the means by parameters' names.
        """

def all_reduce(group: str, tensor: object, op: str, what: str) -> object:
    """
    RuntimeError if a process of the group fails meanwhile; `what` names the collective in it.
    """

def agree(group: str, key: str, text: str, seconds: float) -> None:
    """
    ValueError on every process of the group if their texts differ; RuntimeError if one does not come.
    """

def post_failure(error: str, groups: Sequence[str] = []) -> None:
    """
    Other processes of these groups, and of all that programs use, raise this, where they wait for this one.
    """

def begin_waiting(group: str, what: str) -> int:
    """
    For communication that other code runs: looks at the other processes until end_waiting(). RuntimeError if one has failed already.
    """

def explain(group: str, what: str, error: str) -> None:
    """
    RuntimeError that names another process if `error`, which that code raised, comes from its end.
    """

def end_waiting(group: str, ticket: int) -> None: ...

def stop_watching(group: str) -> None:
    """The group is about to be destroyed."""

def peer_memory_bytes(world: int, inbox: int, outbox: int) -> int:
    """Of each process's shared memory."""

def peers_available(device: int) -> str:
    """Empty, or why collectives cannot be copies between GPUs here."""

def connect_peers(group: str, rank: int, device: int, inbox: int, outbox: int, least: int, addresses: Sequence[int]) -> None:
    """
    Collectives of the group go through memory that lies at these addresses, by rank, and is zero; some of them from `least` bytes on.
    """

def reach_peers(group: str, memory: object, addresses: Sequence[int]) -> None:
    """
    Tensors in this process's `memory` are gathered from where they lie; `addresses`: where this process finds each process's, by rank.
    """

class SimulatedWait:
    """A wait for a collective, or a collective that nobody waits for."""

    @property
    def name(self) -> str:
        """What is communicated: "h.0.attn.weight and 3 more"."""

    @property
    def future(self) -> str:
        """As the trace prints it: "p11"."""

    @property
    def group(self) -> str: ...

    @property
    def collective(self) -> str:
        """"all_gather", "reduce_scatter" or "all_reduce"."""

    @property
    def backward(self) -> bool: ...

    @property
    def waited(self) -> bool: ...

    @property
    def bytes(self) -> int:
        """Of the whole tensors."""

    @property
    def seconds(self) -> float:
        """Of the collective."""

    @property
    def exposed(self) -> float:
        """Seconds for which kernels stood still."""

    def __repr__(self) -> str: ...

class Simulation:
    """A simulated step of one process. str() is a report."""

    @property
    def step(self) -> float:
        """Seconds: compute + slowed + exposed + spread."""

    @property
    def compute(self) -> float:
        """Seconds of the kernels by themselves."""

    @property
    def slowed(self) -> float:
        """Seconds that communication beside them adds."""

    @property
    def exposed(self) -> float:
        """Seconds for which kernels stood still."""

    @property
    def spread(self) -> float:
        """Seconds for which the slowest device is waited for in the end."""

    @property
    def forward(self) -> float:
        """Seconds after which the forward's last kernel ended."""

    @property
    def communicators(self) -> dict[str, float]:
        """By group: seconds for which it communicates."""

    @property
    def waits(self) -> list[SimulatedWait]:
        """In the order of the waits."""

    @property
    def memory(self) -> list[tuple[float, int]]:
        """Pairs of seconds and bytes from then on."""

    @property
    def inputs(self) -> int:
        """Bytes of parameters and arguments."""

    @property
    def peak(self) -> int:
        """Bytes."""

    @property
    def peak_at(self) -> str:
        """The call at which it is reached."""

    @property
    def notes(self) -> list[str]:
        """What of the cost table is measured, and what is estimated."""

    def __str__(self) -> str: ...

    def __repr__(self) -> str: ...

class CostTable:
    """What a device and its networks take for work."""

    @staticmethod
    def built_in(device: str) -> CostTable:
        """ValueError if there is none."""

    @staticmethod
    def parse(text: str) -> CostTable:
        """A table of these lines alone. ValueError names the one that is wrong."""

    def with_lines(self, text: str) -> CostTable:
        """The table with more lines. ValueError names the one that is wrong."""

    @property
    def device(self) -> str: ...

    @property
    def fabric(self) -> str:
        """Those of the line 'node': "nvlink+infiniband"; "" without one."""

    @property
    def capability(self) -> int:
        """90 for 9.0."""

    @property
    def cudnn_version(self) -> int: ...

def simulate(forward: Trace, backward: Trace | None, table: CostTable) -> Simulation:
    """Simulates the last traces of a compilation; nothing is run."""
