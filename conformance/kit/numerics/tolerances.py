"""Define the thresholds of the oracles, with the purpose and origin of each.

Derived ones follow from the arithmetic; calibrated ones were set so that right kernels are not accused, on runs with
fresh seeds (``python -m tests.proof resolution``); those of effort say how many calls are made.
"""

from __future__ import annotations

import torch

#: Machine epsilons. Derived.
SINGLE, HALF, BFLOAT = (float(torch.finfo(dtype).eps) for dtype in (torch.float32, torch.float16, torch.bfloat16))

#: Differences within this many standard deviations of noise are ignored. Derived: one in two million if it is normal.
SIGMAS = 5.0
#: The same if they are estimated from only three draws: one in a thousand by Student's t. Derived.
SIGMAS_OF_FEW = 30.0
#: Differences with a coarser resolution do not judge: they see a kink or a jump. Calibrated.
COARSEST_ACCUSER = 0.1
#: In half precision differences often are that coarse: there, an error this many times both is judged all the same, for
#: kinks were not seen to cause one. Calibrated.
BEYOND_KINKS = 3.0
#: How many times the drift between steps counts as nothing: kinks fall with the step, not with its square. Calibrated.
DRIFTS = 4.0
#: Machine epsilons within which sums and multiples of what goes in are those of what comes out; beyond them the adjoint
#: identity is not tried. How far they are off counts as its noise. Effort.
LINEAR = 16.0
#: The standard deviation of one rounding, in machine epsilons. Derived: 1/sqrt(12), rounded up.
ROUNDED = 0.3
#: The finest resolution: double precision rounds too. Calibrated.
FINEST, FINEST_DERIVATIVE = 1e-14, 1e-11
#: Draws of numbers and incoming gradients. Effort.
DRAWS, DRAWS_IN_HALF = 3, 6
#: The longest step that is tried, next to the input, how often it is halved, and how straight results have to be over
#: it, half of it and a quarter. Effort, effort, calibrated.
LONGEST, HALVINGS, STRAIGHT = 0.7, 12, 0.25
#: How many times a size that few directions sample may be another one in the second look. Calibrated.
SAMPLED_ALIKE = 10.0
#: The resolution by which an identity that rounds inside stands, and that of differences which asks for no further
#: steps, at least and in machine epsilons. Effort.
FINE, ENOUGH, ENOUGH_ROUNDINGS = 1e-3, 1e-9, 10.0
#: gradcheck's tolerances for each element of a Jacobian: absolute and relative. Borrowed.
GRADCHECK_ATOL, GRADCHECK_RTOL = 1e-5, 1e-3
#: Machine epsilons of the results within which an input makes no difference. Derived: two roundings, doubled.
WITHIN_ROUNDING = 4.0
#: How many times what eager PyTorch loses a right kernel may lose, in norm and in the largest element: twice what right
#: ones were seen to. Calibrated.
EAGER_NORMS, EAGER_ELEMENTS = 10.0, 20.0
#: What counts as lost in double precision, in which the reference is no finer than what it judges. Calibrated.
DOUBLE_BY_REFERENCE = 1e-9
#: Machine epsilons within which a gradient, in norm, is the declared one, and in half precision. Calibrated.
DECLARED, DECLARED_IN_HALF = 64.0, 8.0
#: How far a gradient in a lower precision may be from that in double, next to its size: in single precision, in half,
#: and in bfloat16. Right ones are off by 2e-7, 4e-4 and 3e-3 at most, beside what the next two explain. Calibrated.
BY_DOUBLE, BY_DOUBLE_IN_HALF, BY_DOUBLE_IN_BFLOAT = 2e-4, 0.01, 0.05
#: Beside that, so many times what the results lose, and what rounded inputs do. Calibrated.
LOST_BY_FORWARD, BEYOND_ROUGH = 10.0, 3.0
#: The coarsest resolution with which a gradient passes, and in half precision. Asked for: ``--resolution``.
RESOLUTION, RESOLUTION_IN_HALF = 0.05, 0.1
#: Largest relative difference between gradients of two equal calls. Calibrated.
SAME = 1e-6
#: Steps, next to the input, over which a right gradient shows although forward rounds, or stops within a tolerance; two
#: shorter ones, which then disagree; and by how many times one gap has to be the larger one. Effort, calibrated.
LONG_STEPS, SHORT_STEPS, CLEARLY = (1e-2, 3e-2, 1e-1), (1e-5, 1e-3), 4.0
