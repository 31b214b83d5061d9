"""Training and sampling that resume bit for bit, on one device or several."""

from bnnlib._callbacks import Callback, Run
from bnnlib.train.checkpoint import Checkpoint
from bnnlib.train.fit import TrainingError, cosine, fit
from bnnlib.train.sample import sample
from bnnlib.train.stages import Stages

__all__ = ["Callback", "Checkpoint", "Run", "Stages", "TrainingError", "cosine", "fit", "sample"]
