"""Attacks on classifiers, and on the average of a posterior's classifiers: FGSM and PGD in the largest-change norm.

Both climb the log-odds against the label, log(1 - p_y) - log p_y. Its gradient is that of -log p_y times the positive
number 1/(1 - p_y), so the sign is the same; but it does not vanish where a confident network's 1 - p_y is lost to
rounding, which would pass for robustness.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from bnnlib._checks import check_count, check_non_negative, check_positive

Model = Callable[[Tensor], Tensor]


def fgsm(
    model: Model | Sequence[Model],
    x: Tensor,
    y: Tensor | None = None,
    size: float = 0.1,
    *,
    clip: tuple[float, float] | None = (0.0, 1.0),
) -> Tensor:
    """Fast gradient sign attack (Goodfellow et al., 2015), equation (aeb-fgsm), Deng et al. (2019, section 5.1).

    clip(x - size sign(grad_x log p_y(x))), where without labels y is the prediction, so that the gradient is that of
    max_c log p_c as in the paper.

    Args:
        model: model(x) are logits (log-probabilities are such), shape (n, classes); or several such, as networks drawn
            from a posterior, of which mean_k p_k is attacked. Modules run in `eval()` mode, and every part is put back
            into its own mode; what other callables do is theirs. With several, each must give the same outputs when
            called twice.
        x: inputs, shape (n, ...), within `clip`.
        y: labels, shape (n,); None takes what the averaged model predicts at x.
        size: largest change of an entry of x, in the units of x.
        clip: smallest and largest allowed entry of x, or None.

    Returns:
        Tensor, shape (n, ...), detached. No `.grad` of any parameter is touched.

    Raises:
        ValueError: a setting or a label is out of range, x leaves the clip range, shapes do not fit, there is no model,
            or the gradient is not finite.
    """
    check_non_negative("size", size)
    with _attacked(model, x, y, clip) as attack:
        return attack.clamp(attack.x + size * attack.direction(attack.x))


def pgd(
    model: Model | Sequence[Model],
    x: Tensor,
    y: Tensor | None = None,
    size: float = 0.1,
    *,
    steps: int = 10,
    step_size: float | None = None,
    clip: tuple[float, float] | None = (0.0, 1.0),
    random_start: bool = False,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Projected gradient attack (Madry et al., 2018): FGSM steps that stay within `size` of x.

    Args:
        model, x, y, size, clip: see `fgsm`; without labels, those predicted at x hold for all steps.
        steps: number of gradients.
        step_size: change of an entry in a step; None means 2.5 size / steps. One step of `size` is FGSM.
        random_start: start from x plus U(-size, size) in every entry instead of x.
        generator: of the random start, on x's device; None means PyTorch's global one.

    Returns:
        Tensor, shape (n, ...), detached. No `.grad` of any parameter is touched.

    Raises:
        ValueError: as `fgsm`; or steps is below 1, or step_size not above 0.
    """
    check_non_negative("size", size)
    check_count("steps", steps)
    if step_size is not None:
        check_positive("step_size", step_size)
    step_size = 2.5 * size / steps if step_size is None else step_size
    with _attacked(model, x, y, clip) as attack:
        low, high = attack.x - size, attack.x + size
        adversarial = attack.x
        if random_start:
            noise = torch.empty_like(adversarial).uniform_(-size, size, generator=generator)
            adversarial = attack.clamp(adversarial + noise)
        for _ in range(steps):
            moved = adversarial + step_size * attack.direction(adversarial)
            adversarial = attack.clamp(torch.minimum(torch.maximum(moved, low), high))
        return adversarial


class _Attack:
    """Inputs, labels and models of one attack."""

    def __init__(self, models, x, y, clip) -> None:
        self.models, self.x, self.clip = models, x, clip
        with torch.no_grad():
            scores = self._scores(x)
        self.y = scores.log_softmax(-1).logsumexp(0).argmax(-1) if y is None else _labels(y, scores)

    def clamp(self, x: Tensor) -> Tensor:
        return x if self.clip is None else x.clamp(*self.clip)

    def direction(self, x: Tensor) -> Tensor:
        """Sign of the gradient of the objective at x, -1, 0 or 1 in the shape of x."""
        with torch.no_grad():
            scores = self._scores(x)
        with torch.enable_grad():
            scores.requires_grad_()
            (by_score,) = torch.autograd.grad(self._objective(scores).sum(), scores)
            # one model at a time: memory for one graph, and models may share the module they load their weights into
            gradient = torch.zeros_like(x)
            leaf = x.detach().clone().requires_grad_()
            for model, weight in zip(self.models, by_score, strict=True):
                out = model(leaf)
                (part,) = torch.autograd.grad(out, leaf, weight.to(out.dtype))
                gradient += part
        if not torch.isfinite(gradient).all():
            raise ValueError(
                "the gradient of the attack has NaN or infinite entries: look for a diverged model or for inputs that "
                "are not finite."
            )
        return gradient.sign()

    def _scores(self, x: Tensor) -> Tensor:
        each = []
        for model in self.models:
            out = model(x)
            if out.dim() != 2 or len(out) != len(x) or out.shape[1] < 2:
                raise ValueError(
                    f"the model gave shape {tuple(out.shape)} for {len(x)} inputs, but it must be (n, classes) with at "
                    "least two classes."
                )
            each.append(out.detach().double())
        return torch.stack(each)

    def _objective(self, scores: Tensor) -> Tensor:
        """What the attack climbs, shape (n,), from scores (models, n, classes)."""
        log_p = scores.log_softmax(-1)
        index = self.y.expand(len(log_p), -1)[..., None]
        right = log_p.gather(-1, index).squeeze(-1)
        wrong = log_p.scatter(-1, index, -torch.inf).logsumexp(-1)
        return wrong.logsumexp(0) - right.logsumexp(0)


@contextmanager
def _attacked(model, x, y, clip) -> Iterator[_Attack]:
    models = [model] if callable(model) else list(model)  # an nn.Sequential is callable and one model
    if not models:
        raise ValueError("model is an empty sequence, so there is nothing to attack. Give at least one.")
    if not x.is_floating_point() or x.dim() < 2 or len(x) == 0:
        raise ValueError(f"x is {tuple(x.shape)} of {x.dtype}, but it must be (n, ...) of real numbers with n > 0.")
    if clip is not None:
        if len(clip) != 2 or not clip[0] < clip[1]:
            raise ValueError(f"clip is {clip}, but it must be (smallest, largest) or None.")
        if x.min() < clip[0] or x.max() > clip[1]:
            raise ValueError(
                f"x runs from {float(x.min()):g} to {float(x.max()):g}, but clip is {tuple(clip)}. Attack the images "
                "before they are normalized, with the normalization inside the model, or give another clip."
            )
    modes = {part: part.training for one in models if isinstance(one, nn.Module) for part in one.modules()}
    with torch.inference_mode(False):
        try:
            for part in modes:
                part.training = False
            yield _Attack(models, x.detach().clone(), y, clip)
        finally:
            for part, training in modes.items():
                part.training = training


def _labels(y: Tensor, scores: Tensor) -> Tensor:
    count, classes = scores.shape[1:]
    if y.shape != (count,) or y.is_floating_point() or y.dtype == torch.bool:
        raise ValueError(f"y is {tuple(y.shape)} of {y.dtype}, but it must be class numbers of shape ({count},).")
    if y.min() < 0 or y.max() >= classes:
        raise ValueError(f"y runs from {int(y.min())} to {int(y.max())}, but the model has classes 0 to {classes - 1}.")
    return y.long()
