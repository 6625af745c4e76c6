"""Define the thresholds by which numbers are judged, with the purpose and origin of each.

Derived ones follow from the arithmetic; calibrated ones were set so that nothing right is accused, in runs with fresh
seeds (``python -m tests.proof resolution``) and in the kill matrix; those of effort say how many calls are made.
``python -m tests.proof constants`` changes each tenfold, both ways, and says who notices.
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

# Differences along a direction, over all ranks together.

#: Precisions that a Function may use inside, whatever the dtype of its inputs: about those of single and half. Derived.
COARSER = (1.2e-7, 1e-3)
#: Steps that single precision can tell, and half cannot. Derived.
BETWEEN_JUMPS = (1e-6, 3.7e-7)
#: Machine epsilons of rounding that a loss may have, next to the size of its terms; and second differences of it, over
#: a long and a short step together, for each term. Calibrated; derived, with a margin of two.
LOSS_ROUNDINGS, BENT_ROUNDINGS = 4, 24
#: A place is steep if the slope is this many times the size of the terms: steps are shorter there. Calibrated.
STEEP = 10
#: What curvature adds to a slope over the usual step, next to it: so many times the square of the step, and at least.
#: Calibrated.
CURVED, LEAST_CURVATURE = 5.0, 1e-6
#: Safety factors on the bend and the jump that were seen, for both are sampled at few points. Calibrated.
BENDS, JUMPS = 2, 4
#: A place is smooth if these are at most this part of the slope and of the terms. Calibrated.
SMOOTH = 1e-3
#: If a long and a short step disagree by more than this part of the terms, forward may round inside. Calibrated.
ROUGH = 1e-4
#: By how much the step of the second look is shorter: no simple fraction, which what repeats would hide from. Effort.
OTHER_STEP = 0.37
#: A slope is measured, and a deviation shown, if it is this many times the noise of the differences. Calibrated.
BEYOND_NOISE = 10
#: How many square roots of the machine epsilon slopes by jvp and by backward may be apart. Calibrated.
PAIRED = 10.0
#: Longer steps overrule a deviation if it is this many times their noise. Calibrated.
CLEAR_OF_NOISE = 8

# Elements that are zero.

#: How far slopes over different steps may be apart, next to the largest; and by how much the gradient has to be off.
#: Calibrated.
SLOPES_ALIKE, OFF_AT_ZERO = 0.01, 0.1
#: What is left at most of the bend over a step ten times as long, if forward is smooth: a tenth, and a margin. Derived.
BEND_LEFT = 0.25
#: If slopes grow so with each shorter step, they have no end, as those of a root at zero. Calibrated.
STEEPER = 1.5
#: Results that are so near a straight line, next to them, are on it. Calibrated.
AFFINE = 1e-4

# Two ways to compute the same.

#: Machine epsilons that they may be apart, and the least that is allowed. Calibrated.
SAME_ROUNDINGS, SAME_AT_LEAST = 64, 1e-9
#: So many times the gap of the results, and what rounded inputs do to gradients, is allowed beside. Calibrated.
BY_RESULTS, BEYOND_ROUNDING = 16, 8
#: Results that are this far apart, next to their size, are others. Calibrated.
OTHER_RESULTS = 1e-3
#: What is smaller than this part of the largest is compared next to that part of it. Calibrated.
BESIDE_LARGEST = 1e-5
#: An error below this, next to the gradient, may be meant: a small number in backward keeps a division finite. A tenth
#: of gradcheck's relative tolerance.
MAY_BE_MEANT = 1e-4
#: How far numbers may be apart that are added up in another order in each call, relative and absolute. Calibrated.
ABOUT_RTOL, ABOUT_ATOL = 1e-3, 1e-6
#: How far a gradient may be from a multiple of itself that is computed in another way: wide, since errors are searched,
#: not imprecision. The same for a device beside the CPU, and in half precision. Calibrated.
LINEAR_GRADIENTS, ON_DEVICE, ON_DEVICE_IN_HALF = 0.01, 0.01, 0.5
#: A gradient is the same nearby if it changes by at most so much over the steps of differences. Calibrated.
STABLE = 1e-3

# Precision.

#: How far a tensor that is computed in double precision may be from a straight line over two tiny steps. Calibrated.
STRAIGHT_IN_DOUBLE = 1e-9
#: The part of the elements that such a step leaves as they are where a gradient is computed in half. Calibrated.
STILL = 0.9
#: Machine epsilons that results in a lower precision, or sent in one, may be from those in double; and that what is
#: zero but for rounding may be off, next to what comes in. Calibrated.
AS_IN_DOUBLE, SUMS_TO_ZERO = 8, 4

# What a sample's numbers show.

#: Numbers are sorted on purpose if random ones would be so less often than this. Calibrated.
CHANCE = 0.01


def of_the_same(eps: float) -> float:
    """Return how far two ways to compute the same in a precision may be apart, next to its size.

    >>> of_the_same(0.0), of_the_same(SINGLE) == 64 * SINGLE
    (1e-09, True)
    """
    return max(SAME_AT_LEAST, SAME_ROUNDINGS * eps)
