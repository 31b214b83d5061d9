"""Noise by key in plain PyTorch: number i of a key is a pure function of both, the one of `kernels.cpp` to the bit.

All is elementwise arithmetic on int32 and float32, one rounding an operation, so that every device and every library of
mathematical functions gives the same numbers.
"""

import math

import torch
from torch import Tensor

_BLOCK = 1 << 18  # numbers at a time: below, starting a hundred operations takes longer than what they compute


def signed(word: int, bits: int = 32) -> int:
    """The number with a sign that has the same bits."""
    return word - (1 << bits) if word >> (bits - 1) else word


_A, _B, _C = signed(0xED5AD4BB), signed(0xAC4C1B51), signed(0x31848BAB)


def _words(x: Tensor, key: int) -> Tensor:
    """32 hashed bits of every counter in `x` (int32, overwritten): Wellons' triple32 with the key at two stages."""
    x ^= signed(key & 0xFFFFFFFF)
    x ^= (x >> 17) & 0x7FFF
    x *= _A
    x ^= (x >> 11) & 0x1FFFFF
    x ^= signed(key >> 32)
    x *= _B
    x ^= (x >> 15) & 0x1FFFF
    x *= _C
    x ^= (x >> 14) & 0x3FFFF
    return x


def _line(x: Tensor, constant: float, slope: float) -> Tensor:
    return (x * slope).add_(constant)


def _ln(x: Tensor) -> Tensor:
    bits = x.view(torch.int32) - 0x3F3504F3
    exponent = (bits >> 23).float()
    m = ((bits & 0x7FFFFF) + 0x3F3504F3).view(torch.float32).sub_(1.0)
    z = m * m
    q = _line(m, 0.1994744553, -0.1700165824).add_(_line(m, 0.1581938835, -0.1049052654).mul_(z))
    q = _line(m, 0.3333362390, -0.2499183955).add_(q.mul_(z))
    return q.mul_(m).sub_(0.5).mul_(z).add_(m).add_(exponent.mul_(0.69314718056))


def _unit(word: Tensor) -> Tensor:
    return ((word >> 9) & 0x7FFFFF).float().add_(0.5).mul_(2.0**-23)


def _tail(word: Tensor) -> Tensor:
    return (word & 0x7FFFFFFF).float().add_(0.5).mul_(2.0**-31)


def _cosine(turn: Tensor) -> Tensor:
    x = turn.float().abs_().mul_(2.0**-32).sub_(0.25).mul_(-2.0 * math.pi)
    y = x * x
    high = _line(y, -1.9515295891e-4, 2.6e-6).mul_(y).add_(8.3321608736e-3).mul_(y * y)
    return high.add_(_line(y, 1.0, -1.6666654611e-1)).mul_(x)


def _counters(first: int, last: int, step: int, like: Tensor) -> Tensor:
    return torch.arange(first, last, step, dtype=torch.int64, device=like.device).to(torch.int32)


def _normal(values: Tensor, key: int) -> None:
    """By Box and Muller: the first half are the cosines, the second half the sines."""
    half = (len(values) + 1) // 2
    for first in range(0, half, _BLOCK):
        last = min(first + _BLOCK, half)
        turn = _words(_counters(2 * first + 1, 2 * last + 1, 2, values), key)
        square = _ln(_tail(_words(_counters(2 * first, 2 * last, 2, values), key))).mul_(-2.0)
        # MKL's root of a float32 is off by one in every fifth last digit
        radius = square.double().sqrt_().float()
        values[first:last] = _cosine(turn).mul_(radius)
        sines = values[half + first : half + last]
        sines.copy_(_cosine(turn.sub_(1 << 30)).mul_(radius)[: len(sines)])


def fill(values: Tensor, kind: str, key: int) -> Tensor:
    """Fill `values`, flat and in float32, with numbers of the key.

    Args:
        kind: "normal"; "uniform" on (0, 1), whose ends are not drawn; "logistic", the log-odds of such a number; or
            "signs", -1 or 1.
        key: of 64 bits.
    """
    if kind == "normal":
        _normal(values, key)
        return values
    for first in range(0, len(values), _BLOCK):
        block = values[first : first + _BLOCK]
        word = _words(_counters(first, first + len(block), 1, values), key)
        if kind == "signs":
            block.copy_(word < 0).mul_(2.0).sub_(1.0)
        else:
            u = _unit(word)
            block.copy_(u if kind == "uniform" else _ln(u / (1.0 - u)))
    return values
