"""What stands for a DTensor in a program.

A value that all processes have comes in two forms. They are the same, but for the gradient:

    "alike"  each process gets the whole gradient: what all go on with alike
    "own"    the gradient is the sum of the processes': what each uses with parts of its own

The second is made of the first by `copy_to_group`, where a part needs it. So linear layers that read one input share
one reduction of its gradient.
"""

import torch
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard

from ..._tracing import current_tracer, state
from ..tensor_parallel._regions import (
    copy_to_group,
    count_once,
    exchange,
    gather_from_group,
    gather_sequence,
    part_sizes,
    processes_of,
    reduce_from_group,
    scatter_sequence,
    scatter_to_group,
)

# What code may ask of the tensor of this process in the whole's place.
_ALIKE = frozenset(
    "dtype device layout requires_grad is_cuda is_cpu is_meta is_sparse is_quantized is_nested itemsize "
    "is_floating_point is_complex is_signed element_size get_device ndim dim ndimension".split()
)


def leave(why):
    """Ends the acquisition: eager runs the function, which the user is told."""
    current_tracer().leave_to_eager(why, warns=True)


class Part:
    """What this process has of a DTensor over a mesh of one dimension.

    Args:
        source: The program's tensor that it is made of, which has its dtype and device.
        shape: Of the whole.
        sizes: Of all processes' parts along the dimension that is sharded; None: none is.
        make: Gives the tensor in a form; None: it is `source`.
        bias: Of a sum over the processes, a Part that is to be added to it.
    """

    __slots__ = ("_bias", "_forms", "_make", "_mesh", "_placement", "_shape", "_sizes", "_source")

    def __init__(self, source, mesh, placement, shape, sizes=None, make=None, bias=None):
        self._source, self._mesh, self._placement = source, mesh, placement
        self._shape, self._sizes, self._make, self._bias = tuple(shape), sizes, make, bias
        self._forms = {}

    # Code asks isinstance(x, DTensor).
    @property
    def __class__(self):
        return DTensor

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return current_tracer().handle(func, args, kwargs)

    def local(self, form="alike"):
        """The program's tensor: of a value that all processes have, in one of the forms."""
        if self._sizes is not None or isinstance(self._placement, Partial):
            form = "alike"
        differentiable = torch.is_grad_enabled() and current_tracer().has_gradient(self._source)
        key = form if differentiable else None
        if key not in self._forms:
            self._forms[key] = self._made(form, differentiable)
        return self._forms[key]

    def _made(self, form, differentiable):
        p = processes_of(self._mesh)
        if self._make is not None:
            other = self._forms.get("own" if form == "alike" else "alike") if differentiable else None
            if other is None:
                return self._make(form)
            return count_once(other, p) if form == "alike" else copy_to_group(other, p)
        return copy_to_group(self._source, p) if form == "own" and differentiable else self._source

    # ---- what a DTensor is asked ------------------------------------------------------------------------------------

    @property
    def device_mesh(self):
        return self._mesh

    @property
    def placements(self):
        return (self._placement,)

    @property
    def shape(self):
        return torch.Size(self._shape)

    def size(self, dim=None):
        return self.shape if dim is None else self.shape[dim]

    def numel(self):
        return self.shape.numel()

    nelement = numel

    def __len__(self):
        return self._shape[0]

    def __getattr__(self, name):
        if name in _ALIKE:
            return getattr(self._source, name)
        found = getattr(torch.Tensor, name)  # AttributeError, as a DTensor raises it
        if callable(found):
            return lambda *args, **kwargs: _record(found, (self, *args), kwargs)
        return _record(found.__get__, (self,), {})

    def __repr__(self):
        if current_tracer() is not None:
            leave("the function prints a DTensor")
        return f"Part({self._placement}, {self._shape})"

    # ---- layouts ----------------------------------------------------------------------------------------------------

    def to_local(self, *, grad_placements=None):
        wanted = self._placement if grad_placements is None else _single(grad_placements, self._mesh, len(self._shape))
        if isinstance(self._placement, Partial):
            leave("to_local() of a sum that the processes have not added up yet")
        if self._sizes is not None and len(set(self._sizes)) > 1:
            # What is made of it would be a part of another whole on each process.
            leave(f"to_local() of a dimension that the processes divide unevenly, in {list(self._sizes)}")
        if self._sizes is None and isinstance(wanted, Partial):
            return self.local("own")
        if wanted != self._placement:
            leave(f"to_local(grad_placements={grad_placements}) of a tensor that is {self._placement}")
        return self.local()

    def full_tensor(self, *, grad_placements=None):
        return self.redistribute(placements=[Replicate()]).to_local(grad_placements=grad_placements)

    def redistribute(
        self, device_mesh=None, placements=None, *, async_op=False, forward_dtype=None, backward_dtype=None
    ):
        if (device_mesh is not None and device_mesh != self._mesh) or forward_dtype is not None or backward_dtype:
            leave("redistribute() to another mesh, or in another dtype")
        if placements is None:
            leave("redistribute() without placements")
        wanted = _single(placements, self._mesh, len(self._shape))
        if wanted == self._placement:
            return self
        if isinstance(wanted, Partial):
            leave(f"redistribute() from {self._placement} to {wanted}")
        return self._whole() if isinstance(wanted, Replicate) else self._divided(wanted)

    def _whole(self):
        p = processes_of(self._mesh)
        if self._sizes is None:
            return Part(self._with_bias(reduce_from_group(self.local(), p), None), self._mesh, Replicate(), self._shape)
        x, how = self.local(), (self._placement.dim, p, self._sizes)

        def make(form):
            return gather_sequence(x, *how) if form == "own" else gather_from_group(x, *how)

        return Part(x, self._mesh, Replicate(), self._shape, make=make)

    def _divided(self, wanted):
        p, dim = processes_of(self._mesh), wanted.dim
        if self._sizes is None:
            n = self._shape[dim]
            new = part_sizes(n, p.world) if type(n) is int else _even(n, p.world)
        if self._sizes is not None:
            new = part_sizes(int(self._shape[dim]), p.world)
            x = exchange(self.local(), self._placement.dim, dim, p, self._sizes, new)
        elif isinstance(self._placement, Partial):
            x = self._with_bias(scatter_sequence(self.local(), dim, p, new), new if dim == self.ndim - 1 else ())
        else:
            x = scatter_to_group(self.local(), dim, p, new)
        return Part(x, self._mesh, wanted, self._shape, tuple(new))

    def _with_bias(self, x, sizes):
        """`sizes`: of the features' parts; (): they are whole, of a part of the rest; None: all is whole."""
        if self._bias is None:
            return x
        if sizes:
            bias = scatter_to_group(self._bias.local(), 0, processes_of(self._mesh), sizes)
        else:
            bias = self._bias.local("alike" if sizes is None else "own")
        return x + bias.to(x.dtype)


def _record(func, args, kwargs):
    return current_tracer().handle(func, args, kwargs)


def _even(n, world):
    if n % world != 0:
        leave(f"{n} elements are divided among {world} processes")
    return (n // world,) * world


def _single(placements, mesh, ndim):
    """The placement along a mesh of one dimension, with a dimension that is not negative."""
    if len(placements) != 1 or mesh.ndim != 1:
        leave(f"a DTensor over a mesh of {mesh.ndim} dimensions")
    (placement,) = placements
    if type(placement) is Shard and -ndim <= placement.dim < ndim:
        return Shard(placement.dim % ndim)
    if type(placement) is Replicate or (type(placement) is Partial and placement.reduce_op == "sum"):
        return placement
    return leave(f"a DTensor of {ndim} dimensions has the layout {placement}")


def from_local(
    local_tensor,
    device_mesh=None,
    placements=None,
    *,
    run_check=False,
    shape=None,
    stride=None,
    grad_placements=None,
):
    """DTensor.from_local() of a tensor of the program."""
    if run_check or grad_placements is not None or device_mesh is None or placements is None:
        leave("DTensor.from_local() with a check, placements of gradients, or without a mesh")
    tracer = current_tracer()
    sizes, whole = None, list(tracer.shape(local_tensor))
    placement = _single(placements, device_mesh, len(whole))
    if isinstance(placement, Partial):
        leave("DTensor.from_local() of a sum that the processes have not added up")
    if isinstance(placement, Shard):
        p, n = processes_of(device_mesh), whole[placement.dim]
        sizes = (n,) * p.world if shape is None else part_sizes(int(shape[placement.dim]), p.world)
        whole[placement.dim] = n * p.world if shape is None else sum(sizes)
    if shape is not None and tuple(shape) != tuple(whole):
        leave(f"DTensor.from_local() of a tensor of shape {tuple(whole)} as one of shape {tuple(shape)}")
    return Part(local_tensor, device_mesh, placement, whole, sizes)


def part_of(dtensor):
    """The Part that a DTensor from outside is in this program."""
    parts = state.parts[-1]
    if id(dtensor) not in parts:
        parts[id(dtensor)] = _captured(dtensor), dtensor
    return parts[id(dtensor)][0]


def _captured(dtensor):
    with torch._C.DisableTorchFunction():
        shape, local = tuple(dtensor.shape), dtensor._local_tensor
        if dtensor.requires_grad and not dtensor.is_leaf:
            leave("the function uses a DTensor that was computed outside of it")
        if type(local) is not torch.Tensor or local.is_meta:
            leave(f"the function uses a DTensor around a {type(local).__name__} on {local.device}")
        local, spec = local.data, dtensor._spec
    mesh, placements = getattr(dtensor, "_thunder_layout", (spec.mesh, spec.placements))
    placement = _single(placements, mesh, len(shape))
    if isinstance(placement, Partial):
        leave("the function uses a DTensor from outside that is a sum which the processes have not added up")
    sizes = part_sizes(shape[placement.dim], mesh.size()) if isinstance(placement, Shard) else None
    proxy = current_tracer().add_part(dtensor, local, lambda g: DTensor(g, spec, requires_grad=False))
    return Part(proxy, mesh, placement, shape, sizes)


def _operator(name):
    method = getattr(torch.Tensor, name)

    def operator(self, *args):
        return _record(method, (self, *args), {})

    operator.__name__ = name
    return operator


def _refused(name):
    def refused(self, *args):
        leave(f"{name}() of a DTensor")

    return refused


for _name in """
    add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow matmul rmatmul and rand or ror xor
    rxor neg pos abs invert eq ne lt le gt ge getitem
""".split():
    setattr(Part, f"__{_name}__", _operator(f"__{_name}__"))
for _name in """
    iadd isub imul itruediv ifloordiv imod ipow imatmul iand ior ixor setitem bool float int index complex iter contains
    array format
""".split():
    setattr(Part, f"__{_name}__", _refused(f"__{_name}__"))
Part.__hash__ = object.__hash__
