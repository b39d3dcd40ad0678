#!/usr/bin/env python3
"""Writes src/ops/scalar/special_coefficients.h: the polynomials of the special functions, and those of f32 of inverse
trigonometric ones.

    tools/coefficients/special.py | clang-format > src/ops/scalar/special_coefficients.h

Needs mpmath alone. All are the least-squares fits of generate.py."""

import textwrap

import mpmath
from mpmath import mp, mpf

import generate
from generate import Fit

mp.prec = 260
SMALL = mpf("1e-8")


def one(_):
    return mpf(1)


def inverse(f):
    return lambda u: 1 / f(u)


def odd_rest(f):
    """(f(t) - t) / t^3 as a function of t^2, and what makes an error of it one of f relative to f."""

    def rest(z):
        t = mpmath.sqrt(z)
        return (f(t) - t) / t**3

    return rest, lambda z: z * mpmath.sqrt(z) / f(mpmath.sqrt(z))


def scaled_erfc(t):
    """(1 + 2 x) exp(x^2) erfc(x), for x = 2 (1 + t) / (1 - t)."""
    x = 2 * (1 + t) / (1 - t)
    if x > 60:
        total, term, k = mpf(0), mpf(1), 0
        while k < 60 and abs(term) > mpf(2) ** -250:
            total += term
            k += 1
            term *= -(2 * k - 1) / (2 * x * x)
        return (1 + 2 * x) / (x * mpmath.sqrt(mp.pi)) * total
    with mp.workprec(400):
        return (1 + 2 * x) * mpmath.exp(x * x) * mpmath.erfc(x)


def log_gamma_quotient(u):
    x = u + mpf(7) / 4
    return mpmath.loggamma(x) / ((x - 1) * (x - 2))


def erf_inv_quotient(w):
    """erfinv(x) / x, for w = -log(1 - x^2)."""
    y = mpmath.sqrt(w)
    for _ in range(100):
        c = mpmath.erfc(y)
        slope = -2 / mpmath.sqrt(mp.pi) * mpmath.exp(-y * y) * (2 - 2 * c) / (c * (2 - c))
        step = (mpmath.log(c * (2 - c)) + w) / slope
        y = y / 2 if y <= step else y - step
        if abs(step) < mpf(2) ** -240 * y:
            break
    return y / (1 - mpmath.erfc(y))


def erf_inv_tail(name, low, high, degree, bits):
    middle = (mpf(low) + mpf(high)) / 2
    f = lambda u: erf_inv_quotient((u + middle) ** 2)
    return Fit(name, f"The same in powers of sqrt(w) - {float(middle):g} from {low} to {high}", f, inverse(f), degree,
               (mpf(low) - middle - mpf("1e-3"), mpf(high) - middle + mpf("1e-3")), bits)


def scaled_bessel(order):
    def f(u):
        x = 16 / (u + 1)
        return mpmath.sqrt(x) * mpmath.exp(-x) * mpmath.besseli(order, x)

    return f


def bessel(order):
    small = lambda z: mpmath.besseli(order, mpmath.sqrt(z)) / mpmath.sqrt(z) ** order
    tail = scaled_bessel(order)
    return [
        Fit(f"kBesselI{order}F32", f"I{order}(x)/x^{order} in powers of x^2 for |x| <= 8; relative error", small,
            inverse(small), 9, (SMALL, mpf(64)), 24),
        Fit(f"kBesselI{order}TailF32", f"sqrt(x) exp(-x) I{order}(x) in powers of 16 / x - 1 for x >= 8; relative error",
            tail, inverse(tail), 6, (mpf("-0.99999"), mpf(1)), 24),
    ]


def dawson(x):
    return mpmath.sqrt(mp.pi) / 2 * mpmath.exp(-x * x) * mpmath.erfi(x)


def dawson_near(z):
    return dawson(mpmath.sqrt(z)) / mpmath.sqrt(z)


def dawson_middle(middle):
    return lambda u: dawson(u + middle) * (u + middle)


def dawson_far(w):
    """2 x dawson(x) for w = 1 / x^2."""
    x = 1 / mpmath.sqrt(w)
    if x < 14:
        return 2 * x * dawson(x)
    total, term, k = mpf(0), mpf(1), 0
    while k < x * x and abs(term) > mpf(2) ** -250:
        total += term
        k += 1
        term *= (2 * k - 1) * w / 2
    return total


def dilogarithm(z):
    """What u - u^2/4 lacks of the dilogarithm of 1 - exp(-u), over u^3, for z = u^2."""
    u = mpmath.sqrt(z)
    return (mpmath.polylog(2, 1 - mpmath.exp(-u)) - u + u * u / 4) / u**3


def with_error(name, comment, f, degree, interval, bits):
    return Fit(name, comment, f, inverse(f), degree, interval, bits)


ATAN, ATAN_WEIGHT = odd_rest(mpmath.atan)
ASIN, ASIN_WEIGHT = odd_rest(mpmath.asin)
ERFCX = "(1 + 2 x) exp(x^2) erfc(x) in powers of (x - 2) / (x + 2) for x >= 0; relative error"
NEAR = "dawson(x)/x in powers of x^2 for |x| <= {}; relative error"
MIDDLE = "x dawson(x) in powers of x - {} for {} <= x <= {}; relative error"
FAR = "2 x dawson(x) in powers of 1 / x^2 for x >= {}; relative error"
DILOGARITHM = ("(f(u) - u + u^2/4) / u^3 in powers of u^2, for f(u) the dilogarithm of 1 - exp(-u), |u| <= ln(2); error of "
               "f(u)/u")
FITS = [
    Fit("kAtanF32", "(atan(t) - t) / t^3 in powers of t^2 for |t| <= 1; relative error of atan(t)", ATAN, ATAN_WEIGHT, 8,
        (mpf("1e-6"), mpf("1.0001")), 24),
    Fit("kAsinF32", "(asin(t) - t) / t^3 in powers of t^2 for |t| <= 1/2; relative error of asin(t)", ASIN, ASIN_WEIGHT,
        4, (mpf("1e-6"), mpf("0.2501")), 24),
    with_error("kErfcxF32", ERFCX, scaled_erfc, 12, (mpf(-1), mpf("0.99999")), 24),
    with_error("kErfcxF64", ERFCX, scaled_erfc, 29, (mpf(-1), mpf("0.9999999")), 53),
    with_error("kLogGammaF32", "log(gamma(x)) / ((x - 1) (x - 2)) in powers of x - 7/4 for 1 <= x <= 5/2; relative error",
               log_gamma_quotient, 11, (mpf("-0.7501"), mpf("0.7501")), 24),
    Fit("kStirlingF32", "x times what Stirling's formula lacks of log(gamma(x)), in powers of 1 / x^2 for x >= 5/2; error",
        generate.stirling_rest, one, 4, (SMALL, 4 / mpf(25)), 24),
    Fit("kDigammaF32", "x^2 (log(x) - 1 / (2 x) - digamma(x)) in powers of 1 / x^2 for x >= 4; error",
        generate.digamma_rest, one, 3, (SMALL, 1 / mpf(16)), 24),
    with_error("kErfInvF32", "erfinv(x)/x in powers of w - 5/2 for w = -log(1 - x^2) <= 5; relative error",
               lambda u: erf_inv_quotient(u + mpf(5) / 2), 10, (mpf("-2.49999"), mpf("2.5")), 24),
    erf_inv_tail("kErfInvTailF32", "2.2", "4.2", 9, 24),
    erf_inv_tail("kErfcInvTailF32", "4.2", "10.4", 9, 24),
    with_error("kErfInvNearF64", "erfinv(x)/x in powers of w - 5/2 for w <= 5; relative error",
               lambda u: erf_inv_quotient(u + mpf(5) / 2), 22, (mpf("-2.4999999"), mpf("2.5")), 53),
    erf_inv_tail("kErfInvMiddleF64", "2.2", "4.2", 22, 53),
    erf_inv_tail("kErfInvFarF64", "4.2", "6.2", 18, 53),
    erf_inv_tail("kErfcInvNearF64", "6.2", "14", 20, 53),
    erf_inv_tail("kErfcInvFarF64", "14", "27.4", 17, 53),
    *bessel(0),
    *bessel(1),
    with_error("kDawsonNearF32", NEAR.format("1.2"), dawson_near, 7, (SMALL, mpf("1.45")), 24),
    with_error("kDawsonMiddleF32", MIDDLE.format("2.2", "1.2", "3.2"), dawson_middle(mpf("2.2")), 13,
               (mpf("-1.001"), mpf("1.001")), 24),
    with_error("kDawsonFarF32", FAR.format("3.2"), dawson_far, 10, (SMALL, 1 / mpf("3.19") ** 2), 24),
    with_error("kDawsonNearF64", NEAR.format(1), dawson_near, 13, (SMALL, mpf("1.01")), 53),
    with_error("kDawsonMiddleF64", MIDDLE.format(2, 1, 3), dawson_middle(mpf(2)), 24, (mpf("-1.001"), mpf("1.001")), 53),
    with_error("kDawsonLateF64", MIDDLE.format(4, 3, 5), dawson_middle(mpf(4)), 22, (mpf("-1.001"), mpf("1.001")), 53),
    with_error("kDawsonFarF64", FAR.format(5), dawson_far, 18, (mpf("1e-9"), 1 / mpf("4.99") ** 2), 53),
    Fit("kDilogarithmF32", DILOGARITHM, dilogarithm, lambda z: z, 3, (mpf("1e-6"), mpf("0.4812")), 24),
    Fit("kDilogarithmF64", DILOGARITHM, dilogarithm, lambda z: z, 7, (mpf("1e-6"), mpf("0.4812")), 53),
]


def main():
    print("""\
// Polynomials of the special functions. Written by tools/coefficients/special.py: do not edit.
//
// Coefficients are listed from the lowest power. The errors are those of the polynomials with these coefficients.
#pragma once

#include <array>

namespace shoal::scalar {""")
    for p in FITS:
        coefficients, error = generate.fit(p)
        print("\n// " + "\n// ".join(textwrap.wrap(f"{p.comment}: 2^{error:.1f}.", 116)))
        generate.print_array(p.name, coefficients)
    print("\n}  // namespace shoal::scalar")


if __name__ == "__main__":
    main()
