"""What fuzz_front_end.py makes its programs of: a grammar of expressions and statements, and parts of worlds.

A rule's text may name other rules: <num> becomes some expression of a number.  A part is a few definitions, and what
they add to the rules: how to read it, how a program writes to it (`do`), what may happen to it between two calls
(`change`).  # is the part's number.  Values stay small, and loops end, whatever is drawn.
"""

import fuzz_numbers
import fuzz_objects
import fuzz_outside

LITERALS = ["0.5", "1.5", "2", "3", "-1.0", "0", "1", "True", "7"]

RULES = {
    "literal": LITERALS,
    "name": ["'k'", "'j'", "'a'"],
    "num": [
        "n",
        "k",
        "<literal>",
        "<num> + <num>",
        "<num> * <literal>",
        "(<num> if <cond> else <num>)",
        "len(<nums>)",
        "sum(<nums>)",
        "max(<nums>, default=1)",
        "sorted(<nums>, key=lambda z: -z)[:1].count(<literal>)",
        "sum(z * 0.5 for z in <nums> if z > <literal>)",
        "[*<nums>, 4][0]",
        "next(iter(<nums>), 1)",
        "x.shape[-1]",
        "<map>.get('a', <literal>)",
        "<map>.get('b', 2)",
        "sum(<map>.values())",
        "len(<map>)",
        "len([key for key, z in <map>.items() if z])",
        "getattr(<obj>, <name>, <literal>)",
        "getattr(<obj>, 'k', 2)",
        "o.k",
        "float(<num>)",
        "functools.reduce(operator.add, <nums>, 0)",
        "(lambda z=<num>: z + <num>)()",
    ],
    "cond": [
        "<num> > <literal>",
        "<num> in <nums>",
        "not <nums>",
        "'a' in <map>",
        "hasattr(<obj>, <name>)",
        "isinstance(<num>, float)",
        "isinstance(<obj>, Thing)",
        "<obj> is <obj>",
        "<nums> == [1, 2]",
        "any(z > 1 for z in <nums>)",
        "<cond> and <cond>",
        "x.requires_grad",
        "torch.is_grad_enabled()",
    ],
    "nums": [
        "w",
        "a",
        "[<num>, <num>]",
        "(<num>, <literal>)",
        "list(<nums>)[:3]",
        "sorted(<nums>)",
        "[z + u for z, u in zip(<nums>, <nums>)]",
        "list(map(abs, <nums>))",
        "list(filter(None, <nums>))",
        "list(<map>.values())",
        "[i for i, z in enumerate(<nums>) if z]",
        "[z for _, z in zip(range(5), itertools.chain(<nums>, <nums>))]",
    ],
    "map": ["e", "q", "{'a': <num>, 'b': <literal>}", "dict(<map>, b=<num>)", "{**<map>}", "dict(<map>, a=<num>)"],
    "obj": ["o", "thing(k=<num>)", "o"],
    "tensor": [
        "y",
        "x",
        "<tensor> * <num>",
        "<tensor> + <tensor>",
        "torch.sin(<tensor>)",
        "F.relu(<tensor>)",
        "<tensor> + torch.full((3,), 0.5)",
        "<tensor>.detach()",
        "sum([<tensor>, <tensor>])",
        "torch.where(x > 0, <tensor>, <tensor>)",
    ],
    "any": ["<num>", "<tensor>", "[<num>, <tensor>]", "{'a': <tensor>}", "(<tensor>, <num>)", "thing(k=<num>)", "w"],
    "do": [
        "y = y + <tensor>",
        "y = <tensor>",
        "y = y * (<num>)",
        "n = (<num>) % 97",
        "w.append(<num>)",
        "e['a'] = <num>",
        "<obj>.k = <num>",
        "<obj>.j = <tensor>",
        "o.k = <num>",
        "setattr(<obj>, <name>, <num>)",
        "a.append(<num>)",
        "q['b'] = <num>",
        "q.pop('a', None)",
        "del w[:1]",
        "if n == 7: raise KeyError(<num>)",
        "if <cond>: raise ValueError(<num>)",
        "assert <num> != 3, 'three'",
        "if (x * <num>).sum() > 4: raise LookupError(<tensor>)",
        "o.rows = F.embedding((x[:, 0] > 1).long() * 3, torch.ones(3, 3))",  # kept: what nothing uses is not computed
        "w, e = [*w, 1], {**e}",
        "with torch.no_grad(): y = y + <tensor>",
    ],
    "change": ["f.__defaults__ = (<literal>,)", "f.__kwdefaults__ = {'s': <literal>}", "x0 = x"],
    "argument nums": ["[<literal>, <literal>]", "[<literal>]", "[]"],
    "argument map": ["{'a': <literal>, 'b': 2}", "{'b': <literal>}"],
    "argument obj": ["thing(k=<literal>)", "thing(k=<literal>, j=2)", "thing(k=2, t=x)"],
}

# Statements with blocks: header after header.
BLOCKS = [
    ["if <cond>:", "else:"],
    ["if <cond>:"],
    ["for k in <nums>:"],
    ["for i, k in enumerate(<nums>):"],
    ["for k in <map>.values():"],
    ["for k, u in zip(<nums>, <nums>):"],
    ["try:", "except (KeyError, IndexError, AttributeError, ValueError):"],
    ["try:", "except KeyError as error:", "else:", "finally:"],
    ["with contextlib.suppress(KeyError, ZeroDivisionError):"],
]

# Definitions, rules that they add, names that f declares global.
PARTS = {
    "global": (
        "g# = <literal>",
        {
            "num": ["g#", "g#"],
            "do": ["g# = (<num>) % 89", "g# += 1"],
            "change": ["g# = <literal>", "g# = float(g#)", "g# = torch.tensor(2.0)"],
        },
        ["g#"],
    ),
    "tensor": (
        "t# = torch.linspace(0, 1, 3)",
        {
            "tensor": ["t#", "t#"],
            "do": ["t# = t# * 0.5 + x.sum(0)", "with torch.no_grad(): t#.mul_(0.5)"],
            "cond": ["t#.requires_grad", "t#.dim() > 1", "t#.dtype == torch.float32"],
            "change": [
                "t# = torch.ones(2, 3)",
                "t# = torch.linspace(1, 2, 3)",
                "t# = t#.detach().clone().requires_grad_()",
                "t# = t#.detach()",
                "t# = t#.detach().double()",
                "with torch.no_grad(): t#.add_(1)",
                "t# = x[0].detach()",
            ],
        },
        ["t#"],
    ),
    "list": (
        "v# = [<literal>, <literal>, <literal>]",
        {
            "nums": ["v#", "v#", "v#[1:]", "v#[::-1]"],
            "num": ["v#[0]", "v#[-1]", "v#.count(<literal>)", "v#.pop()", "v#[len(v#) - 1]"],
            "cond": ["v# is w", "v#", "<literal> in v#"],
            "do": [
                "v#.append(<num>)",
                "v#[0] = <num>",
                "v#[-1] += 1",
                "v#.extend(list(<nums>)[:2])",
                "v#.insert(0, <num>)",
                "del v#[0]",
                "v#[:] = list(<nums>)[:4]",
                "v# += [<num>]",
                "v#.reverse()",
                "v#.sort()",
                "v#.clear()",
                "v# = [*v#[-3:]]",
                "w = v#",
            ],
            "change": [
                "v#.append(<literal>)",
                "v#[:1] = []",
                "v#[:] = [<literal>, <literal>]",
                "v# = list(v#)",
                "v# = [<literal>, 2.0]",
                "v#[:1] = [<literal>]",
                "v# = (<literal>, <literal>)",
            ],
            "argument nums": ["v#"],
        },
        ["v#"],
    ),
    "tensors": (
        "ts# = [torch.ones(3), torch.arange(3.0)]",
        {
            "tensor": ["ts#[0]", "sum(ts#)", "ts#[-1]", "torch.stack(list(ts#)).sum(0)"],
            "num": ["len(ts#)"],
            "do": ["ts#.append(<tensor>)", "ts#[0] = <tensor>", "ts#.pop()", "ts#[:] = [<tensor>]", "y = ts#[0] + y"],
            "change": ["ts#[0] = torch.full((3,), 2.0)", "ts#.append(torch.ones(2, 3))", "ts#.reverse()", "del ts#[1]"],
        },
        [],
    ),
    "dict": (
        "d# = {'a': <literal>, 'b': <literal>}",
        {
            "map": ["d#", "d#"],
            "num": ["d#['a']", "d#.get('c', 2)", "d#.setdefault('c', <literal>)", "d#.pop('b', 1)", "len(d#)"],
            "cond": ["'c' in d#", "d#", "list(d#) == ['a', 'b']", "d# == {'a': 1, 'b': 2}"],
            "do": [
                "d#['a'] = <num>",
                "d#['c'] = <num>",
                "d#.update(b=<num>)",
                "d#.pop('a', None)",
                "d# |= {'c': <num>}",
                "del d#['b']",
                "d#.clear()",
                "d# = dict(d#)",
                "d#['a'] = d#.pop('a')",
            ],
            "change": [
                "d#['a'] = <literal>",
                "d#.pop('b', 0)",
                "d#['c'] = <literal>",
                "d# = {'b': <literal>, 'a': 1}",
                "d# = dict(reversed(d#.items()))",
                "d# = defaultdict(int, d#)",
                "d# = OrderedDict(d#)",
            ],
            "argument map": ["d#"],
        },
        ["d#"],
    ),
    "nested": (
        "z# = {'v': [<literal>, {'k': <literal>}], 'd': {'a': <literal>, 'b': 1}, 't': torch.ones(3)}",
        {
            "map": ["z#['d']", "z#['v'][1]"],
            "num": ["z#['v'][0]", "z#['v'][1]['k']", "len(z#['v'])"],
            "tensor": ["z#['t']"],
            "do": ["z#['v'].append(<any>)", "z#['d']['a'] = <num>", "z#['t'] = <tensor>", "z#['d'] = {'b': <num>}"],
            "change": [
                "z#['v'][0] = <literal>",
                "z#['v'][1]['k'] = <literal>",
                "z#['v'] = [<literal>, {'k': <literal>}]",
                "z#['d'].pop('b', 1)",
                "z#['t'] = torch.zeros(3)",
                "z# = {**z#}",
            ],
        },
        [],
    ),
    "set": (
        "s# = {1, 2}",
        {
            "nums": ["sorted(s#)", "s#"],
            "cond": ["2 in s#", "s# & {3}", "s#", "s# <= {1, 2, 3}"],
            "do": ["s#.add(3)", "s#.discard(1)", "s# |= {<num>}", "s#.clear()"],
            "change": ["s#.add(0.5)", "s#.discard(2)", "s# = {1}", "s# = frozenset(s#)"],
        },
        ["s#"],
    ),
    "deque": (
        "q# = deque([<literal>, 1], maxlen=3)",
        {
            "nums": ["q#", "list(q#)"],
            "num": ["q#[0]", "q#.popleft()"],
            "do": ["q#.append(<num>)", "q#.appendleft(<num>)", "q#.rotate(1)", "q#[0] = <num>"],
            "change": ["q#.append(<literal>)", "q# = deque(q#)", "q#.rotate()"],
        },
        [],
    ),
    **fuzz_outside.PARTS,
    "tuple": (
        "P# = namedtuple('P#', 'k j')\np# = P#(<literal>, (<literal>, [<literal>]))",
        {
            "num": ["p#.k", "p#[1][0]", "p#.j[1][0]"],
            "nums": ["p#[1][1]", "(p#.k, 1)"],
            "obj": ["p#"],
            "any": ["P#(<num>, <tensor>)"],
            "do": ["p# = p#._replace(k=<num>)", "p#.j[1].append(<num>)"],
            "change": ["p# = p#._replace(k=<literal>)", "p#.j[1][:1] = [<literal>]"],
        },
        ["p#"],
    ),
    "object": (
        "c# = thing(k=<literal>, j=<literal>, v=[<literal>], t=torch.ones(3), inner=thing(k=<literal>))",
        {
            "obj": ["c#", "c#.inner"],
            "num": ["c#.k", "c#.inner.k", "c#.v[0]"],
            "nums": ["c#.v"],
            "tensor": ["c#.t"],
            "cond": ["hasattr(c#, 'fresh')", "c#.inner is c#"],
            "do": [
                "c#.k += 1",
                "c#.t = c#.t * 0.5 + x.sum(0)",
                "c#.v.append(<num>)",
                "c#.fresh = <any>",
                "c#.inner = thing(k=<num>)",
                "if hasattr(c#, 'fresh'): del c#.fresh",
                "c#.__dict__['k'] = <num>",
                "vars(c#).update(j=<num>)",
                "c#.v = list(<nums>)[:3]",
                "c#.__dict__ = {**vars(c#), 'k': <num>}",
            ],
            "change": [
                "c#.k = <literal>",
                "c#.__dict__ = {**vars(c#), 'k': <literal>}",
                "c#.inner = thing(k=<literal>)",
                "c#.inner.k = <literal>",
                "c#.v = [<literal>]",
                "c#.t = torch.zeros(2, 3)",
                "c#.fresh = 1",
                "c# = thing(**vars(c#))",
                "c#.me = c#",
            ],
            "argument obj": ["c#", "c#.inner"],
        },
        [],
    ),
    "class": (
        """
class C#:
    j = <literal>
    items = [<literal>]
    def __init__(self, k): self.k = k
    def get(self, by=1): return self.k * by
    @property
    def twice(self): return self.k * 2
    @twice.setter
    def twice(self, k): self.k = k
    @classmethod
    def make(cls, k): return cls(k)
    @staticmethod
    def plain(k): return k + 1
    def __len__(self): return len(self.items)
    def __getitem__(self, i): return self.items[i]
    def __call__(self, y): return y * self.k
o# = C#(<literal>)
""",
        {
            "obj": ["o#", "C#(<num>)", "C#", "C#.make(<num>)"],
            "num": ["o#.get()", "o#.get(<num>)", "o#.twice", "o#.j", "C#.j", "len(o#)", "o#[0]", "C#.plain(<num>)"],
            "nums": ["C#.items", "o#.items"],
            "tensor": ["o#(<tensor>)", "C#(2)(<tensor>)"],
            "cond": ["isinstance(<obj>, C#)", "type(<obj>) is C#", "bool(o#)"],
            "do": ["o#.twice = <num>", "C#.j = <num>", "o#.j = <num>", "C#.items.append(1)", "ks.append(C#(<tensor>))"],
            "change": [
                "C#.j = <literal>",
                "C#.get = lambda self, by=1: self.k + by",
                "C#.twice = 3",
                "o#.items = []",
                "C#.items = [<literal>, 2]",
                "C#.__len__ = lambda self: 0",
                "C#.__call__ = lambda self, y: y + self.k",
                "C#.get.__defaults__ = (<literal>,)",
                "C#.plain = staticmethod(lambda k: k)",
                "o#.get = lambda by=1: by",
                "o# = C#(<literal>)",
                "C#.__bool__ = lambda self: False",
                "o#.__class__ = type('C#', (C#,), {'j': 5})",
            ],
            "argument obj": ["o#", "C#(<literal>)"],
        },
        [],
    ),
    "subclass": (
        """
class A#:
    k = <literal>
    def m(self): return self.k
class B#(A#):
    __slots__ = ('j', 'u')
    def m(self): return super().m() + 1
    def __getattr__(self, name): return {'a': 4}.get(name, 1)
b# = B#()
b#.j = <literal>
""",
        {
            "obj": ["b#", "B#()"],
            "num": ["b#.m()", "b#.k", "b#.j", "b#.other", "A#.k"],
            "do": ["b#.j = <num>", "A#.k = <num>", "b#.u = <tensor>", "del b#.j"],
            "change": [
                "A#.k = <literal>",
                "B#.k = <literal>",
                "A#.m = lambda self: 3",
                "b#.j = <literal>",
                "b#.other = <literal>",
                "B#.__getattr__ = lambda self, name: 2",
                "b# = B#()",
            ],
        },
        [],
    ),
    "dataclass": (
        """
@dataclass
class D#:
    k: float = <literal>
    j: object = None
    v: list = field(default_factory=lambda: [1])
r# = D#(j=torch.ones(3))
""",
        {
            "obj": ["r#", "D#(k=<num>)"],
            "num": ["r#.k", "len(r#.v)", "dataclasses.replace(r#, k=<num>).k", "sum(D#().v)"],
            "tensor": ["(y if r#.j is None else y + r#.j)"],
            "cond": ["r# == D#(1.5)"],
            "do": ["r#.k = <num>", "r#.j = <tensor>", "r#.v.append(<num>)", "ks.append(D#(j=<tensor>))"],
            "change": ["r#.k = <literal>", "r#.j = None", "r#.v = []", "r# = D#(<literal>)", "D#.k = <literal>"],
            "argument obj": ["r#", "D#(<literal>)", "D#(2, x)"],
        },
        [],
    ),
    "closure": (
        """
def make#(u, v):
    def get(z=0): return u + z + sum(v)
    def put(z):
        nonlocal u
        u = z
    return get, put, v
get#, put#, cv# = make#(<literal>, [<literal>])
""",
        {
            "num": ["get#()", "get#(<num>)", "make#(<num>, [1])[0]()"],
            "nums": ["cv#"],
            "do": ["put#(<num>)", "cv#.append(<num>)", "ks.append(make#(<num>, [])[2])"],
            "change": ["put#(<literal>)", "cv#.append(<literal>)", "get#.__defaults__ = (<literal>,)", "put# = float"],
        },
        [],
    ),
    "helper": (
        """
h#s = <literal>
def h#(y, u=<literal>, *rest, s=[1.0], **more):
    s.append(u) if len(s) < 6 else s.clear()
    return y * (u + len(rest) + sum(more.values())) + sum(s) + h#s
h#.n = 0
""",
        {
            "tensor": ["h#(<tensor>)", "h#(<tensor>, <num>)", "h#(y, *list(<nums>)[:3])", "h#(y, **{'b': <num>})"],
            "num": ["h#(<num>)", "h#.n"],
            "do": ["h#.n += 1", "y = h#(y, s=[<num>])"],
            "change": [
                "h#.__defaults__ = (<literal>,)",
                "h#.__kwdefaults__ = {'s': [2.0]}",
                "h#.__kwdefaults__['s'].append(1)",
                "h#s = <literal>",
                "h#.n = <literal>",
                "h#.__code__ = (lambda y, u=1, *rest, s=0, **more: y + u).__code__",
                "h# = (lambda y, *rest, **more: y * 2)\nh#.n = 3",
            ],
        },
        [],
    ),
    "generator": (
        "gk# = <literal>\ndef gen#(v):\n  for z in v: yield z * gk#\ndef rec#(i): return i if i < 1 else rec#(i - 1)",
        {
            "num": ["sum(gen#(<nums>))", "rec#(2)", "next(gen#(<nums>), 1)"],
            "nums": ["list(gen#(<nums>))", "[*gen#(<nums>)]"],
            "change": ["gk# = <literal>", "def gen#(items): yield gk#"],
        },
        [],
    ),
    "module": (
        """
class M#(nn.Module):
    scale = <literal>
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)
        self.register_buffer('b', torch.zeros(3))
        self.flag, self.opts = True, {'k': <literal>}
        self.acts = nn.ModuleList([nn.Tanh(), nn.Dropout(0.0)])
    def forward(self, y):
        y = self.lin(y) * self.scale + self.b
        if self.flag: y = y * self.opts['k']
        for act in self.acts: y = act(y)
        return y + 1 if self.training else y
m# = M#()
seen# = []
""",
        {
            "tensor": ["m#(x + <tensor>)", "m#.lin.weight[0] * y", "m#.b", "m#.lin(x)"],
            "num": ["m#.scale", "len(m#.acts)", "m#.opts['k']", "len(list(m#.parameters()))"],
            "cond": ["m#.training", "m#.flag", "m#.lin.weight.requires_grad", "hasattr(m#, 'last')"],
            "do": [
                "m#.b = m#.b * 0.5 + x.mean(0)",
                "m#.last = <tensor>",
                "m#.scale = <num>",
                "m#.opts['k'] = <num>",
                "m#.flag = not m#.flag",
                "m#.b.mul_(0.5)",
            ],
            "change": [
                "m#.eval()",
                "m#.train()",
                "m#.flag = False",
                "m#.opts['k'] = <literal>",
                "M#.scale = <literal>",
                "m#.lin.weight.requires_grad_(False)",
                "m#.lin.weight = nn.Parameter(torch.eye(3))",
                "m#.lin = nn.Linear(3, 3, bias=False)",
                "m#.b = torch.ones(3)",
                "hook# = m#.register_forward_hook(lambda m, args, out: out * 2)",
                "hook# = m#.lin.register_forward_hook(lambda m, args, out: seen#.append(out))",
                "hook# = m#.register_forward_pre_hook(lambda m, args: (args[0] + 1,))",
                "if 'hook#' in globals(): hook#.remove()",
                "m#.acts.append(nn.ReLU())",
                "m#.acts[0] = nn.Sigmoid()",
                "m#.forward = lambda y: y * 3",
                "M#.forward = lambda self, y: y * 2",
                "m#.zero_grad()",
                "m#.lin.bias = None",
            ],
        },
        [],
    ),
    "partial": (
        "add# = partial(lambda y, u, by=1: y * u + by, u=<literal>, by=<literal>)\n"
        "from operator import itemgetter\nitem# = itemgetter(0)",
        {
            "num": ["add#(<num>)", "item#([<num>])", "item#(<nums>)"],
            "tensor": ["add#(<tensor>)", "add#(<tensor>, by=<num>)"],
            "change": ["add# = partial(add#, u=<literal>)", "add#.keywords['by'] = 5", "item# = itemgetter(-1)"],
        },
        [],
    ),
    "kept": (
        "ks = []",
        {
            "num": ["len(ks)"],
            "cond": ["ks"],
            "tensor": ["sum([z for z in ks[-2:] if isinstance(z, torch.Tensor)]) * 0.1 + y"],
            "do": ["ks.append(<any>)", "ks.append(<tensor>)", "ks[-1:] = [<any>]", "ks.append({'w': w, 'k': [<any>]})"],
            "change": ["ks.clear()", "ks.append(1)", "ks[:] = ks[-1:]"],
        },
        [],
    ),
    "enum": (
        "class E#(enum.Enum):\n  A = 1\n  B = 2\nmode# = E#.A",
        {
            "num": ["mode#.value", "E#['B'].value"],
            "cond": ["mode# is E#.A", "mode# == E#.B"],
            "do": ["mode# = E#.B"],
            "change": ["mode# = E#.B", "mode# = E#.A"],
        },
        ["mode#"],
    ),
    "inner class": (
        "ik# = <literal>",
        {
            "do": [
                "class L:\n    k = <num>\n    def m(self): return self.k + ik#\nn = L().m() % 97",
                "def inner(z):\n    nonlocal n\n    n = (n + z) % 97\n    return z + ik#\nw.append(inner(<num>))",
                "L = type('L', (Thing,), {'k': <num>})\nn = L.k",
                "n = (lambda *z, **u: len(z) + len(u))(*<nums>, **<map>)",
                "match <nums>:\n    case [z, *u]: n = z % 97\n    case _: n = ik#",
                "match <map>:\n    case {'a': z}: n = z % 97",
                "match <obj>:\n    case Thing(k=z): n = 1",
            ],
            "change": ["ik# = <literal>"],
        },
        [],
    ),
    "iterator": (
        "it# = iter([1, 2, 3, 4, 5, 6, 7])\nct# = itertools.count()\ntick# = itertools.count(1).__next__\n"
        "gi# = (z * 2 for z in range(9))\ncy# = itertools.cycle([1, 2])",
        {
            "num": ["next(it#, 0)", "next(ct#)", "tick#()", "next(gi#, 0)", "next(cy#)"],
            "do": ["for z in it#:\n    n = z\n    break", "n = next(it#, 0)"],
            "change": ["next(it#, 0)", "it# = iter([<literal>])", "ct# = itertools.count(3)"],
        },
        [],
    ),
    "cached": (
        "@functools.lru_cache(None)\ndef lc#(u): return [u, 1]\nlu# = <literal>\n"
        "@functools.lru_cache(None)\ndef lg#(): return lu#\n"
        "class K#:\n  k = 1\n  @functools.cached_property\n  def late(self): return self.k * 2\nkc# = K#()",
        {
            "num": ["lc#(2)[0]", "len(lc#(1))", "lg#()", "kc#.late"],
            "nums": ["lc#(2)"],
            "do": ["lc#(1).append(<num>)"],
            "change": ["lc#(2).append(<literal>)", "lc#(2)[0] = 5", "lg#.cache_clear()", "lu# = 5", "kc# = K#()"],
        },
        [],
    ),
    **fuzz_objects.PARTS,
    **fuzz_numbers.PARTS,
}
