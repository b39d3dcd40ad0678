#!/usr/bin/env python3
"""Writes src/ops/scalar/coefficients.h: the polynomials and constants of the scalar functions.

    tools/coefficients/generate.py | clang-format > src/ops/scalar/coefficients.h

Needs sollya (8.0) and mpmath. Polynomials whose exact leading terms are kept apart come from sollya's fpminimax, which
searches among coefficients that are floats (Brisebarre & Chevillard 2007, "Efficient polynomial L-infinity
approximations"). Those with a weight of their own are weighted least-squares fits at Chebyshev nodes, rounded one
coefficient at a time, lowest degree first, each time fitting the others anew.
"""

import dataclasses
import subprocess
import textwrap

import mpmath
from mpmath import mp

mp.prec = 300


@dataclasses.dataclass
class Minimax:
    """f(x) ~ base(x) + sum of c_i x^monomials[i] with relative error on an interval."""

    name: str
    comment: str
    function: str
    base: str
    monomials: list
    interval: tuple
    bits: int


@dataclasses.dataclass
class Fit:
    """f(u) ~ sum of c_i u^i on an interval, its error weighted by weight(u)."""

    name: str
    comment: str
    function: object
    weight: object
    degree: int
    interval: tuple
    bits: int


def odd(first, last):
    return list(range(first, last + 1, 2))


LN2 = "(log(2) * 1.001)"
LN2_HALF = "(log(2) / 2 * 1.01)"
LN2_QUARTER = "(log(2) / 4 * 1.01)"
PI_4 = "(pi / 4 * 1.0001)"
PI_2 = "(pi / 2 * 1.002)"
ATANH_END = "0.17158"  # (sqrt(2) - 1) / (sqrt(2) + 1), rounded up.
ERF_SPLIT = mpmath.mpf("0.875")


def erf_quotient(z):
    """erf(sqrt z) / sqrt z - 1."""
    x = mpmath.sqrt(z)
    return mpmath.erf(x) / x - 1


def minus_log_erfc(u):
    return -mpmath.log(mpmath.erfc(u + 1))


def erfc_from_one(u):
    return mpmath.erfc(u + 1)


def scaled_erfc(u):
    """(1 + 2 x) exp(x^2) erfc(x), for x = 2 (1 + u) / (1 - u)."""
    x = 2 * (1 + u) / (1 - u)
    return (1 + 2 * x) * mpmath.exp(x * x) * mpmath.erfc(x)


def log_gamma_quotient(u):
    """log(gamma(x)) / ((x - 1) (x - 2)), for x = u + 3/2."""
    x = u + mpmath.mpf(3) / 2
    return mpmath.loggamma(x) / ((x - 1) * (x - 2))


def stirling_rest(w):
    """x times what Stirling's formula lacks of log(gamma(x)), for w = 1 / x^2."""
    x = 1 / mpmath.sqrt(w)
    return x * (mpmath.loggamma(x) - ((x - mpmath.mpf(1) / 2) * mpmath.log(x) - x + mpmath.log(2 * mpmath.pi) / 2))


def digamma_rest(w):
    """x^2 (log(x) - 1 / (2 x) - digamma(x)), for w = 1 / x^2."""
    x = 1 / mpmath.sqrt(w)
    return x * x * (mpmath.log(x) - 1 / (2 * x) - mpmath.digamma(x))


def erf_inv_quotient(w):
    """erfinv(x) / x, for w = -log(1 - x^2)."""
    x = mpmath.sqrt(-mpmath.expm1(-w))
    return mpmath.erfinv(x) / x


def scaled_bessel(order):
    """sqrt(x) exp(-x) I(x), of the modified Bessel function of an order, for u = 16 / x - 1."""

    def function(u):
        x = 16 / (u + 1)
        return mpmath.sqrt(x) * mpmath.exp(-x) * mpmath.besseli(order, x)

    return function


def scaled_bessel_fits(order):
    return [
        Fit(f"kBesselI{order}F64", f"I{order}(x)/x^{order} in powers of x^2 for |x| <= 8; relative error",
            lambda z: mpmath.besseli(order, mpmath.sqrt(z)) / mpmath.sqrt(z)**order,
            lambda z: mpmath.sqrt(z)**order / mpmath.besseli(order, mpmath.sqrt(z)), 17,
            (mpmath.mpf("1e-8"), mpmath.mpf(64)), 53),
        Fit(f"kBesselI{order}TailF64", f"sqrt(x) exp(-x) I{order}(x) in powers of 16 / x - 1 for x >= 8; relative error",
            scaled_bessel(order), lambda u: 1 / scaled_bessel(order)(u), 23,
            (mpmath.mpf("-0.9999999"), mpmath.mpf(1)), 53),
    ]


POLYNOMIALS = [
    Minimax("kExpF32", "(exp(r) - 1 - r) / r^2 for |r| <= ln(2)/2; relative error of exp(r) - 1",
            "expm1(x)", "x", list(range(2, 8)), (f"-{LN2_HALF}", LN2_HALF), 24),
    Minimax("kExpF64", "The same",
            "expm1(x)", "x", list(range(2, 13)), (f"-{LN2_HALF}", LN2_HALF), 53),
    Minimax("kExpWideF32", "(exp(r) - 1 - r) / r^2 for |r| <= ln(2); relative error of exp(r)",
            "exp(x)", "1 + x", list(range(2, 8)), (f"-{LN2}", LN2), 24),
    Minimax("kExp2F32", "(2^f - 1) / f for |f| <= 1/2; relative error of 2^f",
            "2^x", "1", list(range(1, 7)), ("-0.5001", "0.5001"), 24),
    Minimax("kExpm1F32", "(exp(r) - 1 - r) / r^2 for |r| <= ln(2)/2; relative error of exp(r) - 1",
            "expm1(x)", "x", list(range(2, 7)), (f"-{LN2_HALF}", LN2_HALF), 24),
    Minimax("kTanhF32", "(tanh(r) - r) / r^3 in powers of r^2 for |r| <= 3/8 ln(2); relative error of tanh(r)",
            "tanh(x)", "x", odd(3, 7), ("1b-20", "(log(2) * 3/8 * 1.01)"), 24),
    Minimax("kShortLogF32",
            "(log(1 + f) - f) / f^2 for sqrt(1/2) <= 1 + f <= sqrt(2); relative error of log(1 + f)",
            "log(1 + x)", "x", list(range(2, 11)), ("sqrt(1/2) - 1.0001", "sqrt(2) - 0.9999"), 24),
    Minimax("kLogF32",
            "(log(1 + f) - f + f^2/2) / f^3 for sqrt(1/2) <= 1 + f <= sqrt(2); relative error of log(1 + f)",
            "log(1 + x)", "x - x^2 / 2", list(range(3, 12)), ("sqrt(1/2) - 1.0001", "sqrt(2) - 0.9999"), 24),
    Minimax("kLogF64",
            "(2 atanh(s) - 2 s) / s^3 in powers of s^2, for s = f / (2 + f), the same f; relative error of 2 atanh(s)",
            "2 * atanh(x)", "2 * x", odd(3, 15), ("1b-20", ATANH_END), 53),
    Minimax("kLogTailF64",
            "(2 atanh(s) - 2 s - 2/3 s^3) / s^5 in powers of s^2, for the same s; relative error of 2 atanh(s)",
            "2 * atanh(x)", "2 * x + 2/3 * x^3", odd(5, 19), ("1b-20", ATANH_END), 53),
    Minimax("kSinF32",
            "(sin(r) - r) / r^3 in powers of r^2 for |r| <= pi/2, evaluated in f64; relative error of sin(r)",
            "sin(x)", "x", odd(3, 11), ("1b-20", PI_2), 53),
    Minimax("kTanF32", "(tan(r) - r) / r^3 in powers of r^2 for |r| <= pi/4; relative error of tan(r)",
            "tan(x)", "x", odd(3, 13), ("1b-20", PI_4), 24),
    Minimax("kSinF64", "(sin(r) - r) / r^3 in powers of r^2 for |r| <= pi/4; relative error of sin(r)",
            "sin(x)", "x", odd(3, 15), (f"-{PI_4}", PI_4), 53),
    Minimax("kCosF64", "(cos(r) - 1 + r^2/2) / r^4 in powers of r^2 for |r| <= pi/4; relative error of cos(r)",
            "cos(x)", "1 - x^2 / 2", [4, 6, 8, 10, 12, 14], (f"-{PI_4}", PI_4), 53),
    Minimax("kAtanF64", "(atan(t) - t) / t^3 in powers of t^2 for |t| <= tan(pi/8); relative error of atan(t)",
            "atan(x)", "x", odd(3, 25), ("1b-20", "0.41422"), 53),
    Fit("kErfF32", "erf(x)/x - 1 in powers of x^2 for |x| <= 1; relative error of erf(x)",
        erf_quotient, lambda z: mpmath.mpf(1), 6, (0, mpmath.mpf(1)), 24),
    Fit("kErfF64", "The same for |x| <= 0.875",
        erf_quotient, lambda z: mpmath.mpf(1), 11, (0, ERF_SPLIT**2), 53),
    Fit("kErfTailF32", "The fourth root of 1 - erf(x) in powers of x - 2 for 1 <= x <= 3.93; error of erf(x)",
        lambda u: mpmath.root(mpmath.erfc(u + 2), 4), lambda u: 4 * mpmath.root(mpmath.erfc(u + 2), 4) ** 3, 8,
        (mpmath.mpf(-1), mpmath.mpf("1.93")), 24),
    Fit("kErfTailF64", "-log(1 - erf(x)) in powers of x - 1 for 0.875 <= x <= 6; error of erf(x)",
        minus_log_erfc, erfc_from_one, 20, (ERF_SPLIT - 1, 5), 53),
    Fit("kErfcF64", "(1 + 2 x) exp(x^2) erfc(x) in powers of (x - 2) / (x + 2) for 1/4 <= x <= 28; relative error",
        scaled_erfc, lambda u: 1 / scaled_erfc(u), 25, (mpmath.mpf(-7) / 9, mpmath.mpf(26) / 30), 53),
    Fit("kLogGammaF64", "log(gamma(x)) / ((x - 1) (x - 2)) in powers of x - 3/2 for 1 <= x <= 2; relative error",
        log_gamma_quotient, lambda u: 1 / log_gamma_quotient(u), 21, (mpmath.mpf("-0.5001"), mpmath.mpf("0.5001")), 53),
    Fit("kStirlingF64", "x times what Stirling's formula lacks of log(gamma(x)), in powers of 1 / x^2 for x >= 8; error",
        stirling_rest, lambda w: mpmath.mpf(1), 7, (mpmath.mpf("1e-8"), mpmath.mpf(1) / 64), 53),
    Fit("kDigammaF64", "x^2 (log(x) - 1 / (2 x) - digamma(x)) in powers of 1 / x^2 for x >= 8; error",
        digamma_rest, lambda w: mpmath.mpf(1), 8, (mpmath.mpf("1e-8"), mpmath.mpf(1) / 64), 53),
    Fit("kErfInvF64", "erfinv(x)/x in powers of w - 5/2 for w = -log(1 - x^2) <= 5, where it is a first guess; relative "
        "error",
        lambda u: erf_inv_quotient(u + mpmath.mpf(5) / 2), lambda u: mpmath.mpf(1), 11,
        (mpmath.mpf("-2.499"), mpmath.mpf("2.5")), 53),
    Fit("kErfInvTailF64", "The same in powers of sqrt(w) - 4 for 5 <= w <= 37",
        lambda u: erf_inv_quotient((u + 4) ** 2), lambda u: mpmath.mpf(1), 11,
        (mpmath.mpf("-1.764"), mpmath.mpf("2.1")), 53),
    *scaled_bessel_fits(0),
    *scaled_bessel_fits(1),
]


def run_sollya(program):
    """The lines that a sollya program prints."""
    result = subprocess.run(["sollya", "--warnonstderr"], input=program + "quit;\n", text=True, capture_output=True,
                            check=True)
    return [line for line in result.stdout.splitlines() if line.strip()]


def minimax(p):
    low, high = p.interval
    lines = run_sollya(f"""
        prec = 300!; display = hexadecimal!; verbosity = 0!;
        f = {p.function}; base = {p.base};
        p = fpminimax(f, {p.monomials}, [|{p.bits}...|], [{low}; {high}], relative, floating, base);
        for i in {p.monomials} do print(coeff(p, i) - coeff(base, i));
        display = decimal!;
        print(round(log2(dirtyinfnorm((p - f) / f, [{low}; {high}])), 12, RU));
    """.replace(str(p.monomials), "[|" + ",".join(map(str, p.monomials)) + "|]"))
    return [float.fromhex(line) for line in lines[:-1]], float(lines[-1])


def round_to(value, bits):
    with mp.workprec(bits):
        return +value


def chebyshev_nodes(interval, count):
    low, high = (mpmath.mpf(end) for end in interval)
    middle, radius = (low + high) / 2, (high - low) / 2
    return [middle + radius * mpmath.cos(mpmath.pi * (2 * i + 1) / (2 * count)) for i in range(count)]


def fit(p):
    nodes = chebyshev_nodes(p.interval, 3 * p.degree + 4)
    weights = [p.weight(u) for u in nodes]
    rest = [p.function(u) for u in nodes]
    coefficients = []
    for first in range(p.degree + 1):
        matrix = mpmath.matrix(len(nodes), p.degree + 1 - first)
        for row, (u, w) in enumerate(zip(nodes, weights)):
            for column in range(p.degree + 1 - first):
                matrix[row, column] = w * u ** (first + column)
        right = mpmath.matrix([w * r for w, r in zip(weights, rest)])
        # Normal equations: the working precision is far beyond their loss of accuracy.
        solution = mpmath.lu_solve(matrix.T * matrix, matrix.T * right)
        coefficients.append(round_to(solution[0], p.bits))
        rest = [r - coefficients[-1] * u**first for u, r in zip(nodes, rest)]
    error = max(
        abs(p.weight(u) * (mpmath.polyval(coefficients[::-1], u) - p.function(u)))
        for u in chebyshev_nodes(p.interval, 400)
    )
    return [float(c) for c in coefficients], float(mpmath.log(error, 2))


def words(value, count, bits):
    """The leading `count` floats of `bits` bits whose sum is nearest to a value."""
    result = []
    for _ in range(count):
        result.append(round_to(value, bits))
        value -= result[-1]
    return [float(word) for word in result]


def print_words(name, value):
    for suffix, bits in (("F32", 24), ("F64", 53)):
        high, low = (float(word).hex() for word in words(value, 2, bits))
        print(f"inline constexpr Words {name}{suffix} = {{{high}, {low}}};")


def print_array(name, coefficients):
    print(f"inline constexpr std::array<double, {len(coefficients)}> {name} = {{")
    for coefficient in coefficients:
        print(f"    {coefficient.hex()},")
    print("};")


def main():
    print("""\
// Polynomials and constants of the scalar functions. Written by tools/coefficients/generate.py: do not edit.
//
// Coefficients are listed from the lowest power. The errors are those of the polynomials, before rounding.
#pragma once

#include <array>

namespace shoal::scalar {

/// A constant to twice the precision of a float type: the sum of two floats.
struct Words {
  double high;
  double low;
};

// ln(2), log2(e), log10(e), log10(2) and pi.""")
    print_words("kLn2", mpmath.log(2))
    print_words("kLog2E", 1 / mpmath.log(2))
    print_words("kLog10E", mpmath.log10(mpmath.e))
    print_words("kLog10Of2", mpmath.log10(2))
    print_words("kPi", mpmath.pi)
    print("\n// 2/3, for the logarithm to twice the precision of f64.")
    high, low = words(mpmath.mpf(2) / 3, 2, 53)
    print(f"inline constexpr Words kTwoThirdsF64 = {{{high.hex()}, {low.hex()}}};")
    for p in POLYNOMIALS:
        coefficients, error = minimax(p) if isinstance(p, Minimax) else fit(p)
        print("\n// " + "\n// ".join(textwrap.wrap(f"{p.comment}: 2^{error:.1f}.", 116)))
        print_array(p.name, coefficients)
    print("\n}  // namespace shoal::scalar")


if __name__ == "__main__":
    main()
