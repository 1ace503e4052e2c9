"""Programs for test_effects.py that write to their arguments: (source, call)."""

ARGUMENTS = {
    "attributes of containers change": (
        "class L(list): k = 2.0\nclass D(dict): k = 2.0\nclass T(tuple): k = 2.0\n"
        "v, d, t = L([1.0]), D(a=1.0), T([1.0])\nv.k = d.k = t.k = 3.0\n"
        "def f(x, v, d, t): return x * v.k * v[0], x * d.k * d['a'], x * t.k * t[0]",
        "f(x, v, d, t), [setattr(c, 'k', c.k + 1) for c in (v, d, t)]",
    ),
    "list": ("v = []\ndef f(x, v):\n  v.append(x * 2)\n  return x", "f(x, v)"),
    "list changed all over": (
        "v = [1, torch.ones(3)]\ndef f(x, v):\n  v.reverse()\n  v.insert(0, x * len(v))\n  return x + v[1]",
        "f(x, v)",
    ),
    "dict": ("d = {}\ndef f(x, d):\n  d['k'] = x * 2\n  return x", "f(x, d)"),
    "dict's order": ("d = {'a': 1, 'b': 2}\ndef f(x, d):\n  d['a'] = d.pop('a') + 1\n  return x * d['a']", "f(x, d)"),
    "dict with defaults": (
        "d = defaultdict(list)\ndef f(x, d):\n  d['k'].append(x * 2)\n  return x * len(d['k'])",
        "f(x, d)",
    ),
    "nested": ("d = {'v': []}\ndef f(x, d):\n  d['v'].append(1)\n  return x", "f(x, d=d)"),
    "outer forgets inner": (
        "v = [[1.0]]\ndef f(x, v):\n  w = v.pop()\n  w.append(x)\n  v.append([w])\n  return x",
        "f(x, v)",
    ),
    "returned": ("v, d = [], {'a': 1}\ndef f(x, v, d):\n  v.append(d)\n  return v, {'d': d}", "f(x, v, d)"),
    "kept outside": ("c, v = thing(), [1.0]\ndef f(x, v):\n  c.v = v\n  v[0] += 1\n  return x * v[0]", "f(x, v)"),
    "same list twice": ("v = []\ndef f(x, v, w):\n  v.append(x * 2)\n  return x * len(w)", "f(x, v, v)"),
    "cycle": ("v = [1.0]\nv.append(v)\ndef f(x, v):\n  v[1][0] += 1\n  return x * v[0]", "f(x, v)"),
    "object of tensors": (
        "c = thing(h=torch.zeros(3))\ndef f(x, c):\n  c.h = c.h + x.sum(0)\n  c.layers = [x]\n  return x * 2",
        "f(x, c)",
    ),
    "attribute deleted": ("def f(x, c):\n  del c.k\n  c.j = 1\n  return x", "f(x, c := thing(k=1))"),
    "dataclass": (
        "@dataclass\nclass C:\n  h: object\n  n: int = 0\nc = C(torch.ones(3))\n"
        "def f(x, c):\n  c.h, c.n = c.h + x, c.n + 1\n  return x * c.n",
        "f(x, c)",
    ),
    "list of a class of its own": (
        "class L(list): k = 2.0\nv = L([1.0])\ndef f(x, v):\n  v.append(x)\n  v.n = len(v)\n  return x * v.k",
        "f(x, v)",
    ),
    "dict of a class of its own": (
        "class D(dict): pass\nd = D(a=1.0)\nd.n = 1\n"
        "def f(x, d):\n  d['a'] += 1\n  d.n += 1\n  return x * d.n * d['a']",
        "f(x, d)",
    ),
    "dataclass with more": (
        "@dataclass\nclass C:\n  k: float = 2.0\n  def __post_init__(self): self.n = self.k + 1\nc = C()\n"
        "def f(x, c):\n  c.n += c.k\n  return x * c.n",
        "f(x, c)",
    ),
    "set": ("s = {1.0}\ndef f(x, s):\n  s.add(len(s) + 10)\n  return x * sum(s)", "f(x, s)"),
    "counter": (
        "c = collections.Counter('aab')\nd = collections.Counter('a')\n"
        "def f(x, c):\n  c.update('b')\n  d.update(c)\n  return x * c['b'] * d['a']",
        "f(x, c)",
    ),
    "dataclass with slots": (
        "@dataclass(slots=True)\nclass C:\n  h: object\nc = C(torch.ones(3))\n"
        "def f(x, c):\n  c.h = c.h + x\n  return x",
        "f(x, c)",
    ),
    "global, too": ("c = thing(n=0)\ndef f(x, k):\n  c.n += 1\n  return x * k.n", "f(x, c)"),
    "known by identity": (
        "missing, other = thing(), thing()\ndef f(x, k): return x * 2 if k is missing else x",
        "f(x, missing) + f(x, other)",
    ),
    "list that is a global, too": ("v = [1.0]\ndef f(x, w):\n  w.append(2.0)\n  return x * len(v)", "f(x, v)"),
    "list that is written as a global": ("v = [1.0]\ndef f(x, w):\n  v.append(x)\n  return x * len(w)", "f(x, v)"),
    "list that is a global, too, and raises": (
        "v = [1.0]\ndef f(x, w):\n  v.clear()\n  w.append(2.0)\n  return x * v[0]",
        "f(x, v)",
    ),
    "dict in an object outside": (
        "c = thing(d={'k': 1.0})\ndef f(x, d):\n  d['k'] += 1\n  return x * c.d['k']",
        "f(x, c.d)",
    ),
    "iterator": ("def f(x, it): return x * next(it)", "f(x, it := iter([1.0])), next(it, None)"),
    "written though it was so already": (
        "c = thing(k=1)\ndef f(x):\n  c.k = 1\n  return x",
        "f(x), c.k, setattr(c, 'k', 2), f(x), c.k",
    ),
    "a property that is replaced": (
        """
        class C:
            @property
            def k(self): return self._k
            @k.setter
            def k(self, v): self._k = v * 2
        c = C()
        def f(x):
            c.k = 3
            return x
        """,
        "f(x), vars(c).copy(), setattr(C, 'k', 1), f(x)",
    ),
    "deleted from a dict": (
        "d = {'k': 1}\ndef f(x):\n  try: del d['k']\n  except KeyError: return x * 3\n  return x",
        "f(x), f(x)",
    ),
    "deleted from a slot": (
        "class S: __slots__ = 'k'\ns = S()\n"
        "def f(x):\n  try: del s.k\n  except AttributeError: s.k = 1\n  return x * hasattr(s, 'k')",
        "f(x), f(x)",
    ),
    "key of a dict": ("def f(x, c, d): return x * d[c] * d.get(c, 1)", "f(x, c := thing(), {c: 2.0})"),
    "inside of inner object": (
        "c = thing(inner=thing(v=[]))\ndef f(x, c):\n  c.inner.v.append(x + 1)\n  return sum(c.inner.v)",
        "f(x, c)",
    ),
    "object": ("c = thing(n=0)\ndef f(x, c):\n  c.n += 1\n  c.last = x * 2\n  return x * c.n", "f(x, c)"),
    "own keywords": ("def f(x, **k):\n  k['a'] = 2\n  return x * k['a']", "f(x, a=1)"),
    "memory that two of them share": (
        "c = thing(n=0)\ndef f(a, b):\n  c.n += 1\n  a.add_(1)\n  return b * 2",
        "f(x, x[0])",
    ),
}
