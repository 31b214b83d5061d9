"""The kernels of `kernels.cpp` for GPUs, in Triton: the same function of key and number, operation by operation.

Without contraction, and with divisions and roots that round as IEEE 754 has it (`div_rn`, `sqrt_rn`), every operation
has one rounding here too. The names are those of the C++, where the formulas are explained.
"""

# no "from __future__ import annotations": Triton reads them

import triton
import triton.language as tl

BLOCK = 512  # items of a program: four for each of its 128 threads


@triton.jit
def _word(x, k0, k1):
    x = x ^ k0
    x = (x ^ (x >> 17)) * 0xED5AD4BB
    x = (x ^ (x >> 11) ^ k1) * 0xAC4C1B51
    x = (x ^ (x >> 15)) * 0x31848BAB
    return x ^ (x >> 14)


@triton.jit
def _ln(x):
    b = x.to(tl.uint32, bitcast=True) - 0x3F3504F3
    e = (b.to(tl.int32, bitcast=True) >> 23).to(tl.float32)
    m = ((b & 0x7FFFFF) + 0x3F3504F3).to(tl.float32, bitcast=True) - 1.0
    z = m * m
    q = (0.1994744553 - 0.1700165824 * m) + (0.1581938835 - 0.1049052654 * m) * z
    q = (0.3333362390 - 0.2499183955 * m) + q * z
    return (q * m - 0.5) * z + m + e * 0.69314718056


@triton.jit
def _float(word):
    return word.to(tl.int32, bitcast=True).to(tl.float32)


@triton.jit
def _unit(word):
    return (_float(word >> 9) + 0.5) * 1.1920928955078125e-7


@triton.jit
def _logistic(i, k0, k1):
    u = _unit(_word(i, k0, k1))
    return _ln(tl.div_rn(u, 1.0 - u))


@triton.jit
def _cosine(turn):
    x = (tl.abs(_float(turn)) * 2.3283064365386963e-10 - 0.25) * -6.2831853071795864
    y = x * x
    high = ((2.6e-6 * y - 1.9515295891e-4) * y + 8.3321608736e-3) * (y * y)
    return x * (high + (-1.6666654611e-1 * y + 1.0))


@triton.jit
def _gauss(j, k0, k1):
    turn = _word(2 * j + 1, k0, k1)
    tail = (_float(_word(2 * j, k0, k1) & 0x7FFFFFFF) + 0.5) * 4.656612873077392578125e-10
    radius = tl.sqrt_rn(-2.0 * _ln(tail))
    return radius * _cosine(turn), radius * _cosine(turn - 0x40000000)


@triton.jit
def _ex(x):
    x = tl.where(x < -87.0, -87.0, x)
    whole = (x * 1.44269504 - 0.5).to(tl.int32)
    n = whole.to(tl.float32)
    f = (x - n * 0.693359375) + n * 2.12194440e-4
    z = f * f
    p = (0.5 + 1.666657703e-1 * f) + ((4.166655466e-2 + 8.363173075e-3 * f) + 1.392617612e-3 * z) * z
    return (p * z + (f + 1.0)) * ((whole + 127) << 23).to(tl.float32, bitcast=True)


@triton.jit
def _softplus(rho):
    rho = tl.where(rho < -80.0, -80.0, rho)
    e = _ex(-tl.abs(rho))
    a = 1.0 + e
    b = 2.0 + e
    d = tl.div_rn(1.0, a * b)
    s = e * (a * d)
    z = s * s
    p = (0.6666632164 + 0.4002459523 * z) + (0.2796515776 + 0.2815777831 * z) * (z * z)
    over = s * (2.0 + p * z)
    q = b * d
    return tl.where(rho > 0, rho + over, over), tl.where(rho > 0, q, e * q)


@triton.jit
def _open(eta):
    return tl.where(eta > 0, 1.0, tl.where(eta <= 0, 0.0, eta))


@triton.jit
def _precision(moment, p, more, odds):
    a = 0.5 * more * moment + odds
    y = _ex(-tl.abs(a))
    q = tl.div_rn(1.0, 1.0 + y)
    return p + tl.where(a > 86.0, 0.0, more) * tl.where(a > 0, y * q, q)


@triton.jit
def _fold(key, number):
    """`bnnlib._noise.fold`, on the device."""
    z = key + 0x9E3779B97F4A7C15 * (number + 1).to(tl.uint64)
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB
    return z ^ (z >> 31)


@triton.jit
def _key(key_at, low, high):
    """Both halves of a key: as they are given, or of draw `low` of the key that lies on the device."""
    if key_at is not None:
        key = _fold(tl.load(key_at).to(tl.uint64, bitcast=True), low)
        return key.to(tl.uint32), (key >> 32).to(tl.uint32)
    else:
        return low.to(tl.uint32, bitcast=True), high.to(tl.uint32, bitcast=True)


@triton.jit
def _one(KIND: tl.constexpr, i, there, z, k2, k3, in0, in1, in2, in3, out0, out1, out2, t, c1, c2, c3):
    """Number i of a kernel whose noise is z."""
    if KIND == "normal":
        tl.store(out0 + i, z, there)
    elif KIND == "gaussian":
        scale, _ = _softplus(tl.load(in1 + i, there, 0.0))
        tl.store(out0 + i, tl.load(in0 + i, there, 0.0) + scale * z, there)
    elif KIND == "spike_slab":
        scale, _ = _softplus(tl.load(in1 + i, there, 0.0))
        slab = tl.load(in0 + i, there, 0.0) + scale * z
        eta = tl.load(in2 + i, there, 0.0) + _logistic(i.to(tl.uint32), k2, k3)
        tl.store(out0 + i, slab * _open(eta), there)
    elif KIND == "spike_slab_grad":
        m = tl.load(in0 + i, there, 0.0)
        s, slope = _softplus(tl.load(in1 + i, there, 0.0))
        l = tl.load(in2 + i, there, 0.0)  # noqa: E741
        g = tl.load(in3 + i, there, 0.0)
        e = _ex(-tl.abs(l))
        q = tl.div_rn(1.0, 1.0 + e)
        tf = t * tl.where(l > 0, q, e * q)
        off = tl.where(l > 0, e * q, q)
        eta = l + _logistic(i.to(tl.uint32), k2, k3)
        y = _ex(-tl.abs(eta) * c3)
        v = 1.0 + y
        gg = g * _open(eta)
        kl = (c2 - _ln(s)) + (0.5 * c1 * (s * s + m * m) + l)
        tl.store(out0 + i, gg + tf * (c1 * m), there)
        tl.store(out1 + i, (gg * z + tf * (c1 * s - tl.div_rn(1.0, s))) * slope, there)
        tl.store(out2 + i, g * (m + s * z) * (tl.div_rn(y, v * v) * c3) + tf * off * kl, there)
    else:
        m = tl.load(in0 + i, there, 0.0)
        s, slope = _softplus(tl.load(in1 + i, there, 0.0))
        g = tl.load(in2 + i, there, 0.0)
        if KIND == "gaussian_grad":  # whose c1 is t p
            tl.store(out0 + i, g + c1 * m, there)
            tl.store(out1 + i, (g * z + (c1 * s - tl.div_rn(t, s))) * slope, there)
        elif KIND == "profile_grad":
            v = _precision(m * m + s * s, c1, c2, c3)
            tl.store(out0 + i, g + t * (m * v), there)
            tl.store(out1 + i, (g * z + t * (s * v - tl.div_rn(1.0, s))) * slope, there)
        else:
            tl.static_assert(KIND == "mixture_grad")
            w = m + s * z
            score = w * _precision(w * w, c1, c2, c3)
            tl.store(out0 + i, g + t * score, there)
            tl.store(out1 + i, (g * z + t * (score * z - tl.div_rn(1.0, s))) * slope, there)


_NUMBERS = ["n", "k0", "k1", "k2", "k3"]  # one kernel serves all of them


@triton.jit(do_not_specialize=_NUMBERS)
def pairs(
    in0,
    in1,
    in2,
    in3,
    out0,
    out1,
    out2,
    share,
    key_at,
    n,
    k0,
    k1,
    k2,
    k3,
    c0,
    c1,
    c2,
    c3,
    KIND: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Kernels of normal numbers: number j is the cosine's and number h + j the sine's."""
    t = c0
    if share is not None:  # what the divergence counts is on the device, where nobody waits for it
        t = c0 * tl.load(share)
        if KIND == "gaussian_grad":
            c1 = c1 * tl.load(share)
    low, high = _key(key_at, k0, k1)
    k2, k3 = _key(key_at, k2, k3)
    h = n - n // 2
    j = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cosine, sine = _gauss(j.to(tl.uint32), low, high)
    _one(KIND, j, j < h, cosine, k2, k3, in0, in1, in2, in3, out0, out1, out2, t, c1, c2, c3)
    _one(KIND, h + j, j < n - h, sine, k2, k3, in0, in1, in2, in3, out0, out1, out2, t, c1, c2, c3)


@triton.jit(do_not_specialize=_NUMBERS)
def plain(out, key_at, n, k0, k1, KIND: tl.constexpr, BLOCK: tl.constexpr):
    """Kernels whose items are numbers and no pairs."""
    low, high = _key(key_at, k0, k1)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if KIND == "logistic":
        values = _logistic(i.to(tl.uint32), low, high)
    else:
        word = _word(i.to(tl.uint32), low, high)
        if KIND == "signs":
            values = tl.where((word >> 31) != 0, 1.0, -1.0)
        elif KIND == "words":  # for tests: what all numbers are made of
            values = word.to(tl.float32, bitcast=True)
        else:
            tl.static_assert(KIND == "uniform")
            values = _unit(word)
    tl.store(out + i, values, i < n)


@triton.jit(do_not_specialize=["k0", "k1", "rank"])
def layer_keys(out, step, n, k0, k1, rank, BLOCK: tl.constexpr):
    """The keys that `bnnlib.nn.redraw` gives to layers 0 to n - 1, of a seed's key and a step on the device."""
    seed = (k1.to(tl.uint32, bitcast=True).to(tl.uint64) << 32) | k0.to(tl.uint32, bitcast=True).to(tl.uint64)
    key = _fold(_fold(seed, tl.load(step)), rank)
    i = tl.arange(0, BLOCK)
    tl.store(out + i, _fold(key, i).to(tl.int64, bitcast=True), i < n)
