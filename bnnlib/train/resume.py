"""What a checkpoint holds of a run, and whether it is one of this run."""

from __future__ import annotations

import copy
import warnings
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from bnnlib.posteriors.settings import PersistentSettings

if TYPE_CHECKING:
    from bnnlib.train.loop import Loop

_STAND = ("epoch", "step", "seconds", "stopped", "history")  # of a run


def save(loop: Loop) -> None:
    """Write a checkpoint, if there is one and the place can be found again."""
    if loop.checkpoint is None or (loop.done and not loop.batches.exact):
        return
    run = loop.run
    state = {
        "rows": loop.batches.rows,
        "batch_size": loop.batches.size,
        "model": run.model.state_dict(),
        "optimizer": run.optimizer.state_dict(),
        "optimizer_class": type(run.optimizer).__name__,
        "initial_rates": loop.initial_rates,
        "settings": [loop.settings, settings_of(run.model)],
        "generator": loop.generator.get_state(),
        "global": [generator.get_state() for generator in loop.global_generators],
        "noise_seed": loop.noise_seed,
        "batches": loop.batches.state_dict(),
        "done": loop.done,
        "losses": loop.losses,
        "callbacks": [callback.state_dict() for callback in loop.callbacks],
    }
    loop.checkpoint.save(state | {name: getattr(run, name) for name in _STAND} | loop.memory())


def resume(loop: Loop) -> None:
    """Take over what the checkpoint holds, if it holds anything."""
    state = loop.checkpoint.load() if loop.checkpoint else None
    if state is None:
        return
    run = loop.run
    _check_same_run(loop, state)
    run.model.load_state_dict(state["model"])
    loop.settings = state["settings"][0] if "settings" in state else settings_of(run.model)
    run.optimizer.load_state_dict(state["optimizer"])
    loop.initial_rates = list(state["initial_rates"])
    loop.generator.set_state(state["generator"])
    for name in _STAND:
        setattr(run, name, copy.copy(state[name]))
    loop.batches.load_state_dict(state["batches"])
    for generator, numbers in zip(loop.global_generators, state.get("global", ()), strict=False):  # older ones: none
        generator.set_state(numbers)
    loop.done, loop.losses = state["done"], state["losses"].to(loop.device)
    loop.noise_seed = state["noise_seed"]
    loop.recall(state)
    for callback, memory in zip(loop.callbacks, state["callbacks"], strict=True):
        callback.load_state_dict(memory)


def settings_of(model: nn.Module) -> dict[str, dict[str, Any]]:
    """The settings of all layers that have some, above all of their priors."""

    def plain(value: Any) -> Any:
        return value.tolist() if isinstance(value, Tensor) else value

    layers = {name: one for name, one in model.named_modules() if isinstance(one, PersistentSettings)}
    return {name: {key: plain(getattr(one, key)) for key in one._all_settings()} for name, one in layers.items()}


def _check_same_run(loop: Loop, state: dict[str, Any]) -> None:
    """Refuse the checkpoint of a run with other data, priors or kind of optimizer; warn of another rate.

    What a callback or a schedule changes during a run cannot tell runs apart. Checkpoints from before settings and
    optimizer were in them are taken as they are.
    """
    run, batches = loop.run, loop.batches
    here = {"rows": batches.rows, "batch_size": batches.size, "callbacks": len(loop.callbacks)}
    there = {"rows": state["rows"], "batch_size": state["batch_size"], "callbacks": len(state["callbacks"])}
    if here != there:
        raise ValueError(
            f"the checkpoint is of a run with {there}, but this one has {here}: it cannot go on from there. "
            "Use the same data, batch size and callbacks, or another checkpoint file."
        )
    for name, own in loop.settings.items():
        stored = [layers[name] for layers in state.get("settings", ()) if name in layers]
        for key, value in own.items():
            known = [layer[key] for layer in stored if key in layer]
            if known and value != known[0] == known[-1]:
                layer = type(run.model.get_submodule(name)).__name__
                raise ValueError(
                    f"the checkpoint is of a run in which {name or 'the model'} ({layer}) has {key}={known[0]}, but "
                    f"this one has {key}={value}: it cannot go on from there. Use the same, or another checkpoint file."
                )
    own_kind = type(run.optimizer).__name__
    if (kind := state.get("optimizer_class", own_kind)) != own_kind:
        raise ValueError(
            f"the checkpoint holds the state of {kind}, but this run has {own_kind}, which cannot go on from there. "
            f"Use {kind}, or another checkpoint file."
        )
    now = [float(group["lr"]) for group in state["optimizer"]["param_groups"]]
    before, given = ([float(rate) for rate in some] for some in (state["initial_rates"], loop.initial_rates))
    if given != before == now:
        one, other = (", ".join(f"{rate:g}" for rate in some) for some in (before, given))
        warn_of_change("lr", one, other, "the run goes on with the first; set it in a callback to change it.")


def warn_of_change(name: str, before: Any, given: Any, effect: str) -> None:
    """Say that a run goes on with another setting than that of its checkpoint."""
    warnings.warn(
        f"the checkpoint is of a run in which {name} is {before}, but this one has {given}: {effect} Use another "
        "checkpoint file to start anew.",
        stacklevel=6,  # where fit or sample is called
    )
