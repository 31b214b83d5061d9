"""The price of a step that the project is after, as a ratio to the deterministic step; met or not."""

GOALS = {("gaussian", 128): 1.25, ("gaussian", 1024): 1.05, ("spike-slab", 128): 1.65, ("spike-slab", 1024): 1.10}
GOALS |= {(layer, 128): 1.6 for layer in ("horseshoe", "gaussian-spike-slab", "sparse-vd", "gaussian-local")}
GOALS |= {("sghmc", 128): 1.05, ("sghmc-sa", 128): 1.25}
GOALS |= {(network, 128): 1.15 for network in ("sbp-lenet-500-300", "sbp-lenet-500-300-hidden", "sbp-lenet5")}
