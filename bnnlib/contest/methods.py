"""All methods by name, each with the box in which it is tuned."""

from bnnlib.contest import chains, points, posteriors, sparse
from bnnlib.contest.method import Method, Range

_LR, _DECAY = Range(1e-3, 1e-4, 3e-2), Range(1e-4, 1e-5, 1e-1)
_SGD_LR, _SPARSITY = Range(1e-2, 1e-3, 0.3), Range(0.9, 0.5, 0.98, log=False)
_CHAIN, _INCLUSION = {"lr": Range(1e-2, 1e-4, 0.1), "temperature": Range(1.0, 0.01, 1.0)}, Range(0.1, 1e-4, 0.5)
_STRENGTH = Range(1e-3, 1e-5, 3e-2)
_POINT = {"lr": _LR, "weight_decay": _DECAY}

METHODS: dict[str, Method] = {
    name: Method(name, train, box, (train.__doc__ or "").splitlines()[0])
    for name, train, box in (
        ("deterministic", points.deterministic, _POINT),
        ("deterministic_sgd", points.deterministic_sgd, {"lr": _SGD_LR, "weight_decay": _DECAY}),
        ("ensemble", points.ensemble, _POINT),
        ("dropout", points.dropout, {"lr": _LR, "rate": Range(0.1, 0.02, 0.5)}),
        ("laplace", points.laplace, _POINT),
        ("batch_norm", points.batch_norm, _POINT),
        ("stochastic_batch_norm", points.stochastic_batch_norm, _POINT),
        ("sghmc", chains.sghmc, _CHAIN),
        ("sghmc_sa", chains.sghmc_sa, {**_CHAIN, "sparsity": _SPARSITY}),
        (
            "adaptive_variational",
            chains.adaptive_variational,
            {"lr": _SGD_LR, "spike": Range(1e-2, 1e-3, 0.1), "hard_threshold": Range(1e-4, 1e-6, 1e-2)},
        ),
        ("gaussian", posteriors.gaussian, {"lr": _LR, "prior_scale": Range(1.0, 0.03, 3.0)}),
        ("spike_slab", posteriors.spike_slab, {"lr": _LR, "inclusion": _INCLUSION}),
        (
            "gaussian_spike_slab",
            posteriors.gaussian_spike_slab,
            {"lr": _LR, "inclusion": _INCLUSION, "spike_scale": Range(1e-2, 1e-3, 0.1)},
        ),
        ("sparse_vd", posteriors.sparse_vd, {"lr": _LR}),
        ("horseshoe", posteriors.horseshoe, {"lr": _LR}),
        ("unit_noise", posteriors.unit_noise, {"lr": _LR}),
        ("group_lasso", sparse.group_lasso, {"lr": _SGD_LR, "strength": _STRENGTH}),
        ("group_lasso_adam", sparse.group_lasso_adam, {"lr": _LR, "strength": _STRENGTH}),
        ("gradual_pruning", sparse.gradual_pruning, {"lr": _LR, "sparsity": _SPARSITY}),
        ("lottery_ticket", sparse.lottery_ticket, {"lr": _LR, "sparsity": _SPARSITY}),
        ("random_pruning", sparse.random_pruning, {"lr": _LR, "sparsity": _SPARSITY}),
        ("small_dense", sparse.small_dense, {"lr": _LR, "sparsity": _SPARSITY}),
    )
}
"""`Method` by name; ``METHODS[name].summary`` says what it is and ``METHODS[name].box`` in which ranges it is tuned."""
