#!/usr/bin/env python3
"""Writes src/ops/scalar/golden.inc: values of the scalar functions in f64, computed by mpmath.

    tools/coefficients/golden.py > src/ops/scalar/golden.inc

Each row is {function, x, y, value}, the value to the precision of long double. Unary functions have y = 0. Rows of
"pio2" give the double nearest to x - n pi/2, those of "pio2_low" the rest, and both, in y, n modulo 4. Rows of "f.re"
and "f.im" give the real and imaginary part of f(x + iy), for x and y that are exact in f32.

The points are random numbers of all magnitudes at which the function is interesting, and hard ones: next to multiples
of pi/2, next to 1, at the ends of the range.
"""

import math
import random

import mpmath
from mpmath import mp

mp.prec = 1600  # Enough to reduce the largest double modulo pi/2.

# The double closest to a multiple of pi/2 (Muller, "Elementary Functions"), and other large ones.
HARD_ANGLES = [6381956970095103 * 2.0**797, 1.7976931348623157e308, 2.0**1023, 1e22, 2.0**30,
               math.nextafter(2.0**30, 0)]


def around(x):
    return [x, math.nextafter(x, math.inf), math.nextafter(x, -math.inf)]


def magnitudes(rng, low, high, count, signs=(1, -1)):
    """Random numbers with uniformly distributed exponents from low to high."""
    return [rng.choice(signs) * math.ldexp(rng.uniform(1, 2), rng.randint(low, high)) for _ in range(count)]


def uniform(rng, low, high, count):
    return [rng.uniform(low, high) for _ in range(count)]


def angles(rng):
    multiples = [rng.randint(1, 2**k) for k in range(2, 52, 2)]
    near = [float(n * mp.pi / 2) for n in multiples] + [float(n * mp.pi / 2 + mp.pi / 4) for n in multiples]
    return (near + HARD_ANGLES + magnitudes(rng, -1074, -1, 20) + magnitudes(rng, 0, 31, 40)
            + magnitudes(rng, 32, 1023, 60))


def exponents(rng, low, high):
    return (uniform(rng, low, high, 60) + uniform(rng, -1, 1, 60) + magnitudes(rng, -1060, -2, 20)
            + [math.log(2) / 2 * (2 * k + 1) for k in range(-20, 20)])


def positives(rng):
    return (magnitudes(rng, -1074, 1023, 60, (1,)) + uniform(rng, 0.5, 2, 60) + around(1.0)[1:] + around(math.sqrt(0.5))
            + around(math.sqrt(2)) + [1 + s * 2.0**-k for k in range(2, 52, 3) for s in (1, -1)] + [5e-324, 2.0**-1022])


def powers(rng):
    pairs = []
    for _ in range(200):
        x = magnitudes(rng, -1074, 1023, 1, (1,))[0]
        pairs.append((x, rng.uniform(-1070, 1020) / math.log2(x)))
    for k in range(2, 52, 2):
        x = 1 + rng.choice((1, -1)) * rng.uniform(1, 2) * 2.0**-k
        pairs.append((x, rng.uniform(-700, 700) / math.log(x)))
    pairs += [(x, rng.uniform(-10, 10)) for x in uniform(rng, 0.5, 2, 40)]
    pairs += [(-float(rng.randint(2, 50)), float(rng.randint(-100, 100))) for _ in range(20)]
    return [(x, y) for x, y in pairs if x != 1]


def logistic(x):
    return 1 / (1 + mpmath.exp(-x))


def functions(rng):
    sigmoid_points = uniform(rng, -25, 25, 60) + magnitudes(rng, -60, 4, 60)
    return {
        "exp": (mpmath.exp, exponents(rng, -745, 709.7)),
        "exp2": (lambda x: mpmath.mpf(2) ** x, exponents(rng, -1074, 1023.9)),
        "expm1": (mpmath.expm1, exponents(rng, -50, 709.7)),
        "log": (mpmath.log, positives(rng)),
        "log2": (lambda x: mpmath.log(x) / mpmath.log(2), positives(rng)),
        "log1p": (mpmath.log1p, [x - 1 for x in positives(rng) if x != 1] + magnitudes(rng, -1000, -3, 40)),
        "rsqrt": (lambda x: 1 / mpmath.sqrt(x), positives(rng)),
        "tanh": (mpmath.tanh, sigmoid_points),
        "logistic": (logistic, sigmoid_points + uniform(rng, -744, -20, 20)),
        "erf": (mpmath.erf, uniform(rng, -6, 6, 100) + magnitudes(rng, -60, 2, 60) + around(0.875)),
        "sin": (mpmath.sin, angles(rng)),
        "cos": (mpmath.cos, angles(rng)),
        "tan": (mpmath.tan, angles(rng)),
    }


def sinc(x):
    return mpmath.sinpi(x) / (mpmath.pi * x) if x != 0 else mpmath.mpf(1)


def more_functions(rng):
    unit = uniform(rng, -1, 1, 100) + magnitudes(rng, -1000, -1, 40) + [s * (1 - 2.0**-k) for k in range(2, 53, 3)
                                                                        for s in (1, -1)]
    everywhere = uniform(rng, -30, 30, 80) + magnitudes(rng, -1000, 1000, 60)
    hyperbolic = uniform(rng, -4, 4, 80) + uniform(rng, -710, 710, 40) + magnitudes(rng, -1000, -1, 40)
    return {
        "log10": (mpmath.log10, positives(rng) + [10.0**n for n in range(-300, 300, 37)]),
        "cbrt": (lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)), everywhere + [float(n**3) for n in range(1, 30)]),
        "sinh": (mpmath.sinh, hyperbolic),
        "cosh": (mpmath.cosh, hyperbolic),
        "arcsinh": (mpmath.asinh, everywhere),
        "arccosh": (mpmath.acosh, [1 + abs(x) for x in everywhere] + [1 + 2.0**-k for k in range(2, 53, 3)]),
        "arctanh": (mpmath.atanh, unit),
        "arcsin": (mpmath.asin, unit),
        "arccos": (mpmath.acos, unit),
        "arctan": (mpmath.atan, everywhere + unit),
        "sinc": (sinc, uniform(rng, -20, 20, 100) + magnitudes(rng, -60, 40, 60) + around(3.0)[1:]),
        "erfc": (mpmath.erfc, uniform(rng, -6, 27, 120) + magnitudes(rng, -60, 2, 60) + around(0.5)),
        "lgamma": (lambda x: mpmath.re(mpmath.loggamma(x)),
                   [abs(x) for x in everywhere] + uniform(rng, 0, 3, 60) + uniform(rng, -20, 0, 40) + around(1.0)[1:]
                   + around(2.0)[1:] + [2.5e305]),
        "digamma": (mpmath.digamma, [abs(x) for x in everywhere] + uniform(rng, -20, 3, 80)),
        "erf_inv": (mpmath.erfinv, [x for x in unit if x != 0] + around(0.75)),
    }


def single(x):
    """x rounded to f32."""
    with mp.workprec(24):
        return float(+mpmath.mpf(x))


def erfc_inv(x):
    if x > 1:
        return -erfc_inv(2 - x)
    if x > 0.25:
        return mpmath.erfinv(1 - x)
    return mpmath.findroot(lambda y: mpmath.log(mpmath.erfc(y)) - mpmath.log(x), mpmath.sqrt(-mpmath.log(x)))


def special_functions(rng):
    """At points that are exact in f32."""
    everywhere = uniform(rng, -60, 60, 60) + uniform(rng, -10, 10, 40) + magnitudes(rng, -20, 5, 30)
    normal = uniform(rng, -12, 6, 80) + magnitudes(rng, -30, 2, 30)
    return {
        "bessel_i0": (lambda x: mpmath.besseli(0, x), everywhere),
        "bessel_i1": (lambda x: mpmath.besseli(1, x), everywhere),
        "bessel_i0e": (lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x)), everywhere),
        "bessel_i1e": (lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x)), everywhere),
        "erfcx": (lambda x: mpmath.exp(x * x) * mpmath.erfc(x), uniform(rng, -8, 20, 80) + magnitudes(rng, -30, 8, 30, (1,))),
        "erfc_inv": (erfc_inv, uniform(rng, 0, 2, 60) + magnitudes(rng, -120, -2, 60, (1,))),
        "ndtr": (mpmath.ncdf, normal),
        "log_ndtr": (lambda x: mpmath.log(mpmath.erfc(-x / mpmath.sqrt(2)) / 2), normal + uniform(rng, -100, -12, 20)),
        "dawsn": (lambda x: mpmath.sqrt(mpmath.pi) / 2 * mpmath.exp(-x * x) * mpmath.erfi(x),
                  uniform(rng, -8, 8, 80) + magnitudes(rng, -30, 5, 30)),
        "expi": (mpmath.ei, uniform(rng, -20, 70, 80) + uniform(rng, -1, 1, 40)),
        "spence": (lambda x: mpmath.re(mpmath.polylog(2, 1 - x)), uniform(rng, 0, 4, 80) + magnitudes(rng, -20, 20, 30, (1,))),
    }


def special_functions_of_two(rng):
    count = 110
    shapes = uniform(rng, 0.1, 20, count // 2) + magnitudes(rng, -3, 9, count // 2, (1,))
    samples = [abs(a + rng.gauss(0, 1.5) * math.sqrt(a)) + 1e-3 for a in shapes]
    orders = [float(rng.randint(0, 12)) for _ in range(count)]
    return {
        "expn": (mpmath.expint, orders, magnitudes(rng, -8, 5, count, (1,))),
        "zeta": (mpmath.zeta, uniform(rng, 1.05, 30, count), magnitudes(rng, -3, 5, count, (1,))),
        "igamma": (lambda a, x: mpmath.gammainc(a, 0, x, regularized=True), shapes, samples),
        "igammac": (lambda a, x: mpmath.gammainc(a, x, mpmath.inf, regularized=True), shapes, samples),
        "igamma_grad_a": (lambda a, x: mpmath.diff(lambda b: mpmath.gammainc(b, 0, x, regularized=True), a), shapes[:60],
                          samples[:60]),
    }


# Those with a branch cut, which the points do not lie on, as it takes the sign of a zero there.
COMPLEX_FUNCTIONS = {
    "exp": mpmath.exp, "expm1": mpmath.expm1, "log": mpmath.log, "log1p": lambda z: mpmath.log(1 + z),
    "sqrt": mpmath.sqrt, "rsqrt": lambda z: 1 / mpmath.sqrt(z), "logistic": logistic, "sin": mpmath.sin,
    "cos": mpmath.cos, "tan": mpmath.tan, "sinh": mpmath.sinh, "cosh": mpmath.cosh, "tanh": mpmath.tanh,
    "arcsin": mpmath.asin, "arccos": mpmath.acos, "arctan": mpmath.atan, "arcsinh": mpmath.asinh,
    "arccosh": mpmath.acosh, "arctanh": mpmath.atanh,
}


def complex_points(rng):
    points = [(rng.uniform(-3, 3), rng.uniform(-3, 3)) for _ in range(30)]
    points += [(magnitudes(rng, -30, 5, 1)[0], magnitudes(rng, -30, 5, 1)[0]) for _ in range(20)]
    for _ in range(10):  # Next to the unit circle and to 1 and -1.
        angle = rng.uniform(-3, 3)
        points.append((math.cos(angle), math.sin(angle)))
        points.append((rng.choice((1, -1)) + rng.uniform(-1, 1) * 1e-3, rng.uniform(-1, 1) * 1e-4))
    return sorted((single(x), single(y)) for x, y in points)


def row(name, x, y, value):
    print(f'{{"{name}", {x.hex()}, {y.hex()}, {mpmath.nstr(value, 22, min_fixed=1, max_fixed=0)}L}},')


def main():
    print("// Written by tools/coefficients/golden.py: do not edit.")
    rng = random.Random(1)
    for name, (function, points) in functions(rng).items():
        for x in sorted(set(points)):
            value = function(mpmath.mpf(x))
            if value != 0 and mpmath.isfinite(value):
                row(name, x, 0.0, value)
    for x, y in sorted(powers(rng)):
        value = mpmath.mpf(x) ** mpmath.mpf(y)
        if 2.0**-1075 < abs(value) < 2.0**1023:
            row("pow", x, y, value)
    for x in sorted(angles(rng)):
        n = mpmath.nint(mpmath.mpf(x) * 2 / mp.pi)
        remainder = mpmath.mpf(x) - n * mp.pi / 2
        if abs(remainder) > 0.785:
            continue  # Almost a tie: either n would do.
        row("pio2", x, float(n % 4), mpmath.mpf(float(remainder)))
        row("pio2_low", x, float(n % 4), remainder - mpmath.mpf(float(remainder)))
    rng = random.Random(2)
    for name, (function, points) in more_functions(rng).items():
        for x in sorted(set(points)):
            value = function(mpmath.mpf(x))
            if value != 0 and mpmath.isfinite(value) and abs(value) < 2.0**1023:
                row(name, x, 0.0, value)
    for x, y in [(rng.uniform(-3, 3), rng.uniform(-3, 3)) for _ in range(60)] + [
            (magnitudes(rng, -600, 600, 1)[0], magnitudes(rng, -600, 600, 1)[0]) for _ in range(60)]:
        row("hypot", x, y, mpmath.sqrt(mpmath.mpf(x) ** 2 + mpmath.mpf(y) ** 2))
        angle = mpmath.atan2(mpmath.mpf(x), mpmath.mpf(y))
        if abs(angle) > 2.0**-1022:
            row("arctan2", x, y, angle)
    points = complex_points(rng)
    with mp.workprec(300):
        for name, function in COMPLEX_FUNCTIONS.items():
            for x, y in points:
                value = function(mpmath.mpc(x, y))
                row(f"{name}.re", x, y, value.real)
                row(f"{name}.im", x, y, value.imag)


def write_special():
    rng = random.Random(3)
    with mp.workprec(250):
        for name, (function, points) in special_functions(rng).items():
            for x in sorted({single(x) for x in points}):
                value = function(mpmath.mpf(x))
                if value != 0 and mpmath.isfinite(value) and 2.0**-126 < abs(value) < 2.0**127:
                    row(name, x, 0.0, value)
        for name, (function, *columns) in special_functions_of_two(rng).items():
            for x, y in sorted((single(x), single(y)) for x, y in zip(*columns)):
                value = function(mpmath.mpf(x), mpmath.mpf(y))
                if mpmath.isfinite(value) and 2.0**-126 < abs(value) < 2.0**127:
                    row(name, x, y, value)


if __name__ == "__main__":
    main()
    write_special()
