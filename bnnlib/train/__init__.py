"""Training and sampling that resume bit for bit."""

from bnnlib._callbacks import Callback, Run
from bnnlib._checks import DivergedError
from bnnlib.train.checkpoint import Checkpoint
from bnnlib.train.early_stopping import EarlyStopping
from bnnlib.train.fit import cosine, fit
from bnnlib.train.sample import sample

__all__ = [
    "Callback",
    "Checkpoint",
    "DivergedError",
    "EarlyStopping",
    "Run",
    "cosine",
    "fit",
    "sample",
]
