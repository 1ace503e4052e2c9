"""Worlds for test_soundness.py: programs that read objects and functions."""

ATTRIBUTES = {
    "special methods that were not there": (
        "class C: k = 2.0\nc = C()\ndef f(x): return x * c.k * getattr(c, 'j', 1) if c else x",
        "C.__getattr__ = lambda self, name: 3",
        "C.__getattribute__ = lambda self, name: 4.0",
        "C.__bool__ = lambda self: False",
    ),
    "instance": ("c = thing(k=2.0)\ndef f(x): return x * c.k", "c.k = 3.0", "c = thing(k=4.0)"),
    "of an attribute": ("c = thing(d=thing(k=2.0))\ndef f(x): return x * c.d.k", "c.d.k = 3.0", "c.d = thing(k=4.0)"),
    "class": ("class C: k = 2.0\nc = C()\ndef f(x): return x * c.k", "C.k = 3.0", "c.k = 4.0", "del c.k"),
    "class of an object made inside": (
        "class B: k = 2.0\nclass C(B): pass\ndef f(x): return x * C().k",
        "B.k = 3.0",
        "C.k = 4.0",
    ),
    "method of an object made inside": (
        "class C:\n  def m(self): return 2.0\ndef f(x): return x * C().m()",
        "C.m = lambda self: 3.0",
    ),
    "class below one made inside": (
        "class B: k = 2.0\ndef f(x):\n  class C(B): pass\n  return x * C().k * C.k",
        "B.k = 3.0",
    ),
    "class below one that is written to": (
        "class B: k = 2.0\nclass C(B): pass\ndef f(x):\n  B.k = 3.0\n  return x * C.k",
        "C.k = 4.0",
        "del C.k",
    ),
    "class of an object, below one that is written to": (
        "class A: k = 1.0\nclass B(A): pass\nclass C(B): pass\nc = C()\ndef f(x):\n  A.k = 3.0\n  return x * c.k",
        "B.k = 4.0",
        "C.k = 5.0",
        "c.k = 6.0",
    ),
    "class with an entry of its own, below one that is written to": (
        "class A: k = 'b'\nclass B(A): k = 'a'\ndef f(x):\n  A.k = 'c'\n  return x * (1 if B.k == 'a' else 2)",
        "A.k = 'a'; del B.k",
    ),
    "class above one of which an attribute is deleted": (
        "class B: k = 2.0\nclass C(B): pass\ndef f(x):\n  C.k = 3.0\n  del C.k\n  return x * C.k",
        "B.k = 4.0",
    ),
    "class pattern": (
        """
        class P:
            __match_args__ = ('k',)
        p = P()
        p.k, p.j = 2.0, 1
        def f(x):
            match p:
                case P(2.0): return x
                case P(k, j=1): return x * k
                case P(k, j=j): return x * k + j
        """,
        "p.k = 3.0",
        "p.k = 4.0",
        "p.j = 5",
        "p.n, P.__match_args__ = 6.0, ('n',)",
    ),
    "class by itself": ("class C: k = 2.0\ndef f(x): return x * C.k", "C.k = 3.0"),
    "base class": ("class B: k = 2.0\nclass C(B): pass\nc = C()\ndef f(x): return x * c.k", "B.k = 3.0", "C.k = 4.0"),
    "base classes exchanged": (
        "class A: k = 2.0\nclass B: k = 3.0\nclass C(A): pass\nc = C()\ndef f(x): return x * c.k",
        "C.__bases__ = (B,)",
    ),
    "appears": ("c = Thing()\ndef f(x): return x * getattr(c, 'k', 1.0)", "c.k = 3.0", "del c.k"),
    "appears on the class": ("class C: pass\nc = C()\ndef f(x): return x * getattr(c, 'k', 1.0)", "C.k = 3.0"),
    "hasattr": ("c = Thing()\ndef f(x): return x if hasattr(c, 'k') else -x", "c.k = 3.0", "del c.k"),
    "missing": (
        """
        c = Thing()
        def f(x):
            try: return x * c.k
            except AttributeError: return x
        """,
        "c.k = 2.0",
    ),
    "computed name": ("c = thing(a=2.0, b=3.0)\nn = 'a'\ndef f(x): return x * getattr(c, n)", "n = 'b'", "c.b = 4.0"),
    "property": (
        """
        class C:
            @property
            def k(self): return self._k * 2
        c = C()
        c._k = 2.0
        def f(x): return x * c.k
        """,
        "c._k = 3.0",
        "C.k = property(lambda self: 7.0)",
    ),
    "slots": (
        """
        class C: __slots__ = 'k', 'd'
        c = C()
        c.k = 2.0
        def f(x): return x * c.k if not hasattr(c, 'd') else x
        """,
        "c.k = 3.0",
        "c.d = 1",
    ),
    "__getattr__": (
        """
        class C:
            def __getattr__(self, name): return len(name) * self.k
        c = C()
        c.k = 2.0
        def f(x): return x * c.abc
        """,
        "c.k = 3.0",
        "c.abc = 1.0",
    ),
    "__getattribute__": (
        """
        table = {'k': 2.0}
        class C:
            def __getattribute__(self, name): return table[name]
        c = C()
        def f(x): return x * c.k
        """,
        "table['k'] = 3.0",
    ),
    "descriptor": (
        """
        class D:
            def __get__(self, owner, cls): return owner.base + self.more
        class C: k = D()
        c = C()
        c.base = 1.0
        D.more = 1.0
        def f(x): return x * c.k
        """,
        "c.base = 3.0",
        "D.more = 2.0",
        "C.__dict__['k'].more = 3.0",
    ),
    "cached property": (
        """
        class C:
            @functools.cached_property
            def k(self): return 2.0
        c = C()
        c.k
        def f(x): return x * c.k
        """,
        "c.k = 3.0",
    ),
    "__dict__": ("c = thing(k=2.0)\ndef f(x): return x * vars(c)['k'] + c.__dict__['k']", "c.k = 3.0"),
    "all of __dict__": ("c = thing(k=2.0)\ndef f(x): return x * sum(vars(c).values())", "c.k = 3.0", "c.j = 1.0"),
    "class exchanged": (
        """
        class A:
            def scaled(self, x): return x * 2
        class B:
            def scaled(self, x): return x * 3
        c = A()
        def f(x): return c.scaled(x)
        """,
        "c.__class__ = B",
    ),
    "simple namespace": ("c = SimpleNamespace(k=2.0)\ndef f(x): return x * c.k", "c.k = 3.0"),
    "data class": (
        """
        @dataclass
        class Config:
            k: float = 2.0
            layers: list = field(default_factory=lambda: [1.0])
        c = Config()
        def f(x): return x * c.k + sum(c.layers)
        """,
        "c.k = 3.0",
        "c.layers.append(4.0)",
        "c = Config(k=5.0)",
        "c = dataclasses.replace(c, layers=[])",
    ),
    "frozen data class": (
        "@dataclass(frozen=True)\nclass C: k: float = 2.0\nc = C()\ndef f(x): return x * c.k",
        "c = C(3.0)",
        "object.__setattr__(c, 'k', 4.0)",
    ),
    "data classes compared": (
        "@dataclass\nclass C: k: float = 2.0\nc, d = C(), C()\ndef f(x): return x if c == d else -x",
        "c.k = 3.0",
        "d.k = 3.0",
    ),
    "enum": (
        """
        class Mode(enum.Enum):
            SIN = 'sin'
            COS = 'cos'
        mode = Mode.SIN
        def f(x): return x.sin() if mode is Mode.SIN else getattr(x, mode.value)()
        """,
        "mode = Mode.COS",
    ),
    "flag enum": (
        "class Bits(enum.Flag):\n  A = 1\n  B = 2\nb = Bits.A\ndef f(x): return x if Bits.B in b else -x",
        "b = Bits.A | Bits.B",
    ),
    "type": ("c = thing(v=1)\ndef f(x): return x if isinstance(c.v, int) else -x", "c.v = 1.0", "c.v = True"),
    "type of": ("c = thing(v=1)\ndef f(x): return x if type(c.v) is int else -x", "c.v = True"),
    "type of an object": (
        "class A: pass\nclass B: pass\nc = thing(v=A())\ndef f(x): return x if isinstance(c.v, A) else -x",
        "c.v = B()",
    ),
    "identity": ("a, b = thing(), thing()\nc = thing(v=a)\ndef f(x): return x if c.v is a else -x", "c.v = b", "a = b"),
    "int and float": ("c = thing(v=1)\ndef f(x): return x.to(torch.int32) * c.v", "c.v = 1.0", "c.v = True"),
    "minus zero": ("c = thing(v=0.0)\ndef f(x): return (x.abs() + 1) / c.v", "c.v = -0.0"),
    "complex": ("c = thing(v=1j)\ndef f(x): return x * c.v", "c.v = 2j"),
    "dtype": ("c = thing(v=torch.float32)\ndef f(x): return x.to(c.v)", "c.v = torch.float64"),
    "__len__ and __bool__": (
        """
        class C:
            def __len__(self): return self.n
        c = C()
        c.n = 0
        def f(x): return x * len(c) if c else -x
        """,
        "c.n = 2",
        "C.__bool__ = lambda self: False",
    ),
    "__getitem__": (
        """
        class C:
            def __getitem__(self, i): return self.v[i]
        c = C()
        c.v = [1.0, 2.0]
        def f(x): return x * c[1] + sum(k for k in c)
        """,
        "c.v[1] = 3.0",
        "c.v.append(1.0)",
    ),
    "__iter__ and __contains__": (
        """
        class C:
            def __init__(self): self.v = [1.0, 2.0]
            def __iter__(self): return iter(self.v)
            def __contains__(self, k): return k + 1 in self.v
        c = C()
        def f(x): return x * sum(c) if 1.0 in c else -x
        """,
        "c.v[0] = 3.0",
        "c.v[1] = 5.0",
    ),
    "__eq__ and __hash__": (
        """
        class C:
            def __init__(self, k): self.k = k
            def __eq__(self, other): return self.k == other.k
            def __hash__(self): return hash(self.k)
        a, b = C(1.0), C(1.0)
        def f(x): return x if a == b else -x
        """,
        "b.k = 2.0",
    ),
    "operators": (
        """
        class C:
            def __init__(self, k): self.k = k
            def __add__(self, other): return self.k + other.k
            def __neg__(self): return -self.k
        a, b = C(1.0), C(2.0)
        def f(x): return x * (a + b) + -a
        """,
        "b.k = 4.0",
        "a.k = 3.0",
    ),
    "attrgetter and itemgetter": (
        "c = thing(k=thing(v=[1.0]))\nget = operator.attrgetter('k.v')\nat = operator.itemgetter(0)\n"
        "def f(x): return x * at(get(c))",
        "c.k.v[0] = 2.0",
        "c.k = thing(v=[3.0])",
        "at = operator.itemgetter(-1); c.k.v.append(7.0)",
    ),
    "metaclass": (
        "class M(type): k = 2.0\nclass C(metaclass=M): pass\ndef f(x): return x * C.k",
        "M.k = 3.0",
        "C.k = 4.0",
    ),
    "tensor": (
        "c = thing(w=torch.ones(3))\ndef f(x): return x * c.w",
        "c.w = torch.ones(3) * 2",
        "c.w = torch.ones(2, 3) * 3",
        "c.w = 4.0",
        "c.w = torch.ones(3, requires_grad=True)",
    ),
    "tensor's own": ("w = torch.ones(3)\nw.k = 2.0\ndef f(x): return x * w * w.k", "w.k = 3.0"),
}

FUNCTIONS = {
    "cache": (
        "k = 2.0\n@functools.lru_cache\ndef g(n): return k * n\ndef f(x): return x * g(2) * g(n=2)",
        "k = 3.0; g.cache_clear()",
        "g = functools.cache(lambda n: k + n)",
    ),
    "cache of tensors": (
        "@functools.lru_cache\ndef g(n): return torch.full((n,), k)\nk = 2.0\ndef f(x): return x * g(x.shape[-1])",
        "g(3).add_(1)",
        "k = 4.0; g.cache_clear()",
    ),
    "cache of what is asked of PyTorch": (
        "@functools.lru_cache\ndef g(n): return n if torch.compiler.is_compiling() else k\n"
        "k = 2.0\ndef f(x): return x * g(9)",
        "k = 3.0; g.cache_clear()",
    ),
    "cache of lists": (
        "@functools.lru_cache\ndef g(n): return [n]\ndef f(x): return x * sum(g(2))",
        "g(2).append(3)",
        "g.cache_clear()",
    ),
    "cache of a function of tensors": (
        "k = 2.0\n@functools.lru_cache\ndef g(x): return x * k\ndef f(x): return g(x) + g(x)",
        "k = 3.0; g.cache_clear()",
    ),
    "helper": ("def g(x): return x * 2\ndef f(x): return g(x)", "def g(x): return x * 3", "g = torch.sin"),
    "helper's global": (
        "k = 2.0\ndef h(x): return x * k\ndef g(x): return h(x)\ndef f(x): return g(x)",
        "k = 3.0",
        "def h(x): return x - k",
    ),
    "helper's code": ("def g(x): return x * 2\ndef f(x): return g(x)", "g.__code__ = (lambda x: x * 3).__code__"),
    "own code": ("def f(x): return x * 2", "f.__code__ = (lambda x: x * 3).__code__"),
    "own defaults": ("def f(x, k=2.0): return x * k", "f.__defaults__ = (3.0,)"),
    "own keyword defaults": (
        "def f(x, *, k=2.0): return x * k",
        "f.__kwdefaults__ = {'k': 3.0}",
        "f.__kwdefaults__['k'] = 4.0",
    ),
    "helper's defaults": ("def g(x, k=2.0): return x * k\ndef f(x): return g(x)", "g.__defaults__ = (3.0,)"),
    "helper's keyword defaults": (
        "def g(x, *, k=2.0): return x * k\ndef f(x): return g(x)",
        "g.__kwdefaults__ = {'k': 3.0}",
        "g.__kwdefaults__['k'] = 4.0",
    ),
    "mutable default": ("def f(x, v=[1.0]): return x * v[0]", "f.__defaults__[0][0] = 3.0"),
    "function's attribute": ("def g(x): return x * g.k\ng.k = 2.0\ndef f(x): return g(x)", "g.k = 3.0"),
    "own attribute": ("def f(x): return x * f.k\nf.k = 2.0", "f.k = 3.0"),
    "method on the class": (
        """
        class C:
            def g(self, x): return x * 2
        c = C()
        def f(x): return c.g(x)
        """,
        "C.g = lambda self, x: x * 3",
        "c.g = lambda x: x * 4",
        "del c.g",
    ),
    "bound method": (
        """
        class C:
            k = 2.0
            def g(self, x): return x * self.k
        c = C()
        f = c.g
        """,
        "c.k = 3.0",
        "C.g.__code__ = (lambda self, x: x + self.k).__code__",
    ),
    "bound method kept": (
        "class C:\n  def g(self, x): return x * self.k\nc, d = C(), C()\nc.k, d.k = 2.0, 3.0\n"
        "m = c.g\ndef f(x): return m(x)",
        "m = d.g",
        "d.k = 4.0",
    ),
    "static and class methods": (
        """
        class C:
            k = 2.0
            @staticmethod
            def s(x): return x * 2
            @classmethod
            def c(cls, x): return x * cls.k
        def f(x): return C.s(x) + C.c(x)
        """,
        "C.k = 3.0",
        "C.s = staticmethod(lambda x: x * 3)",
        "C.c = classmethod(lambda cls, x: x)",
    ),
    "super": (
        """
        class B:
            def g(self, x): return x * 2
        class C(B):
            def g(self, x): return super().g(x) + 1
        c = C()
        def f(x): return c.g(x)
        """,
        "B.g = lambda self, x: x * 3",
        "B.g.__code__ = (lambda self, x: x * 4).__code__",
    ),
    "callable object": (
        """
        class C:
            k = 2.0
            def __call__(self, x): return x * self.k
        f = C()
        """,
        "f.k = 3.0",
        "C.__call__ = lambda self, x: x + self.k",
    ),
    "callable object as a helper": (
        """
        class C:
            k = 2.0
            def __call__(self, x): return x * self.k
        c = C()
        def f(x): return c(x)
        """,
        "c.k = 3.0",
        "C.__call__ = lambda self, x: x + self.k",
    ),
    "partial": (
        "def g(x, k, j=0.0): return x * k + j\np = partial(g, k=2.0)\ndef f(x): return p(x)",
        "p = partial(g, k=3.0)",
        "p.keywords['j'] = 1.0",
        "p.__setstate__((g, (), {'k': 5.0}, None))",
        "g.__code__ = (lambda x, k, j=0.0: x - k).__code__",
    ),
    "compiled partial": (
        "def g(x, k, j=0.0): return x * k + j\nf = partial(g, k=2.0)",
        "f.keywords['k'] = 3.0",
        "g.__defaults__ = (4.0,)",
    ),
    "decorated": (
        """
        def scaled(g):
            k = 2.0
            @functools.wraps(g)
            def wrapper(x): return g(x) * k
            def put(v):
                nonlocal k
                k = v
            wrapper.put = put
            return wrapper
        @scaled
        def g(x): return x + 1
        def f(x): return g(x)
        """,
        "g.put(3.0)",
        "g.__wrapped__.__code__ = (lambda x: x + 2).__code__",
    ),
    "decorator's wrapped function": (
        """
        def passed(g):
            @functools.wraps(g)
            def wrapper(*a, **k): return wrapper.__wrapped__(*a, **k)
            return wrapper
        @passed
        def f(x): return x + 1
        """,
        "f.__wrapped__ = lambda x: x + 2",
    ),
    "functions in a list": ("v = [torch.sin]\ndef f(x): return v[0](x)", "v[0] = torch.cos", "v[0] = lambda x: x * 2"),
    "table of functions": ("d = {'a': torch.sin}\ndef f(x): return d['a'](x)", "d['a'] = torch.cos"),
    "single dispatch": (
        """
        @functools.singledispatch
        def g(v, x): return x
        def f(x): return g(2, x)
        """,
        "g.register(int)(lambda v, x: x * v)",
    ),
    "generator": (
        "v = [1.0]\nk = 1.0\ndef g():\n  for i in v: yield i * k\ndef f(x): return sum(x * i for i in g())",
        "v.append(2.0)",
        "k = 2.0",
    ),
    "context manager": (
        """
        k = 2.0
        class C:
            def __enter__(self): return self.k
            def __exit__(self, *e): return False
        c = C()
        c.k = 1.0
        @contextlib.contextmanager
        def scale(): yield k
        def f(x):
            with scale() as a, c as b: return x * a + b
        """,
        "k = 3.0",
        "c.k = 2.0",
        "C.__enter__ = lambda self: 9.0",
    ),
    "nested functions": (
        """
        k = 2.0
        def f(x):
            j = k
            def outer(y):
                def inner(z): return z * j + k
                return inner(y) * j
            return outer(x)
        """,
        "k = 3.0",
    ),
    "recursion": ("n = 3\ndef g(x, i): return x if i == 0 else g(x * 2, i - 1)\ndef f(x): return g(x, n)", "n = 4"),
    "class made inside": (
        "k = 2.0\ndef f(x):\n  class C:\n    j = k\n    def g(self, x): return x * self.j\n  return C().g(x)",
        "k = 3.0",
    ),
}
