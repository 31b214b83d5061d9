"""What the paper says of its optimizer in sections 1 to 2.2, each sentence beside a run that can decide it.

Written down before the runs; nothing is tuned, and every size is the published one where there is one.

AVO                 the published training of an example. On example 2 the test error is looked at in every epoch
                    about the starts of the cycles: the first five epochs of a cycle less the last five of the one
                    before ("jump"; above 0, and the claim holds)
ramp                the same with a step size that rises from 0 in the first 50 epochs. More error than AVO, and such
                    a start "may not work"; less, and the claim fails
ramp, later E-step  the first E-step 50 epochs later, as late after the ramp as AVO's after its start: if this one
                    alone errs no more, it is the E-step that comes too early, and not the noise that drowns small
                    steps
1 draw, 4 draws     of the text's optimizer (form "natural") in each step, in batches of 1,024, the published size,
                    and of 64. One draw is enough in a batch where its test error is within 0.05 of that of four: the
                    noise of the responses has the variance 1, and the methods of the chapter lie 0.03 to 0.6 apart.
                    The squared gradient is that of the mean over the draws
rate x F            AVO and "natural", which has no momentum form: root mean square of the step over that of its
                    noise, by section 2.2, in the 50 epochs before the first E-step, at F times the published rate.
                    Below 1 the noise dominates
adaptive rate       1 / sqrt(v_t) of the weights of a layer of 50 ReLU units under a sigmoid, v_t the mean of t
                    squared gradients of batches of 128 rows; its inputs have normal weights of variance 2 / fan-in.
                    Weights whose gradient is exactly 0 have no rate and are counted apart. The tail index is Hill's,
                    of the largest thousandth; a variance exists above 2. The variance diverges where the index is
                    below 2
one step            peak of the memory, and processor time, of a step of AVO and of a Gaussian mean-field network with
                    Adam: the same LeNet-300-100 and 128 rows, in turns on one thread. "Much" is a third less. Added
                    when that network had shown less than a third of the time, before they ran: two hidden layers of
                    1,200, and the Gaussian network with local reparameterization ("local"), which takes twice the
                    products. A third there alone: it depends on the network, or on the estimator of the rival. Added
                    when the memory had shown less than a third: "scale from its dual", the same step without the two
                    things that the code, or ours, holds beyond need, the scale beside its dual and what is computed
                    on the way for all tensors at once. A third there: these are the cause. (At first the gradients of
                    the step before were counted too, and the tensors of the noise were not)

Weights and variances are called far below one where their mean squares, over weights that were not removed, are below
0.1. A variance is that of the posterior, T^2 times the squared scale.

All is measured where the examples are, after the last epoch but one (`examples.SPARE`), with which the code ends, and
errors once more after one that the code does not train, whose steps are the first and longest of a new cycle. (At first
all was measured there: what is said of a rising rate and of squares did not come from the end of a cycle.)
"""

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bnnlib.functional import injected_scale
from bnnlib.nn import GaussianLinear, kl_gradient
from bnnlib.optim import AdaptiveVariational, GroupSpikeSlab
from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, Experiment, profiles, rows_of
from chapters.adaptive_optimizer.experiments import examples, measures
from chapters.adaptive_optimizer.experiments.training import Training, data_of, schedules
from chapters.adaptive_optimizer.problems import BATCH_SIZE, CYCLES, PROBLEMS, WARM_UP
from chapters.shared.memory import peak_bytes
from chapters.shared.timing import processor_milliseconds

NEAR = 5  # epochs on both sides of the start of a cycle
STEPS = (1, 2, 3, 5, 10)
FROM_DUAL = "AVO step, scale from its dual"
LENET = "LeNet-300-100"
METHODS = ("AVO step", FROM_DUAL, "Gaussian step")


class Varied(Training):
    """A training with a ramp, another form, several draws or another batch; it keeps steps beside their noise."""

    def __init__(self, params: dict[str, Any], data: dict[str, Tensor], device: torch.device, seed: int) -> None:
        super().__init__(params, data, device, seed)
        self.ratios: list[Tensor] = []  # of a step to its noise, for each network

    def measured_epochs(self) -> list[int]:
        length = self.params["epochs"] // CYCLES
        near = {start + k for start in range(length, self.params["epochs"], length) for k in range(-NEAR, NEAR)}
        return sorted({*super().measured_epochs(), *near})

    def learning_rate(self, batch: int) -> float:
        ramp = self.params.get("ramp", 0) * self.num_batches
        done = self.epoch * self.num_batches + batch + 1
        return super().learning_rate(batch) * min(1.0, done / ramp if ramp else 1.0)

    def _step(self, x: Tensor, y: Tensor) -> None:
        optimizer, draws = self.optimizer, self.params.get("draws", 1)
        optimizer.zero_grad()
        if optimizer.form == "sghmc":
            self._loss(x, y).backward()
        for _ in range(draws if optimizer.form == "natural" else 0):
            with optimizer.sampled_parameters():
                (self._loss(x, y) / draws).backward()
        if self.params.get("ratio"):
            self.ratios.append(self._ratio())
        optimizer.step()

    @torch.no_grad()
    def _ratio(self) -> Tensor:
        """Root mean square of a step over that of its noise, (R,); momentum multiplies both alike."""
        group, signal, noise = self.optimizer.param_groups[0], torch.tensor(0.0), torch.tensor(0.0)
        for parameter in group["params"]:
            scale = self.optimizer.scale(parameter)
            moved = group["lr"] * scale * (parameter.grad + group["weight_decay"] * parameter)
            signal = signal + moved.square().sum(dim=(1, 2))
            noise = noise + scale.square().sum(dim=(1, 2))
        if self.optimizer.form == "sghmc":
            size = injected_scale(group["lr"], group["momentum"], group["temperature"])
        else:
            size = 2.0**0.5 * group["temperature"]  # of the draws before and after the step
        return (signal / noise).sqrt() / size

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"ratios": self.ratios}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.ratios = list(state["ratios"])

    @torch.no_grad()
    def squares_of_all(self) -> dict[str, Tensor]:
        """Mean squares of the weights that are left, and their mean posterior variance, each (R,)."""
        total: dict[str, Tensor] = defaultdict(lambda: torch.tensor(0.0))
        for parameter in self.optimizer.param_groups[0]["params"]:
            left = (parameter != 0).float()
            variance = (self.optimizer.scale(parameter) * self.optimizer.param_groups[0]["temperature"]).square()
            for name, value in (("count", left), ("weight", parameter.square()), ("variance", left * variance)):
                total[name] = total[name] + value.sum(dim=(1, 2)).cpu()
        return {f"mean_{name}": total[key] / total["count"] for name, key in _SQUARES}


_SQUARES = (("square_weight", "weight"), ("posterior_variance", "variance"))


def run_cell(cell: Cell, device: torch.device, checkpoint: Checkpoint | None = None) -> CellResult:
    """Train one stack on an example."""
    data = data_of(cell.params, cell.replicates)
    training = Varied(cell.params, data, device, cell.replicates[0]).run(checkpoint)
    if cell.params.get("ratio"):
        return CellResult(rows_of(cell, {"step_over_noise": torch.stack(training.ratios).log().mean(dim=0).exp()}))
    values = measures.scores(training.problem, training.outputs(training.test_x).cpu(), data)
    values |= measures.selection(training.problem, training.inputs().cpu())
    rows = rows_of(cell, {**values, **training.squares_of_all()})
    training.params = cell.params | {"spare": 0}
    after = measures.scores(training.problem, training.run().outputs(training.test_x).cpu(), data)
    rows += rows_of(cell, after, setting=f"{cell.setting}, after the last epoch")
    return CellResult(rows + _jumps(cell, training.trace))


def _jumps(cell: Cell, trace: list[Tensor]) -> list[dict[str, Any]]:
    """Test error just after the start of each cycle less that just before, of every network."""
    error = {int(epoch[0]): score for epoch, score, _ in trace}
    length, rows = cell.params["epochs"] // CYCLES, []
    for number in range(1, CYCLES):
        # by its clock's lead the code begins a cycle one epoch early: the last of these epochs is its first
        first = number * length
        spans = [range(first, first + NEAR), range(first - NEAR, first)]
        if all(epoch in error for span in spans for epoch in span):
            after, before = (torch.stack([error[epoch] for epoch in span]).mean(dim=0) for span in spans)
            rows += rows_of(cell, {"jump": after - before}, setting=f"{cell.setting}, cycle {number + 1}")
    return rows


def run_early(cell: Cell, device: torch.device, checkpoint: Checkpoint | None = None) -> CellResult:
    """Adaptive rates of many small networks in the first steps of Adam."""
    params, rows = cell.params, []
    for replicate in cell.replicates:
        generator = torch.Generator().manual_seed(140_000 + replicate)
        shape, units = (params["networks"], params["num_inputs"]), params["units"]
        weight = torch.randn(shape[0], units, shape[1], generator=generator).mul_((2.0 / shape[1]) ** 0.5)
        out = torch.randn(shape[0], 1, units, generator=generator).mul_((2.0 / units) ** 0.5)
        optimizer = torch.optim.Adam([weight.requires_grad_(), out.requires_grad_()], lr=1e-3)
        squares, x_all, y_all = torch.zeros_like(weight), *_example_3(params, replicate)
        for step in range(1, STEPS[-1] + 1):
            x, y = x_all[step - 1].t(), y_all[step - 1].expand(shape[0], -1)
            logits = (out @ torch.relu(weight @ x))[:, 0]
            optimizer.zero_grad()
            F.binary_cross_entropy_with_logits(logits, y, reduction="none").mean(dim=1).sum().backward()
            squares += weight.grad.square()
            optimizer.step()
            if step in STEPS:
                rate = (squares[squares > 0] / step).rsqrt()
                found = {"tail_index": hill(rate), "without_rate": 100.0 * float((squares == 0).double().mean())}
                rows += rows_of(cell, found, setting=f"{cell.setting}, step {step}", replicate=replicate)
    return CellResult(rows)


def _example_3(params: dict[str, Any], replicate: int) -> tuple[Tensor, Tensor]:
    """Batches of example 3 with few inputs, (steps, rows, inputs) and (steps, rows)."""
    rows = params["batch_size"]
    x, y, _ = PROBLEMS["example 3"].draw(rows * STEPS[-1], 150_000 + replicate, params["num_inputs"])
    return x.view(-1, rows, params["num_inputs"]), y.view(-1, rows)


def hill(values: Tensor, share: float = 1e-3) -> float:
    """Hill's estimate of the index of a tail P(V > v) ~ v^-index, from the largest share of positive values."""
    largest = values.flatten().log().topk(max(2, int(share * values.numel()))).values
    return 1.0 / float((largest[:-1] - largest[-1]).mean())


def run_steps(cell: Cell, device: torch.device, checkpoint: Checkpoint | None = None) -> CellResult:
    """Peak memory in bytes a weight and milliseconds a step of both networks, replicate by replicate in turns."""
    params, sizes, rows = cell.params, cell.params["sizes"], []
    x, y = torch.rand(params["batch_size"], sizes[0]), torch.randint(sizes[-1], (params["batch_size"],))
    steps = {FROM_DUAL: _avo_step(sizes, FromDual)} if params.get("from_dual") else {"AVO step": _avo_step(sizes)}
    steps["Gaussian step"] = _gaussian_step(sizes, params.get("estimator", "weight"))
    weights = sum(a * b + b for a, b in pairwise(sizes))
    for replicate in cell.replicates:
        for method, (step, standing) in steps.items():
            for _ in range(params["warming"]):
                step(x, y)
            times = [processor_milliseconds(lambda step=step: step(x, y)) for _ in range(params["repeats"])]
            found = {"step_ms": sum(times) / len(times)}
            found["peak_bytes"] = (standing() + peak_bytes(lambda step=step: step(x, y))) / weights
            rows += rows_of(cell, found, method=method, replicate=replicate)
    return CellResult(rows)


def _layers(kind: Callable[[int, int], nn.Module], sizes: list[int]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for fan_in, fan_out in pairwise(sizes):
        layers += [kind(fan_in, fan_out), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class FromDual(AdaptiveVariational):
    """The same step tensor by tensor, with the scale made from its dual where it is needed, and kept nowhere."""

    def _update(self, group: dict[str, Any], parameters: list[Tensor], gradients: list[Tensor]) -> None:
        lr, momentum, temperature = group["lr"], group["momentum"], group["temperature"]
        spread = temperature * lr**0.75
        for weight, gradient in zip(parameters, gradients, strict=True):
            decay = self._decay(weight, group)
            if not self.state[weight]:
                del self._sghmc_state(weight)["tau"]
            rho, m, noise = (self.state[weight][key] for key in ("rho", "momentum", "noise"))
            change = rho.neg().exp_().add_(1.0).mul_(-1.0 / self.num_data)  # 1 / tau is 1 + exp(-rho)
            change.addcmul_(noise, gradient, value=spread).add_(rho.sigmoid().mul_(decay), alpha=spread**2)
            rho.sub_(change, alpha=group["scale_lr"])
            del change
            m.mul_(momentum).sub_(gradient, alpha=lr).sub_(weight * decay, alpha=lr)
            noise.normal_(generator=self.generator)
            m.add_(noise, alpha=injected_scale(lr, momentum, temperature))
            weight.addcmul_(rho.sigmoid(), m)


def _step_of(model: nn.Module, optimizer: torch.optim.Optimizer, more: Any, divergence: float = 0.0):
    """A step, and the bytes that stand between two of them once the gradients are gone, which a step makes anew."""

    def step(x: Tensor, y: Tensor) -> None:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        (loss + divergence * kl_gradient(model) if divergence else loss).backward()
        optimizer.step()

    def standing() -> int:
        optimizer.zero_grad()
        kept = [value for state in optimizer.state.values() for value in state.values() if torch.is_tensor(value)]
        return sum(value.numel() * value.element_size() for value in (*kept, *model.parameters(), *more()))

    return step, standing


def _avo_step(sizes: list[int], kind: type[AdaptiveVariational] = AdaptiveVariational):
    model, problem = _layers(nn.Linear, sizes), PROBLEMS["example 3"]
    prior = GroupSpikeSlab({"inputs": model[0].weight}, problem.spike, problem.slab, 60_000)
    optimizer = kind(model.parameters(), lr=problem.lr, num_data=60_000, weight_decay=problem.slab, prior=prior)
    # the noise is drawn into tensors that the optimizer keeps
    return _step_of(model, optimizer, lambda: [*prior.decay.values(), *prior.masks.values(), *optimizer._noise])


def _gaussian_step(sizes: list[int], estimator: str):
    model = _layers(partial(GaussianLinear, estimator=estimator), sizes)
    return _step_of(model, torch.optim.Adam(model.parameters()), list, 1.0 / 60_000)


def cells(scale: dict[str, Any]) -> list[Cell]:
    """All runs."""
    replicates, cap = tuple(range(scale["replicates"])), scale.get("epochs")
    later = {"ramp": scale["ramp"], "warm_up": scale["warm_up"] + scale["ramp"]}
    made = []

    def add(setting: str, method: str, name: str, **more: Any) -> None:
        made.append(Cell(setting, method, replicates, examples.params_of(name, scale, **(examples.SPARE | more))))

    for name in PROBLEMS:
        add(name, "AVO", name)
        add(name, "ramp", name, ramp=scale["ramp"])
        add(name, "ramp, later E-step", name, **later)
    for batch in (BATCH_SIZE, 64):
        for draws in (1, 4):
            more = {"batch_size": batch, "draws": draws, "form": "natural", "epochs": cap or 1000}
            add(f"example 1, batch {batch}", f"{draws} draw" + "s" * (draws > 1), "example 1", **more)
    for factor in (1.0, 0.1, 0.01):
        for form in ("natural", "sghmc"):
            # the cosine falls as slowly as in the published training, of which these epochs are the first
            more = {"form": form, "ratio": True, "rule": "none", "lr": factor * PROBLEMS["example 1"].lr}
            more["spare"] = (cap or PROBLEMS["example 1"].epochs) - min(WARM_UP, cap or WARM_UP)
            add(f"example 1, rate x {factor:g}", "natural" if form == "natural" else "momentum", "example 1", **more)
    early = {"networks": scale["networks"], "num_inputs": 20, "units": 50, "batch_size": 128}
    made.append(Cell("one hidden layer", "adaptive rate", replicates, early))
    for name, sizes in scale["sizes"].items():
        one = {"sizes": sizes, "batch_size": 128, "warming": 3, "repeats": scale["repeats"]}
        made.append(Cell(name, "one step", replicates, one))
        made.append(Cell(f"{name}, local", "one step", replicates, one | {"estimator": "local"}))
        if name == LENET:
            made.append(Cell(f"{name}, scale from its dual", "one step", replicates, one | {"from_dual": True}))
    return made


_LITTLE = {"num_inputs": 30, "num_train": 2048, "epochs": 12, "warm_up": 4, "hard": 0.01, "ramp": 2}
_SMALL = [20, 12, 8, 3]
_LITTLE |= {"networks": 20, "repeats": 2, "sizes": {LENET: _SMALL}}
_SIZES = {LENET: [784, 300, 100, 10], "784-1200-1200-10": [784, 1200, 1200, 10]}
_BOOK = {"warm_up": WARM_UP, "ramp": 50, "networks": 500, "repeats": 100, "sizes": _SIZES}

EXPERIMENTS = [
    Experiment(
        name="avo-dynamics",
        summary="Draws, first steps, noise, memory and time of the optimizer, as sections 1 to 2.2 tell them",
        profiles=profiles(cells, smoke=({"replicates": 2, **_LITTLE},), book=({"replicates": 10, **_BOOK},)),
        run_cell=run_cell,
        methods={"adaptive rate": run_early, "one step": run_steps},
        unavailable={"paper": "not run: the paper has no such runs, and the book profile is whole"},
        schedules=lambda cell: schedules(cell) if "epochs" in cell.params else {},
        sources=dict.fromkeys(METHODS, "one step"),
        tiny={
            "replicates": 2,
            **_LITTLE,
            "sizes": _SMALL,
            "warm_up": lambda epochs: min(epochs, 4),
            "spare": lambda spare: min(spare, 8),
        },
        measured=("step_ms", "peak_bytes"),  # the second depends on what the process has allocated before
        value=4.0,
    )
]
