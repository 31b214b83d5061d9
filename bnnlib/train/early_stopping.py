"""Training that ends when held-out rows say so."""

import copy
import math
from typing import Any

from torch import Tensor

from bnnlib._callbacks import Callback, Run
from bnnlib._checks import check_count


class EarlyStopping(Callback):
    """Stop when the validation loss has not fallen for some epochs, and give the weights of the best one back.

        fit(model, train, validation=held_out, epochs=500, batch_size=64, callbacks=[EarlyStopping(patience=10)])

    The weights of the best epoch are put back when the run is over, also by its epochs or a budget; `run.restored` says
    which epoch that was, `run.stopped` why the run ended. A checkpoint holds the last weights and the best ones. After
    Ctrl-C the model has its last weights, and the best ones are in `best_weights`. A run that starts with its first
    step forgets those of another.

    Args:
        patience: epochs without an improvement after which the run stops.
        start_epoch: epochs before this one do not count, such as those before a network is pruned; 1 is the first.

    Raises:
        ValueError: patience or start_epoch is below 1; in `fit`, there is no `validation`.

    Example:
        >>> x, model = torch.randn(80, 5), torch.nn.Linear(5, 1)
        >>> y, adam = x[:, :1] + torch.randn(80, 1), torch.optim.Adam(model.parameters(), lr=0.1)
        >>> run = fit(
        ...     model, (x[:40], y[:40]), validation=(x[40:], y[40:]), epochs=500, batch_size=10, optimizer=adam,
        ...     loss=torch.nn.functional.mse_loss, callbacks=[EarlyStopping(patience=5)],
        ... )
        >>> run.epoch < 500, run.restored == run.epoch - 5
        (True, True)
    """

    def __init__(self, patience: int = 5, start_epoch: int = 1) -> None:
        self.patience = check_count("patience", patience)
        self.start_epoch = check_count("start_epoch", start_epoch)
        self._forget()

    best_weights: dict[str, Tensor]

    def _forget(self) -> None:
        self.best, self.best_epoch, self.best_weights = math.inf, 0, {}

    def on_step(self, run: Run) -> None:
        if run.step == 1:
            self._forget()  # what another run has left

    def on_epoch(self, run: Run) -> None:
        loss = run.history[-1].get("validation_nll")
        if loss is None:
            raise ValueError("EarlyStopping goes by the loss of held-out rows. Give fit validation=(x, y).")
        if run.epoch < self.start_epoch:
            return
        if loss < self.best:
            self.best, self.best_epoch = loss, run.epoch
            self.best_weights = copy.deepcopy(run.model.state_dict())
        elif run.epoch - max(self.best_epoch, self.start_epoch - 1) >= self.patience:
            run.stop(
                f"validation_nll has not fallen below {self.best:g}, that of epoch {self.best_epoch}, for "
                f"{self.patience} epochs"
            )

    def on_end(self, run: Run) -> None:
        if self.best_weights:
            run.model.load_state_dict(self.best_weights)
            run.restored = self.best_epoch

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best, "best_epoch": self.best_epoch, "best_weights": self.best_weights}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.best, self.best_epoch, self.best_weights = state["best"], state["best_epoch"], state["best_weights"]
