"""Physical export of an unstructured sparse network: its weight matrices in compressed sparse row (CSR) form.

A convolution multiplies the sparse filters with the image's patches side by side (im2col). Whether that is faster
depends on sparsity, layer and batch; `benchmarks/csr.py` of the repository measures it.
"""

import copy
import os
import warnings

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bnnlib._checks import check_probability
from bnnlib._copies import replaced
from bnnlib.nn.base import BayesianLayer, give_hooks
from bnnlib.pruning.compress.network import check_weights
from bnnlib.pruning.stored import read_tensors, write_tensors

FORMAT = "bnnlib-csr-1"
_BUFFERS = ("row_start", "column", "value")
_DENSE = (nn.modules.batchnorm._BatchNorm, nn.GroupNorm, nn.modules.instancenorm._InstanceNorm, nn.LayerNorm, nn.PReLU)
# entries of the patches at once: 1 MiB in float32 stays in a processor's cache, while a GPU wants few large products
_CHUNK = {"cpu": 2**18, "cuda": 2**26}

_Dense = nn.Linear | nn.Conv2d
_Matrix = tuple[Tensor, Tensor, Tensor]  # as in _BUFFERS


class _CSRLayer(nn.Module):
    """A weight matrix as buffers: row_start (rows + 1,), column and value (nonzeros,), bias (rows,) or None."""

    row_start: Tensor
    column: Tensor
    value: Tensor
    bias: Tensor | None

    def __init__(self, layer: _Dense, matrix: _Matrix | None, size: tuple[int, int]) -> None:
        super().__init__()
        self.size, self.num_weights = size, layer.weight.numel()
        with warnings.catch_warnings():  # PyTorch says once that its CSR tensors are in beta
            warnings.simplefilter("ignore", UserWarning)
            parts = _compressed(layer) if matrix is None else matrix
            for name, part in zip(_BUFFERS, parts, strict=True):
                self.register_buffer(name, part)
            self.register_buffer("bias", None if layer.bias is None else layer.bias.detach().clone())
            self._matrix()
        give_hooks(layer, self)
        self.train(layer.training)

    def _matrix(self, check: bool = False) -> Tensor:
        parts = self.row_start, self.column, self.value
        return torch.sparse_csr_tensor(*parts, self.size, check_invariants=check)

    def _times(self, dense: Tensor) -> Tensor:
        """matrix @ dense + bias for dense (columns, n), shape (rows, n)."""
        matrix = self._matrix()
        if dense.shape[1] == 1:  # the product with a vector is twice as fast
            vector = dense[:, 0]
            return (matrix.mv(vector) if self.bias is None else torch.addmv(self.bias, matrix, vector))[:, None]
        return matrix @ dense if self.bias is None else torch.addmm(self.bias[:, None], matrix, dense)

    @property
    def nonzeros(self) -> int:
        """Number of weights that are kept."""
        return self.value.numel()

    @property
    def sparsity(self) -> float:
        """Share of the weights that are 0, without the bias."""
        return 1.0 - self.nonzeros / self.num_weights

    def extra_repr(self) -> str:
        return f"{self.size[0]}, {self.size[1]}, nonzeros={self.nonzeros}, bias={self.bias is not None}"


def _compressed(layer: _Dense) -> _Matrix:
    weight = layer.weight.detach().flatten(1)
    matrix = weight.to_sparse_csr()
    start, column = matrix.crow_indices(), matrix.col_indices()
    if (groups := getattr(layer, "groups", 1)) > 1:  # the rows of a group read the channels of that group
        row = torch.repeat_interleave(torch.arange(len(weight), device=column.device), start.diff())
        column = column + row // (len(weight) // groups) * weight.shape[1]
    return start.int(), column.int(), matrix.values().clone()


class CSRLinear(_CSRLayer):
    """`nn.Linear` with a CSR weight, for inference; made by `to_csr`.

    Args:
        layer: the `nn.Linear` whose weights it takes.
        matrix: (row_start, column, value) in place of the layer's weights.

    Shapes:
        input (*, in_features), output (*, out_features).

    Example:
        >>> layer, x = torch.nn.Linear(3, 2).eval(), torch.randn(8, 3)
        >>> torch.allclose(CSRLinear(layer)(x), layer(x), atol=1e-6)
        True
    """

    def __init__(self, layer: nn.Linear, matrix: _Matrix | None = None) -> None:
        super().__init__(layer, matrix, (layer.out_features, layer.in_features))

    def forward(self, input: Tensor) -> Tensor:
        rows = input.reshape(-1, self.size[1])
        return self._times(rows.t()).t().reshape(*input.shape[:-1], self.size[0])


class CSRConv2d(_CSRLayer):
    """`nn.Conv2d` with a CSR weight that multiplies the patches of the images, for inference; made by `to_csr`.

    Args:
        layer: the `nn.Conv2d` whose weights and geometry it takes.
        matrix: (row_start, column, value) in place of the layer's weights.

    Shapes:
        input (N, C_in, H, W) or (C_in, H, W), output likewise.

    Example:
        >>> layer, x = torch.nn.Conv2d(1, 2, 3).eval(), torch.randn(8, 1, 5, 5)
        >>> torch.allclose(CSRConv2d(layer)(x), layer(x), atol=1e-6)
        True
    """

    def __init__(self, layer: nn.Conv2d, matrix: _Matrix | None = None) -> None:
        super().__init__(layer, matrix, (layer.out_channels, layer.in_channels * layer.weight[0, 0].numel()))
        self.kernel_size, self.stride, self.dilation = layer.kernel_size, layer.stride, layer.dilation
        self.padding = tuple(layer._reversed_padding_repeated_twice)  # as F.pad wants it, also for "same"
        self.padding_mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode

    def forward(self, input: Tensor) -> Tensor:
        images = input if input.dim() == 4 else input[None]
        if any(self.padding):
            images = F.pad(images, self.padding, self.padding_mode)
        for axis in (0, 1):
            dilation = self.dilation[axis]
            extent = (self.kernel_size[axis] - 1) * dilation + 1
            images = images.unfold(2 + axis, extent, self.stride[axis])[..., ::dilation]
        height, width = images.shape[2:4]  # images is (N, C, height, width, *kernel_size), a view
        chunk = max(1, _CHUNK.get(input.device.type, 2**26) // (self.size[1] * height * width))
        outputs = []
        for part in images.split(chunk):
            columns = part.permute(1, 4, 5, 0, 2, 3).reshape(self.size[1], -1)
            outputs.append(self._times(columns).unflatten(1, (-1, height, width)).transpose(0, 1))
        output = outputs[0] if len(outputs) == 1 else torch.cat(outputs)
        return output if input.dim() == 4 else output[0]


def _sparse(layer: _Dense, matrix: _Matrix | None = None) -> _CSRLayer:
    return CSRLinear(layer, matrix) if isinstance(layer, nn.Linear) else CSRConv2d(layer, matrix)


def to_csr(model: nn.Module, min_sparsity: float = 0.0) -> nn.Module:
    """A copy for inference whose linear and convolutional layers hold CSR weights; the outputs are the same.

    Normalization stays as it is, and modules without weights too.

    Args:
        model: deterministic and pruned, such as from `to_deterministic`; it is not changed.
        min_sparsity: layers with a smaller share of zeros stay dense, which is faster there: CSR needs 8 bytes a
            nonzero, dense 4 a weight, and a dense product does several times as many operations a second.

    Raises:
        ValueError: min_sparsity is outside [0, 1] or above the share of zeros of every layer, there is no layer to
            convert, or weights are not of float32 or float64, or computed by a hook.
        TypeError: the model has a layer that cannot be exported, which the message names.

    Example:
        >>> network, x = torch.nn.Linear(100, 100), torch.randn(2, 100)
        >>> network.weight.data[:, 5:] = 0.0
        >>> sparse = to_csr(network)
        >>> type(sparse).__name__, torch.allclose(sparse(x), network(x), atol=1e-6)
        ('CSRLinear', True)
    """
    check_probability("min_sparsity", min_sparsity)
    check_weights(model)
    model = copy.deepcopy(model)
    layers = exportable(model)
    zeros = {name: 1.0 - int(m.weight.count_nonzero()) / max(m.weight.numel(), 1) for name, m in layers.items()}
    new: dict[nn.Module, nn.Module] = {m: _sparse(m) for name, m in layers.items() if zeros[name] >= min_sparsity}
    if not new:
        sparsest = max(zeros, key=zeros.__getitem__)
        raise ValueError(
            f"min_sparsity is {min_sparsity:g}, but the sparsest layer, {sparsest or 'the model'}, "
            f"has a share of {zeros[sparsest]:.4g} zeros, so nothing would be converted. Prune more, or lower it."
        )
    return replaced(model, new)


def exportable(model: nn.Module) -> dict[str, _Dense]:
    """The layers of a deterministic model that `to_csr` can convert, by their names."""
    layers: dict[str, _Dense] = {}
    for name, module in model.named_modules():
        if (type(module) is nn.Linear or type(module) is nn.Conv2d) and module._parameters.get("weight") is not None:
            layers[name] = module
            if module.weight.dtype not in (torch.float32, torch.float64):
                raise ValueError(
                    f"{name or 'the model'} has weights of {module.weight.dtype}, but PyTorch multiplies CSR matrices "
                    "of float32 and float64 only. Convert the model with .float() first."
                )
        elif isinstance(module, BayesianLayer):
            raise TypeError(
                f"{name or 'the model'} is a {type(module).__name__}, whose weights are random. Export a network at "
                "the posterior means: to_csr(to_deterministic(model, masks)) or to_csr(prune_ranked(model, 0.95))."
            )
        elif not isinstance(module, _DENSE) and next(module.parameters(recurse=False), None) is not None:
            raise TypeError(
                f"{name or 'the model'} is a {type(module).__name__}, which cannot be exported: only nn.Linear and "
                "nn.Conv2d themselves become CSR, and normalization stays dense. Export the parts without it."
            )
    if not layers:
        raise ValueError(f"{type(model).__name__} has no nn.Linear or nn.Conv2d, so there is nothing to export.")
    return layers


def save_csr(model: nn.Module, path: str | os.PathLike) -> None:
    """Write the tensors of a model from `to_csr` to a file that `torch.load(path, weights_only=True)` reads.

    The file holds numbers only, no code and no architecture: `load_csr` takes that from the dense network.

    Raises:
        ValueError: the model has no CSR layer.

    Example:
        >>> import os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_csr(to_csr(torch.nn.Linear(3, 2)), f"{folder}/network.pt")
        ...     print(os.listdir(folder))
        ['network.pt']
    """
    if not any(isinstance(module, _CSRLayer) for module in model.modules()):
        raise ValueError(f"{type(model).__name__} has no CSR layer. Save to_csr(model).")
    write_tensors(path, FORMAT, [], model)


def load_csr(path: str | os.PathLike, model: nn.Module) -> nn.Module:
    """Read a file of `save_csr` into a copy of the dense network.

    Args:
        path: of the file; nothing in it is executed (weights_only=True), and its checksum and indices are checked.
        model: the architecture, made as for training; its weights do not matter and it is not changed. For a Bayesian
            one pass `to_deterministic(model)`.

    Returns:
        The sparse model on the CPU in eval mode.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is of another format, damaged, or of another architecture.

    Example:
        >>> import tempfile
        >>> network, x = torch.nn.Linear(3, 2), torch.randn(2, 3)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_csr(to_csr(network), f"{folder}/network.pt")
        ...     torch.allclose(load_csr(f"{folder}/network.pt", network)(x), network(x), atol=1e-6)
        True
    """
    (_, state), model = read_tensors(path, FORMAT, "save_csr"), copy.deepcopy(model).cpu()
    new: dict[nn.Module, nn.Module] = {}
    for name, layer in exportable(model).items():
        prefix = f"{name}." if name else ""
        if f"{prefix}value" in state:
            try:
                start, column, value = (state[prefix + part] for part in _BUFFERS)
                sparse = new[layer] = _sparse(layer, (start, column, value))
                sparse._matrix(check=True)
            except (KeyError, RuntimeError, ValueError, TypeError, AttributeError) as error:
                raise ValueError(
                    f"{path} does not fit {name or 'the model'}, a {layer}: {str(error).splitlines()[0]} The file is "
                    "damaged or of another network."
                ) from error
    model = replaced(model, new)
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        raise ValueError(f"{path} is of another network than this {type(model).__name__}. {error}") from error
    return model.eval()
