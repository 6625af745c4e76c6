"""SpeechBrain: a layer of quaternions."""

from __future__ import annotations

from conformance.kit.inputs import drawn
from conformance.kit.subject import Subject
from published.packages import absent, bare, enter

bare(enter("speechbrain"), "speechbrain.nnet.quaternion_networks")
absent("scipy.stats", chi=None)

linear = Subject(
    "speechbrain.nnet.quaternion_networks.q_ops:QuaternionLinearCustomBackward",
    inputs=drawn((5, 8), *[(2, 3)] * 4, (12,)),
)
