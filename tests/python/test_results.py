"""Several results come as the named tuple that eager gives."""

import pytest
import torch

import thunder

CALLS = {
    "max": lambda x: torch.max(x, 1),
    "min": lambda x: x.min(0, keepdim=True),
    "sort": lambda x: x.sort(descending=True),
    "topk": lambda x: x.topk(2),
    "median": lambda x: x.median(1),
    "nanmedian": lambda x: torch.nanmedian(x, 1),
    "mode": lambda x: x.mode(1),
    "kthvalue": lambda x: x.kthvalue(2, 1),
}


@pytest.mark.parametrize("name", CALLS)
def test_fields_have_names(name):
    x = torch.randn(3, 4)
    expected = CALLS[name](x)
    assert torch.equal(thunder.jit(lambda x: CALLS[name](x).values * 2)(x), expected.values * 2)
    assert torch.equal(thunder.jit(lambda x: CALLS[name](x).indices)(x), expected.indices)
    returned = thunder.jit(CALLS[name])(x)
    assert type(returned) is type(expected)
    assert all(torch.equal(a, b) for a, b in zip(returned, expected, strict=True))


def test_one_result_has_no_fields():
    x = torch.randn(3, 4)
    assert torch.equal(thunder.jit(torch.max)(x), x.max())


@pytest.mark.parametrize("beta", [0, 1, 3, False])
@pytest.mark.parametrize("alpha", [0, 2, True])
def test_factors_of_booleans_are_booleans(alpha, beta):
    x, v, w = torch.tensor([[True, False], [False, True]]), torch.tensor([True, False]), torch.tensor([True, True])
    fn = lambda x, v, w: torch.addr(x, v, w, alpha=alpha, beta=beta)
    torch.testing.assert_close(thunder.jit(fn)(x, v, w), fn(x, v, w), rtol=0, atol=0)


def test_a_factor_of_integers_is_no_fraction():
    x, v = torch.ones(2, 2, dtype=torch.int64), torch.ones(2, dtype=torch.int64)
    with pytest.raises(RuntimeError, match="argument beta must not be a floating point number"):
        thunder.jit(lambda x, v: torch.addr(x, v, v, beta=0.5))(x, v)


class Cache:
    """A result that is no container: transformers' caches of keys and values are such."""

    def __init__(self):
        self.layers = []
        self.settings = {"kind": "plain"}
        self.owner = None

    def update(self, t):
        self.layers.append(t)
        return t


def with_cache(x):
    cache, plain = Cache(), Cache()
    cache.update(x * 2)
    cache.owner = [cache]
    return {"sum": cache.update(x + 1).sum(), "cache": cache, "again": (cache,), "plain": plain}


def test_an_object_with_tensors_in_it_is_made_anew():
    f = thunder.jit(with_cache)
    x, y = torch.randn(3), torch.randn(3)
    first, second = f(x), f(y)
    for result, given in ((first, x), (second, y)):
        cache = result["cache"]
        assert type(cache) is Cache
        assert all(torch.equal(a, b) for a, b in zip(cache.layers, (given * 2, given + 1), strict=True))
        assert result["again"][0] is cache and cache.owner[0] is cache
        assert cache.settings == {"kind": "plain"}
    assert first["cache"] is not second["cache"]
    first["cache"].layers.clear()
    assert len(f(x)["cache"].layers) == 2


def test_objects_that_hold_each_other():
    class Node:
        pass

    def pair(x):
        a, b = Node(), Node()
        a.other, b.other, b.value = b, a, x + 1
        return a

    x = torch.randn(2)
    f = thunder.jit(pair)
    f(x)
    got = f(x)
    assert got.other.other is got and torch.equal(got.other.value, x + 1)


def test_one_tensor_in_two_places_is_one_tensor():
    def twice(x):
        y = x * 2
        return y, {"y": y}

    a, b = thunder.jit(twice)(torch.randn(2))
    assert a is b["y"]


def test_other_objects_stay_what_they_are():
    settings = Cache()
    f = thunder.jit(lambda x: (x + 1, settings))
    x = torch.randn(2)
    assert f(x)[1] is settings and f(x)[1] is settings


def test_a_cache_of_the_callers_is_written_to():
    class Layer:
        def __init__(self):
            self.keys = None

        def update(self, x):
            self.keys = x if self.keys is None else torch.cat([self.keys, x])
            return self.keys

    def step(x, cache=None):
        if cache is None:
            cache = Cache()
            cache.layers = [Layer(), Layer()]
        return sum(layer.update(x * (i + 1)).sum() for i, layer in enumerate(cache.layers)), cache

    jitted = thunder.jit(step)
    ours, eager = jitted(torch.ones(2))[1], step(torch.ones(2))[1]
    for i in range(3):
        x = torch.full((2,), float(i))
        (got, same), (want, _) = jitted(x, ours), step(x, eager)
        torch.testing.assert_close(got, want)
        assert same is ours and all(torch.equal(a.keys, b.keys) for a, b in zip(ours.layers, eager.layers, strict=True))
