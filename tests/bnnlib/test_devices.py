"""The random state of a device."""

from types import SimpleNamespace

import pytest
import torch

from bnnlib._devices import default_generator


def test_the_host_has_its_own():
    assert default_generator("cpu") is torch.default_generator is default_generator(torch.device("cpu", 0))


def test_a_device_without_number_is_the_current_one(monkeypatch):
    calls = []
    backend = SimpleNamespace(
        default_generators=("first", "second"), init=lambda: calls.append("init"), current_device=lambda: 1
    )
    monkeypatch.setattr(torch, "cuda", backend)
    assert default_generator("cuda") == "second" and default_generator("cuda:0") == "first" and len(calls) == 2


def test_a_device_without_random_state_is_named():
    with pytest.raises(ValueError, match=r"no random state for 'meta'.*generator=torch.Generator"):
        default_generator("meta")
