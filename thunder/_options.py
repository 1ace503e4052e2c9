"""What thunder.jit was asked for."""

import copy
import dataclasses

from .extend import resolve_executors


@dataclasses.dataclass(frozen=True)
class Options:
    """The options of `thunder.jit`, which documents them. C++ and `graphs.recorder` check their values.

    Attributes:
        executors: The user's executors and the always executors, highest priority first.
    """

    executors: tuple
    cache: str = "varying values"
    transforms: tuple = ()
    numerics: str = "fused"
    rng: str = "eager"
    sharp_edges: str = "allow"
    graphs: bool | str = "auto"

    def __deepcopy__(self, memo):
        # What float8 scales follow from is each copy's own.
        own = (copy.deepcopy(t, memo) if hasattr(t, "float8_layers") else t for t in self.transforms)
        return dataclasses.replace(self, transforms=tuple(own))

    def __reduce__(self):
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return _restored, (fields | {"executors": [e.name for e in self.executors]},)


def _restored(fields):
    return Options(**fields | {"executors": tuple(resolve_executors(fields["executors"]))})
