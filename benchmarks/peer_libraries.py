"""The packages of `benchmarks.peers`, each with its own means and defaults."""

import copy
import importlib
from typing import Any

import torch
from torch import Tensor, nn


class NotOffered(Exception):
    """A package has no function for this at all: the search for it in the package is what failed."""


def offered(package: Any, *names: str) -> Any:
    """The first of the names that a package has.

    Raises:
        NotOffered: it has none.
    """
    for name in names:
        if hasattr(package, name):
            return getattr(package, name)
    raise NotOffered(f"{package.__name__} has no {' or '.join(names)}")


class Library:
    """One package: how it converts a network, and what its converted network is trained and drawn with."""

    package = title = ""
    spread = ""  # part of the names of the parameters that a posterior adds

    def __init__(self, network: nn.Module, x: Tensor, y: Tensor) -> None:
        self.plain, self.x, self.y = network, x, y
        self.model = copy.deepcopy(network)
        self.size = sum(p.numel() for p in network.parameters())

    def converted(self) -> float:
        return 100.0 * sum(p.numel() for n, p in self.model.named_parameters() if self.spread in n) / self.size

    def draw(self, x: Tensor) -> Tensor:
        """Outputs of one draw of the weights."""
        return self.model(x)

    def loss(self) -> Tensor:
        """Of the network's own objective, where it has one."""
        return nn.functional.cross_entropy(self.model(self.x), self.y) + self.divergence() / len(self.x)

    def divergence(self) -> Tensor:
        raise NotOffered

    def parameters(self) -> list[Tensor]:
        return [p for p in self.model.parameters() if p.requires_grad]

    def compress(self) -> nn.Module:
        module = importlib.import_module(self.package)
        return offered(module, "compress", "prune", "to_deterministic")(self.model, self.x)


class Ours(Library):
    package = title = "bnnlib"

    def __init__(self, network: nn.Module, x: Tensor, y: Tensor) -> None:
        from bnnlib.nn import to_bayesian

        super().__init__(network, x, y)
        self.model = to_bayesian(self.model, initial_scale=0.1).train()

    def converted(self) -> float:
        from bnnlib.nn import bayesian_share

        return bayesian_share(self.model)

    def divergence(self) -> Tensor:
        from bnnlib.nn import kl_divergence

        return kl_divergence(self.model)

    def compress(self) -> nn.Module:
        from bnnlib.nn import StructuredBayesianPruning, insert_unit_noise
        from bnnlib.pruning import compress

        layers = [name for name, m in self.plain.named_modules() if isinstance(m, nn.Linear | nn.Conv2d)]
        noisy = insert_unit_noise(copy.deepcopy(self.plain), before=layers[1:] or layers)
        for module in noisy.modules():
            if isinstance(module, StructuredBayesianPruning):
                with torch.no_grad():  # as training leaves a unit that only carries noise
                    module.location[0], module.log_scale[0] = -15.0, 4.0
        return compress(noisy, self.x)


class BayesianTorch(Library):
    package, title, spread = "bayesian_torch", "bayesian-torch", "rho_"

    def __init__(self, network: nn.Module, x: Tensor, y: Tensor) -> None:
        from bayesian_torch.models.dnn_to_bnn import dnn_to_bnn

        super().__init__(network, x, y)
        prior = {"prior_mu": 0.0, "prior_sigma": 1.0, "posterior_mu_init": 0.0, "posterior_rho_init": -3.0}
        dnn_to_bnn(self.model, prior | {"type": "Reparameterization", "moped_enable": False, "moped_delta": 0.5})

    def divergence(self) -> Tensor:
        from bayesian_torch.models.dnn_to_bnn import get_kl_loss

        return get_kl_loss(self.model)


class Torchbnn(Library):
    package = title = "torchbnn"
    spread = "log_sigma"

    def __init__(self, network: nn.Module, x: Tensor, y: Tensor) -> None:
        super().__init__(network, x, y)
        # it is in no public name of the package
        convert = importlib.import_module("torchbnn.utils._convert_model")
        convert.nonbayes_to_bayes(self.model, 0.0, 0.1)

    def divergence(self) -> Tensor:
        import torchbnn

        return torchbnn.BKLLoss(reduction="sum", last_layer_only=False)(self.model).sum()


class TyXe(Library):
    package, title = "tyxe", "TyXe"

    def __init__(self, network: nn.Module, x: Tensor, y: Tensor) -> None:
        import pyro
        import tyxe
        from pyro import distributions

        super().__init__(network, x, y)
        pyro.clear_param_store()
        prior = tyxe.priors.IIDPrior(distributions.Normal(0.0, 1.0))
        self.model = tyxe.PytorchBNN(self.model, prior, tyxe.guides.AutoNormal)
        self.trained = list(self.model.pytorch_parameters(x))

    def converted(self) -> float:
        sites = self.model.net_guide(self.x)
        return 100.0 * sum(value.numel() for value in sites.values()) / self.size

    def divergence(self) -> Tensor:
        return self.model.cached_kl_loss  # of the pass before

    def parameters(self) -> list[Tensor]:
        return self.trained


class Laplace(Library):
    package, title = "laplace", "laplace-torch"

    def __init__(self, network: nn.Module, x: Tensor, y: Tensor) -> None:
        from laplace import Laplace as Fit

        super().__init__(network, x, y)
        self.model.eval()
        # of several ways to the curvature: the others do not know these layers
        from laplace.curvature import CurvlinopsEF

        self.fitted = Fit(self.model, "classification", "all", "diag", backend=CurvlinopsEF)
        self.precision = torch.ones(1, requires_grad=True)
        self.fitted.fit(torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), len(x)))

    def converted(self) -> float:
        return 100.0 * self.fitted.n_params / self.size

    def draw(self, x: Tensor) -> Tensor:
        return self.fitted.predictive_samples(x, pred_type="nn", n_samples=1)[0]

    def loss(self) -> Tensor:
        return -self.fitted.log_marginal_likelihood(self.precision)

    def parameters(self) -> list[Tensor]:
        return [self.precision]  # what it learns itself, after the network has been trained


class Posteriors(Library):
    package = title = "posteriors"

    def __init__(self, network: nn.Module, x: Tensor, y: Tensor) -> None:
        import posteriors
        import torchopt

        super().__init__(network, x, y)

        def log_posterior(values: Any, batch: Any) -> tuple[Tensor, Tensor]:
            output = torch.func.functional_call(self.model, values, (batch[0],))
            prior = posteriors.diag_normal_log_prob(values)
            return -nn.functional.cross_entropy(output, batch[1]) + prior / len(x), torch.zeros(())

        self.method = posteriors.vi.diag.build(log_posterior, torchopt.adam(lr=1e-2), init_log_sds=-2.0)
        self.state = self.method.init(dict(self.model.named_parameters()))

    def converted(self) -> float:
        return 100.0 * sum(value.numel() for value in self.state.log_sd_diag.values()) / self.size

    def draw(self, x: Tensor) -> Tensor:
        import posteriors

        values = posteriors.vi.diag.sample(self.state)
        return torch.func.functional_call(self.model, values, (x,))

    def step(self) -> None:
        self.state = self.method.update(self.state, (self.x, self.y), inplace=False)[0]


class TorchPruning(Library):
    package, title = "torch_pruning", "torch-pruning"

    def converted(self) -> float:
        offered(importlib.import_module(self.package), "to_bayesian", "kl_divergence", "sample")
        raise NotOffered

    def draw(self, x: Tensor) -> Tensor:
        self.converted()
        raise NotOffered

    loss = converted

    def compress(self) -> nn.Module:
        import torch_pruning

        ignored = [self.model.head]
        heads = {m: m.num_heads for m in self.model.modules() if isinstance(m, nn.MultiheadAttention)}
        importance = torch_pruning.importance.MagnitudeImportance(p=2)
        pruner = torch_pruning.pruner.MagnitudePruner(
            self.model, self.x, importance, pruning_ratio=0.5, ignored_layers=ignored, num_heads=heads
        )
        pruner.step()
        return self.model


LIBRARIES = (Ours, BayesianTorch, Torchbnn, TyXe, Laplace, Posteriors, TorchPruning)
