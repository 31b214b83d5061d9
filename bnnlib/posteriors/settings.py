"""Numbers of a layer that can be assigned at any time: one state each, checked."""

import inspect
import json
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from bnnlib._checks import check_probability
from bnnlib.posteriors.kl_tokens import forget


class _Setting(property):
    default: Any
    each: bool


def setting(
    name: str, check: Callable[[str, Any], Any], default: Any = inspect.Parameter.empty, each: bool = False
) -> _Setting:
    """A number of a layer that is checked whenever it is assigned; a token of the value before is dropped.

    With `each` there may be one number for each network of a stack.
    """

    def get(layer) -> float | Tensor:
        return getattr(layer, f"_{name}")

    def put(layer, value: float) -> None:
        value = layer._as_setting(name, value) if each else value
        several = each and type(layer)._as_setting is not PersistentSettings._as_setting
        if isinstance(value, Tensor) and value.numel() != 1 and not several:
            raise ValueError(f"{name} has shape {tuple(value.shape)}, but it must be one number for the whole layer.")
        value = check(name, value)
        value = value if isinstance(value, Tensor) and value.dim() else float(value)
        own = vars(layer)
        given = {key: own[f"_{key}"] for key in layer._together if f"_{key}" in own} | {name: value}
        if name in layer._together and len(given) == len(layer._together):
            layer._check_together(**given)
        setattr(layer, f"_{name}", value)
        forget(layer)

    descriptor = _Setting(get, put)
    descriptor.default, descriptor.each = default, each
    return descriptor


class PersistentSettings(nn.Module):
    """Modules whose settings travel in the state_dict, above all those of their priors.

    They are JSON in a tensor of bytes under "_extra_state": exact, for 1e-200 as well, whatever the module is cast to,
    and loaded with weights_only=True. A state_dict without them, of a deterministic network,
    leaves the settings as they are.
    """

    # settings that must keep to each other, and what raises where they do not
    _together: ClassVar[tuple[str, ...]] = ()
    _check_together: ClassVar[Callable[..., Any]]

    def _as_setting(self, name: str, value: Any) -> Any:
        """A number from what is given for a setting that may have one for each network of a stack."""
        return value

    @classmethod
    def _all_settings(cls) -> dict[str, _Setting]:
        """By name, those of base classes first."""
        own = [item for kind in cls.__mro__[::-1] for item in vars(kind).items()]
        return {name: value for name, value in own if isinstance(value, _Setting)}

    def get_extra_state(self) -> Tensor:
        """The settings, as JSON in a tensor of uint8."""
        numbers = {name: getattr(self, name) for name in sorted(self._all_settings())}
        text = json.dumps(numbers, default=lambda column: column.flatten().tolist())
        return torch.tensor(list(text.encode()), dtype=torch.uint8, device="cpu")

    def set_extra_state(self, state: Tensor) -> None:
        """Take over what `get_extra_state` gave: all, or nothing where a setting is unknown or out of its range."""
        try:
            given = json.loads(bytes(state.tolist()))
        except (ValueError, TypeError, AttributeError) as error:
            raise ValueError(
                f"the settings of {type(self).__name__} in this state_dict cannot be read ({error}): it is damaged."
            ) from None
        if unknown := set(given) - set(self._all_settings()):
            raise ValueError(
                f"this state_dict has the settings {', '.join(sorted(unknown))}, which {type(self).__name__} does not "
                "have: it is of another kind of layer."
            )
        before = {name: getattr(self, name) for name in given}
        try:
            # all before the checks: those that go together would not fit the ones from before
            self.__dict__.update({f"_{name}": self._as_setting(name, value) for name, value in given.items()})
            for name, value in given.items():
                setattr(self, name, value)
        except ValueError:
            self.__dict__.update({f"_{name}": value for name, value in before.items()})
            raise

    def _load_from_state_dict(self, state_dict, prefix, metadata, strict, missing_keys, *rest) -> None:
        missing: list[str] = []
        super()._load_from_state_dict(state_dict, prefix, metadata, strict, missing, *rest)
        missing_keys.extend(key for key in missing if key != f"{prefix}_extra_state")


def check_open(name: str, value: Any) -> Any:
    """`check_probability` on the open interval."""
    return check_probability(name, value, open_interval=True)
