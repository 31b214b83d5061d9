"""The generator that most tests draw from, and numbers of it."""

import torch


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    """Standard normal numbers in double precision."""
    return torch.randn(*shape, generator=seeded(seed), dtype=torch.float64)


def double(*values) -> torch.Tensor:
    """The values in double precision; a single one is a number."""
    return torch.tensor(values, dtype=torch.float64).squeeze()
