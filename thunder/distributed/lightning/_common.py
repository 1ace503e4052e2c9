"""What strategies for Fabric and for the Trainer share."""

import importlib
import importlib.util
import inspect
import sys

import thunder

from .. import FSDPBucketingStrategy, FSDPType
from ..checkpoint import StateDictOptions

# The processes, their devices and the module are Lightning's to give.
_NO_OPTIONS = {"fn", "model", "device", "process_group", "mesh"}

WHOLE = StateDictOptions(full_state_dict=True, cpu_offload=True, rank0_only=True)
# As in Lightning's own sharded checkpoints: what is neither a module nor an optimizer.
METADATA = "meta.pt"


def lightning_package(part, alone):
    """The module `lightning.{part}`, or the package `alone` that has the same, whichever the program has imported.

    Raises:
        ModuleNotFoundError: Neither is installed.
    """
    names = [f"lightning.{part}", alone]
    names.sort(key=lambda name: name not in sys.modules)
    for name in names:
        if name in sys.modules or importlib.util.find_spec(name.partition(".")[0]) is not None:
            return importlib.import_module(name)
    raise ModuleNotFoundError(f"[lightning] these strategies need Lightning: pip install lightning (or {alone})")


class Options:
    """The options of a strategy, sorted by who takes them.

    Attributes:
        wrap: `ddp` or `fsdp`.
        wrapping: Keyword arguments of `wrap`.
        jit: Keyword arguments of `thunder.jit`; None: modules are not compiled.
        lightning: Those of Lightning's strategy.
    """

    def __init__(self, wrap, base, jit, options):
        self.wrap = wrap
        self.wrapping = _taken(wrap, options)
        self.jit = _taken(thunder.jit, options)
        if not jit and self.jit:
            raise ValueError(f"[lightning] options of thunder.jit without effect for jit=False: {', '.join(self.jit)}")
        if not jit:
            self.jit = None
        self.lightning = _taken(base.__init__, options)
        if options:
            raise TypeError(
                f"[lightning] neither thunder.jit, {wrap.__name__} nor Lightning's {base.__name__} has the options "
                f"{', '.join(options)}"
            )
        # As rank 0 has them: processes need not draw the same random numbers.
        self.wrapping.setdefault("broadcast_from", 0)
        for name, kind in (("sharding_strategy", FSDPType), ("bucketing_strategy", FSDPBucketingStrategy)):
            if isinstance(self.wrapping.get(name), str):
                self.wrapping[name] = _member(kind, self.wrapping[name])

    def distribute(self, module, **more):
        """Wraps a module, compiled or not, and compiles it if it is not."""
        module = self.wrap(module, **self.wrapping, **more)
        if self.jit is None or thunder.compile_data(module) is not None:
            return module
        return thunder.jit(module, **self.jit)


class DataParallel:
    """Part of a ModelParallelStrategy: all processes are in its mesh's dimension "data_parallel"."""

    def setup_environment(self):
        self._data_parallel_size = self.num_nodes * self.num_processes
        super().setup_environment()


def _taken(function, options):
    parameters = inspect.signature(function).parameters.values()
    names = {p.name for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)} - _NO_OPTIONS
    return {name: options.pop(name) for name in list(options) if name in names}


def _member(kind, name):
    try:
        return kind[name.upper()]
    except KeyError:
        names = ", ".join(member.name for member in kind)
        raise ValueError(f"[lightning] {kind.__name__} has no '{name}'; it has {names}") from None




def check_no_plugin(name, **unsupported):
    """TypeError if one of the arguments is given."""
    for argument, value in unsupported.items():
        if value is not None:
            raise TypeError(f"[lightning] {name} has no {argument}=...: torch.distributed.checkpoint writes the parts")
