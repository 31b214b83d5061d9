"""Saving and loading: one file with a checksum, that runs no code when it is read."""

import io
import os
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from bnnlib._files import DamagedFileError, sealed, unsealed, write_atomic
from bnnlib.estimators.scatter import Scatter
from bnnlib.estimators.threads import threads
from bnnlib.train.checkpoint import plain

_HEAD = b"bnnlib estimator 1\n"


class Saved:
    """`save` and `load` of an estimator with its scaling, prior, network and optimizer."""

    def save(self: Any, path: str | os.PathLike) -> Path:
        """Write the estimator, fitted or not, so that `load` gives one that predicts and goes on as this one.

        Args:
            path: the file, replaced whole or not at all.

        Returns:
            The path.

        Raises:
            TypeError: a setting is no plain value; `random_state` must be a number or None.
            StoreError: the file cannot be written.
        """
        network = getattr(self, "network_", None)
        fitted = {name: value for name, value in vars(self).items() if name.endswith("_") and name != "network_"}
        content = {
            "class": type(self).__name__,
            "settings": {name: _plain(value) for name, value in self.get_params(deep=False).items()},
            "fitted": {name: _plain(value) for name, value in fitted.items()},
        }
        if network is not None:
            sizes = list(network.stack.posterior.layout.sizes)
            memory = {name: getattr(network, name) for name in network.memory}
            content["network"] = {"sizes": sizes, "state": network.state_dict(), "memory": memory}
        if (scatter := getattr(self, "_scatter", None)) is not None:
            content["scatter"] = scatter.kept()
        content |= plain({name: content[name] for name in ("settings", "fitted")}, type(self).__name__)
        buffer = io.BytesIO()
        torch.save(content, buffer)
        write_atomic(Path(path), sealed(_HEAD, buffer.getvalue()))
        return Path(path)

    @classmethod
    def load(cls, path: str | os.PathLike) -> Self:
        """Read what `save` wrote. Only numbers, texts and tensors are read, never code.

        Raises:
            FileNotFoundError: there is no such file.
            DamagedFileError: it is not a saved estimator, was cut or altered, or holds another class.
        """
        name = Path(path).name
        remedy = f"Give a file written by {cls.__name__}.save: copy it again, or fit again."
        body = unsealed(Path(path), _HEAD, "an estimator", remedy)
        content = torch.load(io.BytesIO(body), map_location="cpu", weights_only=True)
        if content["class"] != cls.__name__:
            raise DamagedFileError(
                f"{name} holds a {content['class']}, not a {cls.__name__}. Load it with {content['class']}.load."
            )
        estimator: Any = cls(**{key: _back(value) for key, value in content["settings"].items()})
        for key, value in content["fitted"].items():
            setattr(estimator, key, _back(value))
        with threads(estimator.n_jobs):
            if "network" in content:
                saved = content["network"]
                estimator.network_ = estimator._build(saved["sizes"], estimator.prior_inclusion_probability_)
                estimator.network_.load_state_dict(saved["state"])
                vars(estimator.network_).update(saved["memory"])
            if "scatter" in content:
                estimator._scatter = Scatter.of(content["scatter"], estimator.activation)
        return estimator


def _plain(value: Any) -> Any:
    """A NumPy value as what can be read back safely."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "OUS":
        return {"texts": value.tolist(), "object": value.dtype.kind == "O"}
    if isinstance(value, np.ndarray):
        return {"array": torch.from_numpy(value.copy())}
    return value


def _back(value: Any) -> Any:
    match value:
        case {"texts": list(texts), "object": bool(mixed)}:
            return np.asarray(texts, dtype=object if mixed else None)
        case {"array": torch.Tensor() as array}:
            return array.numpy()
    return value  # a dict too, such as class_weight
