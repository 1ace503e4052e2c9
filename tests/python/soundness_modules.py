"""Worlds for test_soundness.py: modules and programs that call them."""

MODULES = {
    "parameter replaced": (
        "f = nn.Linear(3, 3)",
        "f.weight = nn.Parameter(torch.randn(3, 3))",
        "f.weight, f.bias = nn.Parameter(torch.randn(5, 3)), nn.Parameter(torch.randn(5))",
    ),
    "parameter none": ("f = nn.Linear(3, 3)", "f.bias = None", "f.bias = nn.Parameter(torch.ones(3))"),
    "parameter written": (
        "f = nn.Linear(3, 3)",
        "with torch.no_grad(): f.weight.mul_(2)",
        "f.weight.data = torch.ones(3, 3)",
    ),
    "requires_grad_": (
        "f = nn.Linear(3, 3)",
        "f.requires_grad_(False)",
        "f.weight.requires_grad_()",
    ),
    "buffer": (
        """
        class M(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer('b', torch.ones(3))
            def forward(self, x): return x * self.b
        f = M()
        """,
        "f.b = torch.ones(3) * 2",
        "f.b.add_(1)",
        "f.b = torch.ones(2, 1) * 4",
        "f.register_buffer('b', torch.ones(3, dtype=torch.float64))",
    ),
    "plain tensor": (
        "class M(nn.Module):\n  def forward(self, x): return x * self.w\nf = M()\nf.w = torch.ones(3)",
        "f.w = torch.ones(3) * 2",
        "f.w = 3.0",
    ),
    "attribute": (
        "class M(nn.Module):\n  k = 2.0\n  def forward(self, x): return x * self.k\nf = M()",
        "f.k = 3.0",
        "M.k = 4.0; del f.k",
    ),
    "container of attributes": (
        "class M(nn.Module):\n  def forward(self, x): return x * self.v[0] * self.d['k']\n"
        "f = M()\nf.v, f.d = [2.0], {'k': 1.0}",
        "f.v[0] = 3.0",
        "f.d['k'] = 4.0",
    ),
    "submodule swapped": (
        "f = nn.Sequential(nn.Linear(3, 3), nn.ReLU())",
        "f[1] = nn.Tanh()",
        "f[0] = nn.Linear(3, 4)",
        "f.append(nn.Sigmoid())",
        "del f[1]",
    ),
    "submodule's attribute": (
        "f = nn.Sequential(nn.LayerNorm(3), nn.LeakyReLU(0.1))",
        "f[1].negative_slope = 0.5",
        "f[0].eps = 1.0",
    ),
    "module list": (
        """
        class M(nn.Module):
            def __init__(self):
                super().__init__()
                self.v = nn.ModuleList([nn.Linear(3, 3)])
            def forward(self, x):
                for m in self.v: x = m(x)
                return x * len(self.v)
        f = M()
        """,
        "f.v.append(nn.Linear(3, 3))",
        "f.v[0] = nn.Tanh()",
        "f.v.insert(0, nn.Sigmoid())",
    ),
    "module dict": (
        """
        class M(nn.Module):
            def __init__(self):
                super().__init__()
                self.d = nn.ModuleDict({'a': nn.Linear(3, 3)})
            def forward(self, x): return self.d['a'](x) if 'b' not in self.d else self.d['b'](x)
        f = M()
        """,
        "f.d['a'] = nn.Tanh()",
        "f.d['b'] = nn.Sigmoid()",
    ),
    "parameter list": (
        """
        class M(nn.Module):
            def __init__(self):
                super().__init__()
                self.v = nn.ParameterList([nn.Parameter(torch.ones(3))])
            def forward(self, x):
                for w in self.v: x = x * w
                return x
        f = M()
        """,
        "f.v.append(nn.Parameter(torch.ones(3) * 2))",
        "f.v[0] = nn.Parameter(torch.ones(3) * 3)",
    ),
    "training": ("f = nn.Dropout(1.0)", "f.eval()", "f.train()"),
    "training of a child": (
        "f = nn.Sequential(nn.Identity(), nn.Dropout(1.0))",
        "f[1].eval()",
        "f.train()",
        "f.eval()",
    ),
    "training read": (
        "class M(nn.Module):\n  def forward(self, x): return x if self.training else -x\nf = M()",
        "f.eval()",
    ),
    "forward hook": (
        "f = nn.Linear(3, 3)",
        "h = f.register_forward_hook(lambda m, args, out: out + 1)",
        "h2 = f.register_forward_hook(lambda m, args, out: out * 2)",
        "h.remove()",
    ),
    "hook on a child": (
        "f = nn.Sequential(nn.Linear(3, 3))",
        "f[0].register_forward_hook(lambda m, args, out: out + 1)",
    ),
    "pre-hook": ("f = nn.Linear(3, 3)", "f.register_forward_pre_hook(lambda m, args: (args[0] + 1,))"),
    "hook with keywords": (
        "f = nn.Linear(3, 3)",
        "f.register_forward_hook(lambda m, args, kwargs, out: out + len(kwargs) + 1, with_kwargs=True)",
    ),
    "hook's own state": (
        "k = 1.0\nf = nn.Linear(3, 3)\nf.register_forward_hook(lambda m, args, out: out * k)",
        "k = 2.0",
    ),
    "global hook": (
        "f = nn.Linear(3, 3)",
        "undo.callback(nn.modules.module.register_module_forward_hook(lambda m, a, out: out + 1).remove)",
        "undo.callback(nn.modules.module.register_module_forward_pre_hook(lambda m, a: (a[0] * 2,)).remove)",
    ),
    "forward on the instance": ("f = nn.Linear(3, 3)", "f.forward = lambda x: x * 2", "del f.forward"),
    "forward on the class": (
        "class M(nn.Module):\n  def forward(self, x): return x\nf = nn.Sequential(M())",
        "M.forward = lambda self, x: x * 2",
    ),
    "method of a module": (
        "class M(nn.Module):\n  def g(self, x): return x\n  def forward(self, x): return self.g(x)\nf = M()",
        "M.g = lambda self, x: x * 2",
        "f.g = lambda x: x * 3",
    ),
    "tied parameters": (
        "f = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False))",
        "f[1].weight = f[0].weight",
        "with torch.no_grad(): f[0].weight.mul_(2)",
        "f[0].weight = nn.Parameter(torch.randn(3, 3))",
    ),
    "parametrized": (
        """
        class Doubled(nn.Module):
            def forward(self, w): return w * 2
        f = nn.Linear(3, 3)
        """,
        "nn.utils.parametrize.register_parametrization(f, 'weight', Doubled())",
    ),
    "module in a global": (
        "m = nn.Linear(3, 3)\ndef f(x): return m(x)",
        "m.bias = None",
        "m = nn.Linear(3, 4)",
        "m.register_forward_hook(lambda m, args, out: out + 1)",
        "m = nn.Dropout(1.0)",
        "m.eval()",
    ),
    "module in a closure": (
        "def make(m): return lambda x: m(x)\nm = nn.Dropout(1.0)\nf = make(m)",
        "m.eval()",
        "m.forward = lambda x: x * 2",
    ),
    "modules in a list": (
        "v = [nn.Linear(3, 3), nn.Dropout(1.0)]\ndef f(x):\n  for m in v: x = m(x)\n  return x",
        "v[1].eval()",
        "v.append(nn.Tanh())",
        "v[0].weight = nn.Parameter(torch.ones(3, 3))",
    ),
    "config of a module": (
        """
        @dataclass
        class Config: k: float = 2.0
        class M(nn.Module):
            def __init__(self, config):
                super().__init__()
                self.config = config
            def forward(self, x): return x * self.config.k
        f = M(Config())
        """,
        "f.config.k = 3.0",
        "f.config = Config(4.0)",
    ),
    "count of parameters": (
        "class M(nn.Module):\n  def forward(self, x): return x * len(list(self.parameters()))\nf = M()",
        "f.w = nn.Parameter(torch.ones(1))",
    ),
    "cast": (
        "f = nn.Linear(3, 3)\nx = torch.randn(2, 3, dtype=torch.float64)\n"
        "class M(nn.Module):\n  def __init__(self):\n    super().__init__()\n    self.m = nn.Parameter(torch.ones(3))\n"
        "  def forward(self, x): return x.float() * self.m\nf = M()",
        "f.double()",
        "f.bfloat16()",
    ),
}
