"""Parts of worlds for fuzz_worlds.py: what C code keeps, and what may refer to an object without keeping it."""

PARTS = {
    "ndarray": (
        "arr# = np.array([<literal>, 2.0, 3.0])",
        {
            "num": ["float(arr#[0])", "arr#.sum().item()", "len(arr#)", "arr#[-1].item()", "float((arr# * 2).mean())"],
            "nums": ["arr#.tolist()", "[float(z) for z in arr#]"],
            "cond": ["bool(arr#.any())", "arr#[0] > <literal>"],
            "do": [
                "arr#[0] = (<num>) % 89",
                "arr#[1:] = 1",
                "arr#.fill((<num>) % 5)",
                "np.add(arr#, 1, out=arr#)",
                "arr#[::-1].sort()",
            ],
            "change": ["arr#[1] = <literal>", "arr#[:] = 0", "arr# = arr#.copy()", "arr# = np.ones(2)"],
        },
        [],
    ),
    "bytes": (
        "raw# = bytearray(b'abc')\nview# = memoryview(raw#)[:1]",
        {
            "num": ["raw#[0]", "len(raw#)", "view#[0]", "int.from_bytes(raw#[:1], 'big')"],
            "nums": ["list(raw#)"],
            "do": ["raw#[0] = int(<num>) % 256", "view#[0] = 7"],
            "change": ["raw#[1] = 9", "view#[0] = 1"],
        },
        [],
    ),
    "numbers": (
        "na# = array.array('d', [<literal>, 2.0])",
        {
            "num": ["na#[0]", "len(na#)"],
            "nums": ["na#.tolist()"],
            "do": ["na#[0] = (<num>) % 89", "na#.append(<literal>)", "na#.reverse()", "if len(na#) > 2: na#.pop()"],
            "change": ["na#[0] = <literal>", "na#.append(1.0)", "del na#[1:]"],
        },
        [],
    ),
    "ctypes": (
        "ci# = ctypes.c_double(<literal>)\nca# = (ctypes.c_int * 2)(1, 2)",
        {
            "num": ["ci#.value", "ca#[0]"],
            "nums": ["list(ca#)"],
            "do": ["ci#.value = (<num>) % 89", "ca#[1] = 5"],
            "change": ["ci#.value = <literal>", "ca#[0] = 4"],
        },
        [],
    ),
    "local": (
        "lo# = threading.local()\nlo#.k = <literal>",
        {
            "num": ["lo#.k", "getattr(lo#, 'j', <literal>)"],
            "cond": ["hasattr(lo#, 'j')"],
            "do": ["lo#.k = (<num>) % 89", "lo#.j = <num>", "lo#.k += 1", "lo#.t = <tensor>"],
            "change": ["lo#.k = <literal>", "lo#.j = 2", "lo# = threading.local()"],
        },
        [],
    ),
    "variable": (
        "var# = contextvars.ContextVar('var#', default=<literal>)",
        {
            "num": ["var#.get()", "var#.get(2)"],
            "do": [
                "var#.set((<num>) % 89)",
                "var#.reset(var#.set(<num>))",
                "token = var#.set(3); y = y * var#.get(); var#.reset(token)",
            ],
            "change": ["var#.set(<literal>)"],
        },
        [],
    ),
    "random": (
        "ra# = random.Random(<literal>)",
        {
            "num": ["ra#.random()", "ra#.randint(1, 3)", "ra#.choice([1, 2.5])"],
            "cond": ["ra#.random() < 0.5"],
            "do": ["ra#.seed(2)", "ra#.shuffle(w)"],
            "change": ["ra#.seed(<literal>)", "ra#.random()"],
        },
        [],
    ),
    "weak": (
        "wo# = thing(k=<literal>, j=1)\nwr# = weakref.ref(wo#)",
        {
            "num": ["getattr(wr#(), 'k', 9)"],
            "cond": ["wr#() is None", "wr#() is wo#"],
            "do": ["if wr#() is not None: wr#().k = <num>", "wo#.k = <num>"],
            "change": ["wo# = thing(k=2)", "wo#.k = <literal>", "wr# = weakref.ref(wo#)"],
        },
        [],
    ),
    "shown": (
        "md# = {'a': <literal>, 'b': 2}\nmp# = types.MappingProxyType(md#)\nit# = md#.items()",
        {
            "map": ["mp#", "mp#"],
            "num": ["mp#['a']", "mp#.get('c', 2)", "len(it#)", "sum(v for _, v in it#)"],
            "cond": ["'c' in mp#", "('b', 2) in it#"],
            "do": ["md#['a'] = <num>", "md#['c'] = 1"],
            "change": ["md#['a'] = <literal>", "md#['c'] = <literal>", "md#.pop('c', 0)"],
        },
        [],
    ),
}
