"""How much memory a program takes, from its trace."""

import dataclasses


@dataclasses.dataclass
class Memory:
    """Bytes of tensors that are alive while a program runs, its inputs included."""

    inputs: int
    peak: int
    peak_at: str  # the call during which it is reached
    lines: dict  # the user's line -> the most bytes alive during its calls
    exact: bool  # False if a size is known only when the program runs; such tensors count as none


class _Storages:
    """Which tensors are alive; tensors of one storage count once, as long as any of them is."""

    def __init__(self):
        self.root, self.holders, self.bytes = {}, {}, {}
        self.total, self.exact = 0, True

    def add(self, value, base=None):
        if not value.is_tensor or value in self.root:
            return
        root = self.root[value] = self.root.get(base, value)
        self.holders.setdefault(root, set()).add(value)
        if root == value:
            if value.nbytes is None:
                self.exact = False
            self.bytes[root] = value.nbytes or 0
            self.total += self.bytes[root]

    def drop(self, value):
        root = self.root.get(value)
        if root is None or value not in self.holders[root]:
            return
        self.holders[root].discard(value)
        if not self.holders[root]:
            self.total -= self.bytes[root]


def predicted_memory(trace):
    """What the program of a final trace (`thunder.last_traces(f)[-1]`) takes, without workspaces inside operators."""
    alive = _Storages()
    for value in trace.input_values:
        alive.add(value)
    inputs = peak = alive.total
    peak_at, lines = "inputs", {}
    for call in trace.calls:
        if call.symbol == "prims.python_del":
            for value in call.input_values:
                alive.drop(value)
            continue
        base = next((v for v in call.input_values if v.is_tensor), None) if call.is_view else None
        for value in call.output_values:
            alive.add(value, base)
        where = "{}:{}".format(*call.location) if call.location else "?"
        lines[where] = max(lines.get(where, 0), alive.total)
        if alive.total > peak:
            peak, peak_at = alive.total, f"{call.name} ({where})"
    return Memory(inputs, peak, peak_at, lines, alive.exact)
