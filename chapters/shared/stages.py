"""Cells that train several networks one after the other, resumable in the middle of each."""

from typing import Any

from bnnlib.train.checkpoint import Checkpoint


class Stages:
    """What the finished trainings of a cell gave, and the checkpoint of the one under way.

        stages = Stages(checkpoint)
        for index, candidate in enumerate(candidates):
            if index < len(stages.finished):
                continue
            ... train(candidate, checkpoint=stages) ...
            stages.finish({"candidate": candidate, "error": error})

    Args:
        checkpoint: of the cell; None keeps nothing.

    Example:
        >>> stages = Stages(None)
        >>> stages.finish({"rate": 0.1})
        {'rate': 0.1}
        >>> len(stages.finished)
        1
    """

    def __init__(self, checkpoint: Checkpoint | None) -> None:
        self.checkpoint = checkpoint
        saved = (checkpoint.load() if checkpoint else None) or {"finished": [], "current": None}
        self.finished: list[Any] = saved["finished"]
        self._current: dict[str, Any] | None = saved["current"]

    def finish(self, result: Any) -> Any:
        """Keep what a training gave (tensors, numbers, strings, lists and dicts) and return it."""
        self.finished.append(result)
        self._current = None
        if self.checkpoint:
            self.checkpoint.save({"finished": self.finished, "current": None})
        return result

    def load(self) -> dict[str, Any] | None:
        """State of the training under way, once; None when it starts from the beginning."""
        state, self._current = self._current, None
        return state

    def save(self, state: dict[str, Any]) -> None:
        """Keep the state of the training under way."""
        if self.checkpoint:
            self.checkpoint.save({"finished": self.finished, "current": state})

    def due(self) -> bool:
        """True when the last save is long enough ago."""
        return self.checkpoint is not None and self.checkpoint.due()
