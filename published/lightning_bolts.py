"""Lightning Bolts: the gather of its SimCLR, which sums gradients and keeps the rows of this rank."""

from __future__ import annotations

from published.collectives import ROWS, collective
from published.packages import absent, bare, enter

bare(enter("lightning-bolts"), "pl_bolts.models.self_supervised.simclr")
absent("pytorch_lightning", LightningModule=object, Trainer=None)
absent("pytorch_lightning.callbacks", LearningRateMonitor=None, ModelCheckpoint=None)
absent("pl_bolts.models.self_supervised.resnets", resnet18=None, resnet50=None)
absent("pl_bolts.optimizers.lars", LARS=None)
absent("pl_bolts.optimizers.lr_scheduler", linear_warmup_decay=None)
absent(
    "pl_bolts.transforms.dataset_normalizations",
    **dict.fromkeys(f"{name}_normalization" for name in ("cifar10", "imagenet", "stl10")),
)
absent("pl_bolts.utils.stability", under_review=lambda: lambda subject: subject)

gather = collective("pl_bolts.models.self_supervised.simclr.simclr_module:SyncFunction", "V -> R", ROWS)
