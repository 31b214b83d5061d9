"""`bnnlib.train.fit` with the noise that stored results were drawn from."""

from __future__ import annotations

from functools import partial

from bnnlib import train

# Stored results, and the probes that certify them, drew the layers' noise and the order of rows from one generator, a
# sequence with a state. The default of `fit`, noise by key, has the same law and other numbers.
fit = partial(train.fit, keyed=False)
