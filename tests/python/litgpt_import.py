"""litgpt's model definitions without litgpt's command line, whose dependencies are many and heavy.

    import litgpt_import
    GPT, Config = litgpt_import.load()
"""

import importlib.util
import sys
import types


def _stub(name: str, **members) -> types.ModuleType:
    module = types.ModuleType(name)
    module.__dict__.update(members)
    sys.modules[name] = module
    return module


def _qkv_reassemble(param, config):
    raise NotImplementedError("checkpoints in litgpt's legacy layout need the whole of litgpt")


def load():
    """Returns litgpt's (GPT, Config)."""
    if "litgpt" not in sys.modules:
        spec = importlib.util.find_spec("litgpt")  # finds it without running its __init__
        if spec is None:
            raise ImportError("litgpt is not installed (requirements/test-no-deps.txt)")
        _stub("litgpt", __path__=list(spec.submodule_search_locations))
        _stub("litgpt.scripts", __path__=[])
        # The model imports one function of this module, for loading checkpoints of old releases.
        _stub("litgpt.scripts.convert_hf_checkpoint", qkv_reassemble=_qkv_reassemble)
    from litgpt.config import Config
    from litgpt.model import GPT

    return GPT, Config


def with_loss(gpt):
    """A module over gpt: token ids and targets, both int64 (batch, length), to the mean cross entropy, a scalar."""
    import torch

    class Loss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.gpt = gpt

        def forward(self, ids, targets):
            logits = self.gpt(ids)
            return torch.nn.functional.cross_entropy(logits.reshape(-1, logits.size(-1)), targets.reshape(-1))

    return Loss()
