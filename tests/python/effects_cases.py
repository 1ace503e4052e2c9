"""Worlds for test_effects.py: programs that write to what is outside of them.

(source, how often it may be compiled in all calls; None: every call may, as what is written is read again)
"""

COUNTERS = {
    "attribute": ("c = thing(n=0)\ndef f(x):\n  c.n += 1\n  return x * c.n", None),
    "attribute, not used": ("c = thing(n=0)\ndef f(x):\n  c.n += 1\n  return x", None),
    "of a module": (
        """
        class M(nn.Module):
            n = 0
            def forward(self, x):
                self.n += 1
                return x * 2
        f = M()
        """,
        None,
    ),
    "global": ("n = 0\ndef f(x):\n  global n\n  n += 1\n  return x * n", None),
    "nonlocal": (
        """
        def make():
            n = 0
            def f(x):
                nonlocal n
                n += 1
                return x * n
            return f
        f = make()
        """,
        None,
    ),
    "class attribute": ("class C: n = 0\ndef f(x):\n  C.n += 1\n  return x * C.n", None),
    "class attribute, deleted below a base that has it": (
        """
        class B: k = 1
        class C(B): k = 2
        v = []
        def f(x):
            v.append('k' in C.__dict__)
            C.k = 3
            del C.k
            return x * C.k
        """,
        None,
    ),
    "static method of a user's class": (
        """
        class named(staticmethod):
            def __init__(self, function, name):
                super().__init__(function)
                self.name = name
        class C: pass
        v = []
        def f(x):
            if 'g' in C.__dict__: v.append((C.g(2), C.__dict__['g'].name, type(C.__dict__['g']) is named))
            C.g = named(lambda n: n + 1, 'one')
            return x * 2
        """,
        None,
    ),
    "static method": (
        """
        class C: pass
        v = []
        def f(x):
            if 'g' in C.__dict__: v.append(C().g(2))
            C.g = staticmethod(lambda n: n + 1)
            return x * 2
        """,
        None,
    ),
    "value of a tensor": ("c = thing(n=0)\ndef f(x):\n  c.n = x.sum().item()\n  return x", 1),
    "on one side of a branch": ("v = []\ndef f(x):\n  if x.sum() > 0: v.append(x)\n  return x", 2),
    "list item": ("v = [0]\ndef f(x):\n  v[0] += 1\n  return x * v[0]", None),
    "dict item": ("d = {}\ndef f(x):\n  d['n'] = d.get('n', 0) + 1\n  return x * d['n']", None),
    "function's attribute": ("def f(x):\n  f.n += 1\n  return x * f.n\nf.n = 0", None),
    "global made": ("def f(x):\n  global made\n  made = 3\n  return x", 2),
    "global deleted": (
        """
        k = 1
        def f(x):
            global k
            if 'k' in globals(): del k
            else: k = 2
            return x
        """,
        None,
    ),
    "nonlocal deleted": (
        """
        def make():
            k = 1
            def f(x):
                nonlocal k
                try:
                    x = x * k
                    del k
                except NameError: k = 5
                return x
            return f
        f = make()
        """,
        None,
    ),
    "stops after a while": ("c = thing(n=0)\ndef f(x):\n  if c.n < 2: c.n += 1\n  return x * c.n", 3),
}

TENSORS = {
    "attribute": ("c = thing()\ndef f(x):\n  c.last = x * 2\n  return x + 1", 1),
    "attribute that was there": ("c = thing(last=None)\ndef f(x):\n  c.last = x * 2\n  return x + 1", 1),
    "returned too": ("c = thing()\ndef f(x):\n  c.last = x * 2\n  return c.last", 1),
    "the argument": ("c = thing()\ndef f(x):\n  c.last = x\n  return x * 2", 1),
    "a parameter": ("w = torch.ones(3)\nc = thing()\ndef f(x):\n  c.last = w\n  return x * w", 1),
    "written twice": ("c = thing()\ndef f(x):\n  c.last = x * 2\n  c.last = c.last * 3\n  return x", 1),
    "read in the next call": (
        "c = thing(h=torch.zeros(3))\ndef f(x):\n  c.h = c.h * 0.5 + x.sum(0)\n  return x + c.h",
        1,
    ),
    "it grows": ("c = thing(h=torch.zeros(0, 3))\ndef f(x):\n  c.h = torch.cat([c.h, x])\n  return c.h.sum(0)", None),
    "changed in place after it was kept": ("c = thing()\ndef f(x):\n  c.last = y = x * 2\n  y.add_(1)\n  return x", 1),
    "a view of the result": ("c = thing()\ndef f(x):\n  y = x * 2\n  c.last = y[0]\n  return y", 1),
    "a view of the argument": ("c = thing()\ndef f(x):\n  c.last = x[0]\n  return x + 1", 1),
    "global": ("last = None\ndef f(x):\n  global last\n  last = x * 2\n  return x", 1),
    "nonlocal": (
        """
        def make():
            last = None
            def f(x):
                nonlocal last
                last = x * 2
                return x
            return f, lambda: last
        f, g = make()
        """,
        1,
    ),
    "class attribute": ("class C: last = None\ndef f(x):\n  C.last = x * 2\n  return x", 1),
    "size of a tensor": ("c = thing()\ndef f(x):\n  c.n = x.shape[0]\n  c.s = x.shape\n  return x", 1),
    "detached": ("c = thing()\ndef f(x):\n  c.last = (x * 2).detach()\n  return x", 1),
    "none in its place": (
        "c = thing(h=torch.ones(3))\ndef f(x):\n  if c.h is not None: x = x * c.h\n  c.h = None\n  return x",
        2,
    ),
}

MODULES = {
    "buffer bound anew": (
        """
        class M(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer('b', torch.zeros(3))
            def forward(self, x):
                self.b = self.b * 0.5 + x.mean(0)
                return x - self.b
        f = M()
        """,
        1,
    ),
    "buffer in place": (
        """
        class M(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer('b', torch.zeros(3))
            def forward(self, x):
                self.b.mul_(0.5).add_(x.mean(0))
                return x - self.b
        f = M()
        """,
        1,
    ),
    "buffer registered": (
        """
        class M(nn.Module):
            def forward(self, x):
                if not hasattr(self, 'b'): self.register_buffer('b', torch.ones(3))
                return x * self.b
        f = M()
        """,
        2,
    ),
    "batch norm": ("f = nn.BatchNorm1d(3)", 1),
    "child's attribute": (
        """
        class Child(nn.Module):
            def forward(self, x):
                self.seen = x * 2
                self.calls = getattr(self, 'calls', 0) + 1
                return x
        f = nn.Sequential(Child(), nn.Linear(3, 3))
        """,
        None,
    ),
    "submodule made": (
        """
        class M(nn.Module):
            def forward(self, x):
                if not hasattr(self, 'act'): self.act = nn.Tanh()
                return self.act(x)
        f = M()
        """,
        2,
    ),
    "hook that records": (
        "v = []\nf = nn.Sequential(nn.Linear(3, 3))\nf[0].register_forward_hook(lambda m, args, out: v.append(out))",
        1,
    ),
    "training": (
        "class M(nn.Module):\n  def forward(self, x):\n    self.training = not self.training\n    return x\nf = M()",
        2,
    ),
    "keys and values": (
        """
        class M(nn.Module):
            def __init__(self):
                super().__init__()
                self.cache = []
            def forward(self, x):
                self.cache.append((x * 2, x * 3))
                return torch.cat([k for k, _ in self.cache]).sum(0)
        f = M()
        """,
        None,
    ),
}

CONTAINERS = {
    "append a tensor": ("v = []\ndef f(x):\n  v.append(x * 2)\n  return x", 1),
    "append a number": ("v = []\ndef f(x):\n  v.append(3)\n  return x", 1),
    "append and read": ("v = [1.0]\ndef f(x):\n  v.append(2.0)\n  return x * len(v)", None),
    "append in a loop": ("v = []\ndef f(x):\n  for i in range(3): v.append((i, x * i))\n  return x", 1),
    "item, then append": ("v = [0]\ndef f(x):\n  v[0] = x.sum()\n  v.append(3)\n  return x", 1),
    "whole, then changed": (
        "d = {'a': 1, 'b': 2}\ndef f(x):\n  e = {**d}\n  d.update(b=d.get('c', len(e)))\n  return x * d['b']",
        2,
    ),
    "frozen set |=": ("s = frozenset({1})\ndef f(x):\n  global s\n  s |= {len(s), 2}\n  return x * len(s)", 3),
    "extend and insert": ("v = [0]\ndef f(x):\n  v.extend([1, x * 2])\n  v.insert(0, x)\n  return x", None),
    "pop": ("v = [1.0] * 9\ndef f(x): return x * v.pop()", None),
    "remove, clear": ("v = [1, 2]\ndef f(x):\n  if v: v.remove(v[0])\n  else: v.clear()\n  return x", 3),
    "item": ("v = [0, 0]\ndef f(x):\n  v[1] = x * 2\n  return x", 1),
    "item from the end": ("v = [0, 0]\ndef f(x):\n  v[-1] = x * 2\n  return x + v[1]", 1),
    "slice": ("v = [0, 0]\ndef f(x):\n  v[:] = [x * 2, 1, 2]\n  return x", None),
    "delete an item": ("v = [0] * 9\ndef f(x):\n  del v[0]\n  return x", None),
    "delete a slice": ("v = [0] * 9\ndef f(x):\n  del v[:2]\n  return x", None),
    "+=": ("v = [0]\ndef f(x):\n  global v\n  v += [x * 2]\n  return x", None),
    "sort and reverse": ("v = [3, 1, 2]\ndef f(x):\n  v.sort()\n  v.reverse()\n  return x * v[0]", None),
    "dict item": ("d = {}\ndef f(x):\n  d['k'] = x * 2\n  d[1] = 2\n  return x", 2),
    "dict item deleted": ("d = {'k': 1, 'j': 1}\ndef f(x):\n  if 'k' in d: del d['k']\n  return x", 2),
    "dict |=": ("d = {}\ndef f(x):\n  global d\n  d |= {'k': x * 2}\n  return x", None),
    "dict cleared": ("d = {1: 2}\ndef f(x):\n  d.clear()\n  d[2] = x\n  return x", 2),
    "dict order": ("d = {'a': 1, 'b': 2}\ndef f(x):\n  d['a'] = d.pop('a')\n  return x * 2", None),
    "default dict": ("d = defaultdict(list)\ndef f(x):\n  d['k'].append(x * 2)\n  return x", None),
    "ordered dict": ("d = OrderedDict(a=1, b=2)\ndef f(x):\n  d.move_to_end('a')\n  d['c'] = x\n  return x", None),
    "set": ("s = {1}\ndef f(x):\n  s.add(2)\n  s.discard(1)\n  return x", 2),
    "set |=": ("s = {1}\ndef f(x):\n  global s\n  s |= {2, 3}\n  return x * len(s)", 2),
    "deque": ("v = deque(maxlen=2)\ndef f(x):\n  v.append(x * 2)\n  return x", None),
    "nested and outer": ("d = {'a': {'v': []}}\ndef f(x):\n  d['a']['v'].append(x * 2)\n  return x", 1),
    "by another name": ("c = thing(d={})\ndef f(x):\n  d = c.d\n  d['k'] = 2.0\n  return x * c.d['k']", 2),
    "in a helper": ("v = []\ndef g(w, x): w.append(x)\ndef f(x):\n  g(v, x * 2)\n  return x", 1),
    "by an operator": ("d = {}\ndef f(x):\n  operator.setitem(d, 'k', x * 2)\n  return x", 2),
    "by list.append": ("v = []\ndef f(x):\n  list.append(v, x * 2)\n  return x", None),
    "by a bound append": ("v = []\nadd = v.append\ndef f(x):\n  add(x * 2)\n  return x", None),
    "by a heap": ("import heapq\nv = [3, 5]\ndef f(x):\n  heapq.heappush(v, 1)\n  return x * v[0]", None),
    "containers without tensors": ("v = []\ndef f(x):\n  v.append({'w': [1]})\n  return x", 1),
    "one in two places": ("v = []\nd = {}\ndef f(x):\n  w = [1]\n  v.append(w)\n  d['w'] = w\n  return w", 1),
    "lists made by C code": ("v = []\nw = [(1, 2)]\ndef f(x):\n  v.append(list(map(list, w)))\n  return x", 1),
    "a deque of tensors": ("v = []\ndef f(x):\n  v.append(deque([x * 2]))\n  return x", 1),
    "dict order of what is made": (
        "d = {'a': 1, 'b': 2}\ndef f(x):\n  d.pop('a', None)\n  d['a'] = d.setdefault('c', 7)\n  return x",
        None,
    ),
    "by a comprehension": ("v = []\ndef f(x):\n  [v.append(i) for i in range(2)]\n  return x", 1),
    "by map": ("v = []\ndef f(x):\n  list(map(v.append, [1, x * 2]))\n  return x", None),
}

OBJECTS = {
    "deleted": ("c = thing(k=1)\ndef f(x):\n  if hasattr(c, 'k'): del c.k\n  return x", 2),
    "setattr and delattr": (
        "c = thing(k=1)\ndef f(x):\n  setattr(c, 'j', x * 2)\n  hasattr(c, 'k') and delattr(c, 'k')\n  return x",
        3,
    ),
    "object.__setattr__": ("c = thing(k=1)\ndef f(x):\n  object.__setattr__(c, 'k', x * 2)\n  return x", 1),
    "__dict__": ("c = thing(k=1)\ndef f(x):\n  vars(c)['k'] = x * 2\n  c.__dict__.update(j=1)\n  return x", 2),
    "dict methods": (
        """
        d = {'a': 1}
        def f(x):
            d.update(b=x * 2, c=3)
            d.setdefault('e', []).append(x)
            d.pop('a', None)
            return x * len(d)
        """,
        None,
    ),
    "default set": (
        "d = {'a': 1, 'b': 2}\ndef f(x):\n  d.setdefault('a', 3)\n  d.setdefault('z', x * 2)\n  return x",
        None,
    ),
    "slots": (
        "class C: __slots__ = 'k', 'j'\nc = C()\nc.j = 1\ndef f(x):\n  c.k = x * 2\n  c.j += 1\n  return x",
        None,
    ),
    "property": (
        """
        class C:
            @property
            def k(self): return self._k
            @k.setter
            def k(self, v): self._k = v * 2
        c = C()
        def f(x):
            c.k = x
            return x + c.k
        """,
        1,
    ),
    "__setattr__": (
        """
        class C:
            def __setattr__(self, name, value): object.__setattr__(self, '_' + name, value)
        c = C()
        def f(x):
            c.k = x * 2
            return x
        """,
        1,
    ),
    "__setitem__": (
        """
        class C:
            def __init__(self): self.d = {}
            def __setitem__(self, k, v): self.d[k] = v
        c = C()
        def f(x):
            c['k'] = x * 2
            return x
        """,
        2,
    ),
    "data class": (
        "@dataclass\nclass C:\n  last: object = None\n  n: int = 0\nc = C()\n"
        "def f(x):\n  c.last = x * 2\n  c.n += 1\n  return x",
        None,
    ),
    "class from a method": (
        "class C:\n  n = 0\n  def g(self):\n    type(self).n += 1\nc = C()\ndef f(x):\n  c.g()\n  return x * c.n",
        None,
    ),
    "containers made inside": (
        "c = thing()\ndef f(x):\n  c.made = {'k': [x, (x * 2, 1)], 's': {1, 2}, 'n': None}\n  return x",
        1,
    ),
    "each call its own container": ("v = []\ndef f(x):\n  v.append([x * 2, {}])\n  return x", 1),
    "containers that share": (
        "c = thing()\ndef f(x):\n  w = [x * 2]\n  c.a, c.b = w, {'w': w}\n  w.append(1)\n  return x",
        1,
    ),
    "a cycle": ("c = thing()\ndef f(x):\n  w = [x * 2]\n  w.append(w)\n  c.w = w\n  return x", 1),
    "objects made inside": (
        "class P:\n  def __init__(self, w): self.w = w\nc = thing()\n"
        "def f(x):\n  c.p = P(x * 2)\n  c.q = thing(n=1)\n  return x",
        1,
    ),
    "objects without tensors": ("v = []\ndef f(x):\n  v.append(thing(k=thing()))\n  return x", 1),
    "constructor of another name": (
        "class A: __init__ = lambda self: setattr(self, 'k', [4])\nv = []\ndef f(x):\n  v.append(A())\n  return x",
        1,
    ),
    "slots of an object made inside": (
        "class S: __slots__ = 'u', 'n'\nv = []\ndef f(x):\n  s = S()\n  s.u = x * 2\n  v.append(s)\n  return s.u",
        1,
    ),
    "an object that has all attributes": (
        "class A:\n  def __getattr__(self, name): return 1\nv = []\ndef f(x):\n  v.append(A())\n  return x",
        1,
    ),
    "a function of outer and inner variables": (
        """
        def make():
            n = 0
            def f(x):
                k = [1]
                def g():
                    nonlocal n
                    n += 1
                    k.append(n)
                    return k
                return g
            return f
        f = make()
        """,
        1,
    ),
    "a class made inside": ("v = []\ndef f(x):\n  class L: k = 2\n  v.append(L())\n  return x * len(v)", None),
    "containers kept and written later": (
        "c = thing(v=None)\ndef f(x):\n  if c.v is None: c.v = []\n  c.v.append(x * 2)\n  return x",
        None,
    ),
    "made inside and returned": ("c = thing()\ndef f(x):\n  c.w = w = [x * 2, 3]\n  return w", 1),
    "an outer object kept elsewhere": ("v = []\nc = thing()\ndef f(x):\n  c.v = v\n  c.v.append(1)\n  return x", 2),
    "a named tuple": ("P = namedtuple('P', 'a b')\nc = thing()\ndef f(x):\n  c.p = P(x * 2, 1)\n  return x", 1),
    "swapped": ("c = thing(a=[1.0], b=[2.0])\ndef f(x):\n  c.a, c.b = c.b, c.a\n  return x * c.a[0]", 2),
    "nothing is left": ("c = thing(k=1)\ndef f(x):\n  old = c.k\n  c.k = 2\n  x = x * c.k\n  c.k = old\n  return x", 1),
    "a context manager's own": (
        """
        c = thing(k=1.0)
        @contextlib.contextmanager
        def set_to(v):
            old, c.k = c.k, v
            try: yield
            finally: c.k = old
        def f(x):
            with set_to(3.0): x = x * c.k
            return x + c.k
        """,
        1,
    ),
}

# How far they are cannot be seen: their programs serve one call.
ITERATORS = {
    "of a list": ("it = iter([1.0, 2.0, 3.0, 4.0])\ndef f(x): return x * next(it)", None),
    "in a loop": ("it = iter([1.0, 2.0, 3.0, 4.0])\ndef f(x):\n  for k in it: return x * k", None),
    "generator": ("it = (k * 2 for k in range(9))\ndef f(x): return x * next(it)", None),
    "bound method": ("tick = itertools.count().__next__\ndef f(x): return x * tick()", None),
    "in an attribute": ("c = thing(it=itertools.cycle([1.0, 2.0]))\ndef f(x): return x * next(c.it)", None),
    "default": ("def f(x, it=itertools.count()): return x * next(it)", None),
    "zipped": ("it = iter([1.0, 2.0, 3.0, 4.0])\ndef f(x): return sum(x * k for k, _ in zip([5.0], it))", None),
    "made inside": ("v = [1.0, 2.0]\ndef f(x):\n  it = iter(v)\n  return x * next(it) * next(it)", 1),
    "made inside and kept": ("v = []\ndef f(x):\n  v.append(iter([1, 2]))\n  return x * next(v[-1])", None),
}

GROUPS = {
    "counter": COUNTERS,
    "tensor": TENSORS,
    "module": MODULES,
    "container": CONTAINERS,
    "object": OBJECTS,
    "iterator": ITERATORS,
}
CASES = {f"{group}: {name}": case for group, cases in GROUPS.items() for name, case in cases.items()}

# (source, call, what is done afterwards): gradients flow through what was kept.
GRADIENTS = {
    "attribute": ("c = thing()\ndef f(x):\n  c.last = x * 3\n  return x * 2", "f(x)", "c.last.sum().backward()"),
    "both": ("c = thing()\ndef f(x):\n  c.last = x.sin()\n  return x * 2", "f(x)", "(c.last * out).sum().backward()"),
    "list": (
        "v = []\ndef f(x):\n  v.append(x.exp())\n  return x * 2",
        "f(x)",
        "sum(v).sum().backward(retain_graph=True)",
    ),
    "parameters": (
        """
        class M(nn.Module):
            def __init__(self):
                super().__init__()
                self.lin = nn.Linear(3, 3)
            def forward(self, x):
                self.hidden = self.lin(x)
                return self.hidden.tanh()
        f = M()
        """,
        "f(x)",
        "(out.sum() + f.hidden.square().sum()).backward()",
    ),
    "auxiliary losses": (
        """
        losses = []
        class M(nn.Module):
            def __init__(self):
                super().__init__()
                self.lin = nn.Linear(3, 3)
            def forward(self, x):
                y = self.lin(x)
                losses.append(y.square().mean())
                return y
        f = nn.Sequential(M(), M())
        """,
        "f(x)",
        "(out.sum() + sum(losses)).backward(); losses.clear()",
    ),
    "through the last call": (
        "c = thing(h=torch.zeros(3))\ndef f(x):\n  c.h = c.h * 0.5 + x.sum(0)\n  return c.h * 2",
        "f(x)",
        "out.sum().backward(retain_graph=True)",
    ),
    "detached": (
        "c = thing()\ndef f(x):\n  y = x * 2\n  c.last = y.detach()\n  return y",
        "f(x)",
        "out.sum().backward()",
    ),
    "no_grad": (
        "c = thing()\ndef f(x):\n  with torch.no_grad(): c.last = x * 2\n  return x * 3",
        "f(x)",
        "out.sum().backward()",
    ),
    "argument that is a list": (
        "def f(x, v):\n  v.append(x * 3)\n  return x * 2",
        "f(x, kept := [])",
        "kept[0].sum().backward()",
    ),
}

# Programs that fail after a write: (source, call).
FAILURES = {
    "attribute": ("c = thing(n=0)\ndef f(x):\n  c.n += 1\n  raise ValueError('after')", "f(x)"),
    "list": ("v = []\ndef f(x):\n  v.append(1)\n  v.append(x * 2)\n  raise ValueError('after')", "f(x)"),
    "once": (
        "c = thing(n=0)\ndef f(x):\n  c.n += 1\n  if c.n == 2: raise ValueError('after')\n  return x * c.n",
        "f(x)",
    ),
    "caught inside": (
        "v = []\ndef g():\n  v.append(1)\n  raise ValueError\n"
        "def f(x):\n  try: g()\n  except ValueError: v.append(2)\n  return x",
        "f(x)",
    ),
    "torch's error": ("v = []\ndef f(x):\n  v.append(1)\n  return x @ torch.ones(7, 7)", "f(x)"),
}

# What may be refused, but neither lost nor left with the compiler's own objects in it.
HARD = {
    "closure": "c = thing()\ndef f(x):\n  y = x * 2\n  c.g = lambda z: z * y\n  return x",
    "generator": "c = thing()\ndef f(x):\n  y = x * 2\n  c.g = (y * i for i in range(2))\n  return x",
    "bound method": "c = thing()\ndef f(x):\n  c.g = (x * 2).add\n  return x",
    "partial": "c = thing()\ndef f(x):\n  c.g = partial(torch.add, x * 2)\n  return x",
    "hook registered": (
        "m = nn.Linear(3, 3)\ndef f(x):\n  m.register_forward_hook(lambda m, a, out: out + 1)\n  return m(x)"
    ),
    "gradient": (
        "w = torch.ones(3, requires_grad=True)\nw.grad = torch.ones(3)\ndef f(x):\n  w.grad = None\n  return x * w"
    ),
    "cached property": (
        "class C:\n  @functools.cached_property\n  def k(self): return 2.0\nc = C()\ndef f(x): return x * c.k"
    ),
    "class with a tensor": "v = []\ndef f(x):\n  class L: w = x * 2\n  v.append(L)\n  return x",
    "printed": "import io\nout_file = io.StringIO()\ndef f(x):\n  print('called', file=out_file)\n  return x",
}
