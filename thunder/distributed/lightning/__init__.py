"""Strategies for Lightning (https://lightning.ai): processes, precision and checkpoints are Lightning's, the wrapping
and the programs Thunder's.

    from thunder.distributed.lightning.fabric import ThunderFSDPStrategy     # for lightning.Fabric
    from thunder.distributed.lightning.pytorch import ThunderFSDPStrategy    # for lightning.Trainer

    fabric = lightning.Fabric(devices=8, strategy=ThunderFSDPStrategy(sharding_strategy="ZERO3"))

Both modules have ThunderDDPStrategy and ThunderFSDPStrategy, as `lightning.fabric.strategies` and
`lightning.pytorch.strategies` have strategies of equal names. They work with the package `lightning`, or with
`lightning_fabric` and `pytorch_lightning`.
"""
