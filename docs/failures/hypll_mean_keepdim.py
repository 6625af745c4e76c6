"""HypLL 0.1.1, FrechetMean: backward of several means raises if their dimension is kept, and so does their variance."""

import torch
from hypll.manifolds.poincare_ball.math.stats import frechet_mean, frechet_variance

torch.manual_seed(0)
points = (0.2 * torch.randn(3, 4, 2, dtype=torch.float64)).requires_grad_()
curvature = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)

(expected,) = torch.autograd.grad(frechet_mean(points, curvature, batch_dim=1).sum(), points)
print("without the dimension, the gradient has the shape", tuple(expected.shape))
for name, function, kept in (("mean", frechet_mean, {"keepdim": True}), ("variance", frechet_variance, {})):
    try:
        function(points, curvature, batch_dim=1, **kept).sum().backward()
    except RuntimeError as error:
        print(f"{name}:", error)
    else:
        raise AssertionError("mended")

# The mean is there, so an unsqueeze after the Function instead of in it is enough:
mean = frechet_mean(points, curvature, batch_dim=1).unsqueeze(1)
(gradient,) = torch.autograd.grad(frechet_variance(points, curvature, mean, batch_dim=1).sum(), points)
print("with a mean that is unsqueezed outside, the gradient of the variance has the shape", tuple(gradient.shape))
