"""Cases of the Lightning Trainer with our strategies, which run on each of all processes."""

import models
import pytest
import torch
from fabric_cases import Reference, launched, loss_of
from torch import nn

import thunder

STEPS = 2


def strategy_named(name, **options):
    from thunder.distributed.lightning.pytorch import ThunderDDPStrategy, ThunderFSDPStrategy

    return ThunderDDPStrategy(**options) if name == "ddp" else ThunderFSDPStrategy(sharding_strategy=name, **options)


class Batches(torch.utils.data.Dataset):
    def __init__(self, group):
        self.group = group

    def __len__(self):
        return 2 * STEPS

    def __getitem__(self, number):
        return models.tokens(number, self.group.size())[self.group.rank()]


def lightning_module(seed):
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleList([models.make(seed=seed)])
            self.register_buffer("weight_of_loss", torch.ones(()))

        def training_step(self, batch, _):
            loss = loss_of(self.parts[0], batch) * self.weight_of_loss
            self.log("loss", loss, sync_dist=True)
            return loss

        def validation_step(self, batch, _):
            self.log("validation", loss_of(self.parts[0], batch), sync_dist=True)

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), 1e-2)

    return Module()


def trainer(group, strategy, epochs, folder):
    import lightning

    return lightning.Trainer(
        accelerator="cpu", devices=group.size(), strategy=strategy, max_epochs=epochs, accumulate_grad_batches=2,
        gradient_clip_val=0.1, use_distributed_sampler=False, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, default_root_dir=folder,
    )  # fmt: skip


def fit(group, strategy, folder, options):
    """Two steps, a checkpoint, two more from it in another module, and two of a second `fit`."""
    with launched(group):
        data = torch.utils.data.DataLoader(Batches(group), batch_size=None)
        reference = Reference(group.size())
        module = lightning_module(seed=group.rank())
        first = trainer(group, strategy_named(strategy, **options), 1, folder)
        first.fit(module, data, data)
        _steps(reference)
        reference.check(module)
        assert set(first.callback_metrics) >= {"loss", "validation"}
        if strategy == "ddp":
            assert not isinstance(module.parts[0], thunder.ThunderModule)
        else:
            assert thunder.compile_stats(module.parts[0]).cache_misses >= 2
            first.validate(module, data, verbose=False)
        path = f"{folder}/checkpoint"
        first.save_checkpoint(path)

        other = lightning_module(seed=9)
        trainer(group, strategy_named(strategy, **options), 2, folder).fit(other, data, ckpt_path=path)
        _steps(reference)
        reference.check(other)

        trainer(group, strategy_named(strategy, **options), 1, folder).fit(other, data)
        reference.optimizer = torch.optim.AdamW(reference.model.parameters(), 1e-2)
        _steps(reference)
        reference.check(other)


def _steps(reference):
    for number in range(STEPS):
        reference.step(number, clip=0.1)


def owners(group, folder):
    """Parameters that stand in no module, or in two, are named."""
    import lightning

    class Outside(lightning.LightningModule):
        def __init__(self, tied):
            super().__init__()
            self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)
            if tied:
                self.second.weight = self.first.weight
            else:
                self.factor = nn.Parameter(torch.ones(()))

        def training_step(self, batch, _):
            return self.second(self.first(batch)).sum()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    with launched(group):
        data = torch.utils.data.DataLoader(torch.ones(4, 3))
        for tied, text in ((False, "factor belongs to no module"), (True, "first.weight belongs to two of the")):
            with pytest.raises(RuntimeError, match=text):
                trainer(group, strategy_named("ddp"), 1, folder).fit(Outside(tied), data)
