"""FunASR: a gradient that is multiplied, twice in the same package."""

from __future__ import annotations

from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("funasr"), "funasr.models.data2vec")
bare(enter("funasr"), "funasr.models.emotion2vec")

multiply = Subject("funasr.models.data2vec.grad_multiply:GradMultiply", spec="GradFactor")
multiply_again = Subject("funasr.models.emotion2vec.fairseq_modules:GradMultiply", spec="GradFactor")
