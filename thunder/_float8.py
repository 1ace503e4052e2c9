"""Which layers of a module are in float8, and the scales that follow from earlier steps."""

import fnmatch
import sys
import weakref

import torch

from . import _C

# Below it casting the operands takes longer than the products gain: what is saved grows with in * out, what it costs
# with in + out. By the rates of an H200 (csrc/passes/distributed/cost_tables.cpp), doubled.
_LEAST = 512
_HEADS = ("lm_head",)
_KINDS = 3  # a layer's input, weight, and gradient of the result


class Float8:
    """Computes the products of linear layers in float8: GPUs of compute capability 8.9 and newer do them twice as fast.

        model = thunder.jit(model, transforms=[thunder.transforms.Float8()])

    Weights, their gradients and everything between the layers keep their types. In front of each product its operands
    become float8: e4m3 in the forward, e5m2 for what flows back, each tensor with one scale. Products add up in float32
    and give the layer's own type. `torch.no_grad()`, autocast, checkpoints, gradient accumulation and other shapes are
    as without it.

    Args:
        scaling: Where a tensor's scale comes from.
            "dynamic": its own largest number fills the type's range.
            "delayed": the largest number of that place in the last backwards does, so that kernels store float8 where
                they compute a tensor; what is larger becomes the type's largest number. Scales are dynamic until the
                first backward has run.
        filter: Which layers: a function of a module's name and the module, or patterns of names ("*.mlp.*"), one or
            several. None: those where it pays by their sizes (`in * out >= 512 * (in + out)`), without the layer that
            the program computes last, and without one that is named lm_head.
        history: With delayed scaling, how many backwards count.

    Layers are modules of torch.nn.Linear and of Hugging Face's Conv1D whose weights are parameters with sizes that are
    multiples of 16. `thunder.compile_stats(model)["float8"]` lists under "layers" those that the last program has in
    float8, and under "others" the rest, each with the reason.

    Delayed scaling keeps what it has seen in this object, which serves one module: `state_dict()` and
    `load_state_dict()` are for checkpoints, beside the model's own. Distributed modules take dynamic scaling.

    Raises:
        ValueError: An unknown `scaling`; a `history` below 1; when the model is called: the object has a history of
            another module, or layers lie on several devices.
        TypeError: `filter` is neither a function nor patterns; when the model is called: what was compiled is a
            function and no module, so that layers have no names.
        NotImplementedError: When the model is called: delayed scaling of a distributed module.
    """

    def __init__(self, *, scaling="dynamic", filter=None, history=16):
        if scaling not in ("dynamic", "delayed"):
            raise ValueError(f"[float8] unknown scaling {scaling!r}, expected 'dynamic' or 'delayed'")
        if not isinstance(history, int) or history < 1:
            raise ValueError(f"[float8] expected a history of 1 or more backwards, got {history!r}")
        self._scaling = scaling
        self._filter = _as_function(filter)
        self._length = history
        self._module = None  # a weak reference: whose history it is
        self._names = None  # of the layers that have places in the history
        self._history = None
        self._recorded = _C.Float8Recorded()

    def float8_layers(self, module):
        """For the compiler: (name, weight, why it is not in float8 or "") of each linear layer, whether the last one
        of a program is left out, and with delayed scaling the history and whether it has something."""
        if not isinstance(module, torch.nn.Module):
            raise TypeError(
                f"[float8] layers are chosen by their names in a module, expected one to be compiled, got {module!r}"
            )
        layers = [
            (name, m._parameters.get("weight"), self._refusal(name, m))
            for name, m in module.named_modules()
            if _is_linear(m)
        ]
        history = self._history_of(module, layers) if self._scaling == "delayed" else None
        return layers, self._filter is None, history, self._recorded

    def _refusal(self, name, module):
        if module._parameters.get("weight") is None:
            return "its weight is no parameter"
        if self._filter is not None:
            return "" if self._filter(name, module) else "the filter leaves it out"
        if name.rpartition(".")[2] in _HEADS:
            return "it is the last linear layer, by its name"
        out, into = module.weight.shape
        if out * into < _LEAST * (out + into):
            return f"its weight of {out} x {into} is too small for float8 to pay"
        return ""

    # ---- delayed scaling ----

    def _history_of(self, module, layers):
        if self._module is not None and self._module() is not module:
            raise ValueError("[float8] expected a Float8 of its own for each module, got one of two")
        self._module = weakref.ref(module)
        devices = {weight.device for _, weight, why in layers if not why}
        if len(devices) > 1:
            found = sorted(map(str, devices))
            raise ValueError(f"[float8] expected the layers on one device with delayed scaling, got {found}")
        names = [name for name, *_ in layers]
        if self._history is None:
            self._names, self._history = names, torch.zeros(len(names), _KINDS, self._length, device="cpu")
        elif self._names != names:
            self._history, self._names = self._rearranged(names), names
        for device in devices:
            self._history = self._history.to(device)
        return self._history

    def _rearranged(self, names):
        """What was seen of layers that are still there."""
        out = self._history.new_zeros(len(names), _KINDS, self._length)
        for i, name in enumerate(names):
            if name in self._names:
                out[i] = self._history[self._names.index(name)]
        return out

    def state_dict(self):
        """What delayed scaling has seen: for each layer the largest numbers of its input, its weight and its result's
        gradient in the last backwards, the latest first. Empty with dynamic scaling and before the first call."""
        if self._history is None:
            return {}
        return {"layers": list(self._names), "history": self._history.clone(), "recorded": self._recorded.yes}

    def load_state_dict(self, state):
        """Goes on where `state_dict()` was taken: layers are found by their names.

        Raises:
            ValueError: Its history has another length, or scaling is dynamic.
        """
        if not state:
            return
        if self._scaling != "delayed" or state["history"].shape[1:] != (_KINDS, self._length):
            raise ValueError(
                f"[float8] expected a history of shape [layers, {_KINDS}, {self._length}] for {self!r}, got "
                f"{list(state['history'].shape)}"
            )
        if self._history is None:
            self._names, self._history = list(state["layers"]), state["history"].clone()
        else:
            known = dict(zip(state["layers"], state["history"], strict=True))
            for i, name in enumerate(self._names):
                self._history[i] = known.get(name, torch.zeros(())).to(self._history.device)
        self._recorded.yes = state["recorded"]

    def __getstate__(self):
        return self._scaling, self._filter, self._length, self.state_dict()

    def __setstate__(self, state):
        scaling, chosen, length, seen = state
        self.__init__(scaling=scaling, filter=chosen, history=length)
        self.load_state_dict(seen)

    def __repr__(self):
        return f"Float8(scaling={self._scaling!r})"


def _is_linear(module):
    conv1d = getattr(sys.modules.get("transformers.pytorch_utils"), "Conv1D", None)
    return isinstance(module, torch.nn.Linear) or (conv1d is not None and isinstance(module, conv1d))


def _as_function(chosen):
    if chosen is None or callable(chosen):
        return chosen
    patterns = [chosen] if isinstance(chosen, str) else chosen
    if not isinstance(patterns, (list, tuple, set, frozenset)) or not all(isinstance(p, str) for p in patterns):
        raise TypeError(f"[float8] expected a function or patterns of names as filter, got {chosen!r}")
    return _Patterns(patterns)


class _Patterns:
    def __init__(self, patterns):
        self.patterns = list(patterns)

    def __call__(self, name, module):
        return any(fnmatch.fnmatchcase(name, p) for p in self.patterns)
