"""The linear layer of the horseshoe network: half-Cauchy scales that switch whole units off."""

from torch import Tensor

from bnnlib.nn.shapes import BayesianLinear
from bnnlib.posteriors import Horseshoe


class HorseshoeLinear(Horseshoe, BayesianLinear):
    """Linear layer with a horseshoe prior on each unit, non-centered and factorised (Ghosh, Yao and Doshi-Velez, 2018).

    The incoming weights and bias of unit k are tau_k * upsilon * beta with beta ~ N(0, 1), tau_k ~ C+(0, unit_scale)
    and upsilon ~ C+(0, layer_scale). The posterior is log-normal for the scales and N(weight,
    softplus(weight_rho)^2) for beta, so that `weight` and `bias` are the means of beta. Sparsity is by unit: a unit
    is off when the median of tau_k * upsilon is below `threshold`. For output layers take `GaussianLinear`, as the
    authors do.

    Args:
        in_features, out_features, bias, device, dtype: as for `nn.Linear`.
        unit_scale, layer_scale: medians of the half-Cauchy priors.
        initial_scale: initial posterior standard deviation of beta.
        threshold: median scale below which a unit counts as off.

    Shapes:
        input (*, in_features), output (*, out_features).

    Raises:
        ValueError: a scale or the threshold is not positive.

    Example:
        >>> layer = HorseshoeLinear(3, 2)
        >>> layer(torch.randn(8, 3)).shape
        torch.Size([8, 2])
    """

    unit_location: Tensor
    layer_location: Tensor

    def _like(self, name: str) -> Tensor:
        return self.weight[:, 0] if name == "unit" else self.weight[0, 0]

    def _factors(self, unit: Tensor, layer: Tensor) -> list[Tensor]:  # type: ignore[override]
        scale = (unit + layer).exp()
        return [scale[:, None], scale]
