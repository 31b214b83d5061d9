"""Dropout with a generator of its own."""

from torch import Tensor, nn

from bnnlib._checks import check_probability
from bnnlib._noise import Keyed, draw_uniform


class Dropout(Keyed, nn.Module):
    """Dropout whose noise comes from `bnnlib.nn.redraw` or `bnnlib.nn.use_generator`, so that a resumed run repeats it.

    Args:
        probability: of setting an entry to 0, in [0, 1); what is left is divided by 1 - probability.

    Shapes:
        input and output (...), any.

    Raises:
        ValueError: probability is outside [0, 1).

    Example:
        >>> layer = Dropout(0.5)
        >>> torch.equal(layer.eval()(torch.ones(8)), torch.ones(8))
        True
    """

    def __init__(self, probability: float) -> None:
        super().__init__()
        check_probability("probability", probability)
        if probability == 1.0:
            raise ValueError("probability is 1, which drops everything; it must be below 1.")
        self.probability = float(probability)

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.probability == 0.0:
            return x
        keep = draw_uniform(x, self._noise(None)) >= self.probability
        return x * keep / (1.0 - self.probability)

    def extra_repr(self) -> str:
        return f"probability={self.probability:g}"
