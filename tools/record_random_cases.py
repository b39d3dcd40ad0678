#!/usr/bin/env python3
"""Records what jax.random gives as a table for the test of src/frontend/random: run it in the root of the repository.

Needs jax (0.12), numpy and ml_dtypes. Writes src/frontend/testdata/random.inc.
"""

import re
import warnings

import jax
import jax.numpy as jnp
import numpy as np
from jax import random

jax.config.update("jax_platforms", "cpu")
warnings.simplefilter("ignore")

# An expression in Python and the same in C++. K is a key, L one of rbg and one of unsafe_rbg, and D each dtype of the
# table.

INTEGERS = """
PRNGKey(7) | PRNGKey(7)
PRNGKey(-1) | PRNGKey(-1)
PRNGKey(jnp.int64(2**40 + 5)) | PRNGKey(full({}, (int64_t{1} << 40) + 5, {.dtype = int64}))
split(K) | split(K)
split(K, (2, 3)) | split(K, Shape{2, 3})
fold_in(K, 77) | fold_in(K, 77)
fold_in(K, jnp.int32(-1)) | fold_in(K, Array(-1))
bits(K, (2, 3), 'uint8') | bits(K, {2, 3}, uint8)
bits(K, (5,), 'uint16') | bits(K, {5}, uint16)
bits(K, (2, 2, 2), 'uint32') | bits(K, {2, 2, 2})
bits(K, (), 'uint32') | bits(K)
bits(K, (3,), 'uint64') | bits(K, {3}, uint64)
randint(K, (6,), -5, 1000, 'int32') | randint(K, {6}, -5, 1000)
randint(K, (6,), 0, 256, 'uint8') | randint(K, {6}, 0, 256, uint8)
randint(K, (6,), -100, 100, 'int8') | randint(K, {6}, -100, 100, int8)
randint(K, (3,), 3, 3, 'int16') | randint(K, {3}, 3, 3, int16)
randint(K, (6,), 7, 2000000000, 'uint32') | randint(K, {6}, 7, 2000000000, uint32)
randint(K, (4,), 0, jnp.int64(2**32), 'uint32') | randint(K, {4}, 0, int64_t{1} << 32, uint32)
randint(K, (6,), -5, 10**11, 'int64') | randint(K, {6}, -5, 100000000000, int64)
randint(K, (2, 3), jnp.array([0, 10, 20]), jnp.array([[100], [15]]), 'int32') | randint(K, {2, 3}, array({0, 10, 20}), array({{100}, {15}}))
randint(K, (3,), jnp.array(-7.5), jnp.array(9.5), 'int32') | randint(K, {3}, array({-7.5}), array({9.5}))
bernoulli(K, jnp.float32(0.3), (12,)) | bernoulli(K, 0.3, {12})
bernoulli(K, jnp.array([0.3, 0.8]), (4, 2), 'high') | bernoulli(K, array({0.3, 0.8}), {4, 2}, "high")
rademacher(K, (10,), 'int32') | rademacher(K, {10})
rademacher(K, (10,), 'int8') | rademacher(K, {10}, int8)
permutation(K, 12).astype('int32') | permutation(K, 12)
permutation(K, jnp.array([1.5, 2.5, 3.5, 4.5], 'float32')) | permutation(K, array({1.5, 2.5, 3.5, 4.5}))
permutation(K, jnp.arange(15).reshape(3, 5), 1) | permutation(K, arange(15).reshape(3, 5), {.axis = 1})
permutation(K, jnp.arange(15).reshape(3, 5), -1, True) | permutation(K, arange(15).reshape(3, 5), {.axis = -1, .independent = true})
choice(K, 100, (8,)) | choice(K, 100, {8})
choice(K, jnp.arange(15).reshape(3, 5), (2, 2), axis=1) | choice(K, arange(15).reshape(3, 5), {2, 2}, {.axis = 1})
choice(K, 20, (2, 3), False) | choice(K, 20, {2, 3}, {.replace = false})
choice(K, jnp.arange(15).reshape(3, 5), (2,), False) | choice(K, arange(15).reshape(3, 5), {2}, {.replace = false})
choice(K, 4, (9,), p=jnp.array([0.1, 0.2, 0.3, 0.4], 'float32')) | choice(K, 4, {9}, {.p = array({0.1, 0.2, 0.3, 0.4})})
choice(K, 4, (3,), False, p=jnp.array([0.1, 0.2, 0.3, 0.4], 'float32')) | choice(K, 4, {3}, {.replace = false, .p = array({0.1, 0.2, 0.3, 0.4})})
choice(K, 4, (3,), False, p=jnp.array([0.1, 0.2, 0.3, 0.4], 'float32'), mode='high') | choice(K, 4, {3}, {.replace = false, .p = array({0.1, 0.2, 0.3, 0.4}), .mode = "high"})
choice(K, 5, (0,)) | choice(K, 5, {0})
categorical(K, jnp.log(jnp.arange(1.0, 9.0)), shape=(9,)) | categorical(K, log(arange(1.0, 9.0)), {.shape = {9}})
categorical(K, jnp.arange(12.0).reshape(3, 4), 0) | categorical(K, arange(12.0).reshape(3, 4), {.axis = 0})
categorical(K, jnp.zeros((1, 5)), shape=(2, 4)) | categorical(K, zeros({1, 5}), {.shape = {2, 4}})
categorical(K, jnp.zeros((2, 5)), shape=(3, 2), replace=False) | categorical(K, zeros({2, 5}), {.shape = {3, 2}, .replace = false})
categorical(K, jnp.zeros((2, 5)), shape=(3, 2), mode='high') | categorical(K, zeros({2, 5}), {.shape = {3, 2}, .mode = "high"})
poisson(K, jnp.array([0.0, 0.5, 3.0, 9.9, 10.0, 40.0, 3000.0, -1.0, jnp.nan], 'float32'), dtype='int32') | poisson(K, array({0.0, 0.5, 3.0, 9.9, 10.0, 40.0, 3000.0, -1.0, NAN}))
poisson(K, jnp.array([0.5, 6.9, 7.0, 4000.0], 'float32'), (2, 4), 'int32', method='approximate') | poisson(K, array({0.5, 6.9, 7.0, 4000.0}), {2, 4}, int32, "approximate")
poisson(K, 5, (4,), 'int8') | poisson(K, 5, {4}, int8)
geometric(K, jnp.array([0.01, 0.2, 0.7], 'float32'), (2, 3), 'int32') | geometric(K, array({0.01, 0.2, 0.7}), {2, 3})
binomial(K, jnp.array([0, 5, 30, 1000], 'float32'), jnp.array([[0.1], [0.7], [1.5], [jnp.nan]], 'float32'), dtype='float32') | binomial(K, array({0.0, 5.0, 30.0, 1000.0}), array({{0.1}, {0.7}, {1.5}, {NAN}}))
binomial(K, jnp.array([-1.0, jnp.inf, jnp.nan], 'float32'), jnp.float32(0.5), dtype='float32') | binomial(K, array({-1.0, INFINITY, NAN}), 0.5)
multinomial(K, 20, jnp.array([0.1, 0.2, 0.3, 0.4], 'float32'), shape=(3,)) | multinomial(K, 20, array({0.1, 0.2, 0.3, 0.4}), {.shape = {3}})
multinomial(K, jnp.array([5, 50]), jnp.array([0.5, 0.0, 0.5], 'float32'), shape=(2,), dtype='int32') | multinomial(K, array({5, 50}), array({0.5, 0.0, 0.5}), {.shape = {2}, .dtype = int32})
"""

EXACT_FLOATS = """
uniform(K, (5,), D) | uniform(K, {5}, D)
uniform(K, (), D) | uniform(K, {}, D)
uniform(K, (4,), D, -2.3, 3.1) | uniform(K, {4}, D, -2.3, 3.1)
uniform(K, (2, 2), D, jnp.arange(2), jnp.array([[5], [7]])) | uniform(K, {2, 2}, D, arange(2), array({{5}, {7}}))
rademacher(K, (4,), D) | rademacher(K, {4}, D)
bernoulli(K, jnp.array([0.1, 0.5, 0.9], D)) | bernoulli(K, array({0.1, 0.5, 0.9}).astype(D))
triangular(K, -1.0, 0.5, 2.0, (4,), D) | triangular(K, -1.0, 0.5, 2.0, {4}, D)
"""

FLOATS = """
normal(K, (2, 3), D) | normal(K, {2, 3}, D)
truncated_normal(K, -1.2, 2.5, (4,), D) | truncated_normal(K, -1.2, 2.5, {4}, D)
lognormal(K, 0.7, (4,), D) | lognormal(K, 0.7, {4}, D)
maxwell(K, (4,), D) | maxwell(K, {4}, D)
double_sided_maxwell(K, 0.5, 2.0, (4,), D) | double_sided_maxwell(K, 0.5, 2.0, {4}, D)
rayleigh(K, jnp.array([1.5, 3.0], D), (2, 2), D) | rayleigh(K, array({1.5, 3.0}).astype(D), {2, 2}, D)
exponential(K, (4,), D) | exponential(K, {4}, D)
laplace(K, (4,), D) | laplace(K, {4}, D)
logistic(K, (4,), D) | logistic(K, {4}, D)
cauchy(K, (4,), D) | cauchy(K, {4}, D)
gumbel(K, (4,), D) | gumbel(K, {4}, D)
gumbel(K, (4,), D, 'high') | gumbel(K, {4}, D, "high")
gumbel(K, (4,), D, 'highest') | gumbel(K, {4}, D, "highest")
weibull_min(K, 1.5, 0.7, (4,), D) | weibull_min(K, 1.5, 0.7, {4}, D)
pareto(K, 2.5, (4,), D) | pareto(K, 2.5, {4}, D)
gamma(K, 0.3, (4,), D) | gamma(K, 0.3, {4}, D)
gamma(K, 2, (4,), D) | gamma(K, 2, {4}, D)
gamma(K, 3.5, (4,), D, method='approximate') | gamma(K, 3.5, {4}, D, "approximate")
loggamma(K, 1.5, (4,), D) | loggamma(K, 1.5, {4}, D)
chisquare(K, 3.0, (4,), D) | chisquare(K, 3.0, {4}, D)
"""

# These round in an order of their own, which numbers of 16 bits show.
WIDE_FLOATS = """
wald(K, jnp.array([1.5, 0.5], D), (2, 2), D) | wald(K, array({1.5, 0.5}).astype(D), {2, 2}, D)
gamma(K, jnp.array([0.5, 1.0, 100.0], D), (2, 3), D) | gamma(K, array({0.5, 1.0, 100.0}).astype(D), {2, 3}, D)
loggamma(K, 0.01, (4,), D) | loggamma(K, 0.01, {4}, D)
loggamma(K, 0.01, (4,), D, method='approximate') | loggamma(K, 0.01, {4}, D, "approximate")
beta(K, 0.5, 2.0, (4,), D) | beta(K, 0.5, 2.0, {4}, D)
dirichlet(K, jnp.array([0.5, 1.0, 3.0], D), (2,), D) | dirichlet(K, array({0.5, 1.0, 3.0}).astype(D), {2}, D)
t(K, 3.0, (4,), D) | t(K, 3.0, {4}, D)
f(K, 3.0, 5.0, (4,), D) | f(K, 3.0, 5.0, {4}, D)
generalized_normal(K, 1.5, (4,), D) | generalized_normal(K, 1.5, {4}, D)
ball(K, 3, 2, (2,), D) | ball(K, 3, 2, {2}, D)
ball(K, 2, 1.5, (2,), D) | ball(K, 2, 1.5, {2}, D)
multivariate_normal(K, jnp.array([1.0, 2.0], D), jnp.array([[2.0, 0.5], [0.5, 1.0]], D), (2,)) | multivariate_normal(K, array({1.0, 2.0}).astype(D), array({{2.0, 0.5}, {0.5, 1.0}}).astype(D), {2})
orthogonal(K, 3, (), D) | orthogonal(K, 3, {}, D)
orthogonal(K, 2, (2,), D, 3) | orthogonal(K, 2, {2}, D, 3)
"""

COMPLEX = """
normal(K, (4,), D) | normal(K, {4}, D)
lognormal(K, 0.5, (2,), D) | lognormal(K, 0.5, {2}, D)
orthogonal(K, 2, (), D) | orthogonal(K, 2, {}, D)
"""

# Of both implementations that draw by Philox. W is a key whose counter overflows soon.
PHILOX = """
key_data(L) | key_data(L)
key_data(key(jnp.int64(2**40 + 5), impl=key_impl(L))) | key_data(random::key(full({}, (int64_t{1} << 40) + 5, {.dtype = int64}), random::key_impl(L)))
key_data(split(L)) | key_data(random::split(L))
key_data(split(L, (2, 3))) | key_data(random::split(L, Shape{2, 3}))
key_data(fold_in(L, 77)) | key_data(random::fold_in(L, 77))
key_data(fold_in(W, 2**32 - 1)) | key_data(random::fold_in(W, (int64_t{1} << 32) - 1))
bits(L, (3, 3), 'uint8') | bits(L, {3, 3}, uint8)
bits(L, (5,), 'uint16') | bits(L, {5}, uint16)
bits(L, (2, 2, 3), 'uint32') | bits(L, {2, 2, 3})
bits(L, (), 'uint32') | bits(L)
bits(W, (13,), 'uint32') | bits(W, {13})
bits(L, (5,), 'uint64') | bits(L, {5}, uint64)
bits(W, (7,), 'uint64') | bits(W, {7}, uint64)
uniform(L, (5,), 'float32') | uniform(L, {5}, float32)
uniform(L, (5,), 'bfloat16') | uniform(L, {5}, bfloat16)
randint(L, (6,), -5, 1000, 'int32') | randint(L, {6}, -5, 1000)
randint(L, (6,), -5, 10**11, 'int64') | randint(L, {6}, -5, 100000000000, int64)
bernoulli(L, jnp.float32(0.3), (12,)) | bernoulli(L, 0.3, {12})
permutation(L, 12).astype('int32') | permutation(L, 12)
choice(L, 20, (2, 3), False) | choice(L, 20, {2, 3}, {.replace = false})
"""
PHILOX_FLOATS = """
normal(L, (5,), D) | normal(L, {5}, D)
exponential(L, (5,), D) | exponential(L, {5}, D)
categorical(L, jnp.zeros((2, 5), D), shape=(4, 2)).astype('int32') | categorical(L, zeros({2, 5}, {.dtype = D}), {.shape = {4, 2}})
beta(L, 0.5, 2.0, (), D) | beta(L, 0.5, 2.0, {}, D)
"""

DIGITS = {"float16": 5, "bfloat16": 4, "float32": 9, "complex64": 9}


def text(value):
    array = np.asarray(value)
    digits = DIGITS.get(array.dtype.name, 17)

    def number(x):
        if array.dtype.kind in "iub":
            return str(int(x))
        if array.dtype.kind == "c":
            return f"{x.real:.{digits}g},{x.imag:.{digits}g}"
        return f"{float(x):.{digits}g}"

    return f'"{array.dtype.name} {array.shape}: {" ".join(number(x) for x in array.ravel())}"'


def lines(table, dtypes, roundings, impl=None):
    for line in table.strip().splitlines():
        python, cpp = (part.strip() for part in line.split(" | "))
        for dtype in dtypes:
            # 64-bit types exist in a mode in which Python's numbers are 64-bit, too.
            wide = "64" in python if dtype is None else dtype in ("float64", "complex128")
            jax.config.update("jax_enable_x64", wide)
            names = {name: getattr(random, name) for name in dir(random)}
            names.update(jax=jax, jnp=jnp, D=dtype, K=random.PRNGKey(np.uint32(42)))
            shown, function = python, cpp
            if impl is not None:
                words = jnp.array([7, 2**32 - 1, 2**32 - 1, 2**32 - 1], "uint32")
                names.update(L=random.key(np.uint32(42), impl=impl), W=random.wrap_key_data(words, impl=impl))
                shown = f"{python}, {impl}"
                function = re.sub(r"\b([LW])\b", rf'\1("{impl}")', cpp)
            result = text(eval(python, names))
            shown = re.sub(r"\bD\b", repr(dtype), shown).replace('"', "'")
            function = re.sub(r"\bD\b", str(dtype), function)
            yield f'{{"{shown}", [] {{ return Array(random::{function}); }}, {result}, {roundings}}},'


with open("src/frontend/testdata/random.inc", "w", encoding="utf-8") as file:
    file.write("// Written by tools/record_random_cases.py. Do not edit.\n")
    for table, dtypes, roundings in (
            (INTEGERS, [None], 0),
            (EXACT_FLOATS, ["float32", "float64", "float16", "bfloat16"], 0),
            (FLOATS, ["float32", "float64", "float16", "bfloat16"], 4),
            (WIDE_FLOATS, ["float32", "float64"], 16),
            (COMPLEX, ["complex64", "complex128"], 8)):
        file.writelines(line + "\n" for line in lines(table, dtypes, roundings))
    for implementation in ("rbg", "unsafe_rbg"):
        file.writelines(line + "\n" for line in lines(PHILOX, [None], 0, implementation))
        file.writelines(line + "\n" for line in lines(PHILOX_FLOATS, ["float32", "float64"], 8, implementation))
