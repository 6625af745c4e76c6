"""zeta: a parallel scan, a sign that is passed straight through, and the logarithm of a factorial."""

from __future__ import annotations

from conformance.kit.declared import straight
from conformance.kit.inputs import drawn
from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("zetascale"), "zeta.nn.modules")
bare(enter("zetascale"), "zeta.nn.quant")


_POSITIVE = [(random((3, 2), 1).detach().abs().requires_grad_(),)]

scan = Subject("zeta.nn.modules.p_scan:PScan", inputs=drawn((2, 4, 3, 2), (2, 4, 3, 2)))
uneven_scan = Subject("zeta.nn.modules.p_scan:PScan", inputs=drawn((2, 5, 3, 2), (2, 5, 3, 2)))
sign = Subject("zeta.nn.quant.ste:STEFunc", inputs=drawn((3, 2)), formula=straight)
log_gamma = Subject("zeta.nn.modules.pulsar:LogGammaActivation", inputs=_POSITIVE)
