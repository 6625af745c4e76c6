"""towhee.models: two gathers, wavelets, and a shift along time. Its ``__init__`` wants the whole of towhee."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.gathers import with_launch
from published.packages import absent, bare, enter

_folder = enter("towhee.models")
for _parent in ("towhee.models.drl", "towhee.models.wave_vit", "towhee.models.tsm"):
    bare(_folder, _parent)
for _dependency in ("pywt", "torchvision"):
    absent(_dependency)

all_gather = Subject("towhee.models.drl.until_module:AllGather", spec="AllGather")
all_gather_2 = Subject("towhee.models.drl.until_module:AllGather2", spec="AllGather")
all_gather_2_as_sum = Subject(
    "towhee.models.drl.until_module:AllGather2", spec="AllGatherGradAutograd", result="joined", call=with_launch
)


def _wavelet() -> Iterator[tuple[Any, ...]]:
    yield random((2, 3, 4, 6), 1), *(random((1, 1, 2, 2), seed).detach() for seed in (2, 3, 4, 5))


dwt = Subject("towhee.models.wave_vit.wave_vit_utils:DWTFunction", inputs=_wavelet)


_VIDEO = [(random((2, 3, 4, 2, 2), 1), 1)]

inplace_shift = Subject("towhee.models.tsm.temporal_shift:InplaceShift", inputs=_VIDEO)
