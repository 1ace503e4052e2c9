"""The zoo of litgpt's architectures in shards."""

import litgpt_zoo
import torch
from torch.testing import assert_close
from training import whole, wrap

import thunder


def train(group, name):
    """A step's gradients are those of one process with all the data."""
    config = litgpt_zoo.architectures()[name]
    module = litgpt_zoo.float64_model()
    torch.manual_seed(0)
    expected = litgpt_zoo.WithLoss(litgpt_zoo.build(config, torch.float64, module))
    torch.manual_seed(0)
    model = litgpt_zoo.WithLoss(litgpt_zoo.build(config, torch.float64, module))
    model.load_state_dict(expected.state_dict())
    model = thunder.jit(wrap(model, group, "ZERO3", "BLOCK"))
    world, rank = group.size(), group.rank()
    batches = [[(t + r) % 50 for t in litgpt_zoo.tokens()] for r in range(world)]
    for batch in batches:
        (expected(*batch)[1] / world).backward()
    model(*batches[rank])[1].backward()
    for (key, p), q in zip(model.named_parameters(), expected.parameters(), strict=True):
        assert (p.grad is None) == (q.grad is None), key
        if q.grad is not None:
            assert_close(whole(p.grad), q.grad, rtol=1e-6, atol=1e-9, msg=lambda m, n=key: f"{n}.grad: {m}")
