"""Special functions that are series, rational approximations and quadratures, against values of 40 digits by mpmath 1.3
(`mpmath.si`, `ci`, `fresnels`, `fresnelc`, `besselj`, `spherharm`, `erfc`, `hyp1f1`, `hyp2f1`, and `quad` of Owen's integrand)."""

import numpy as np
import pytest

import shoal as jax
from shoal.scipy import special

X = [0.05, 0.7, 1.59, 1.61, 2.9, 3.99, 4.01, 7.3, 9.99, 10.01, 25.5, 300.25]
SI = [
    0.04999305607636675, 0.6812222391166113, 1.3829127345156538, 1.395407366604306, 1.8421901946458585,
    1.7600892984314866, 1.7563053683733345, 1.486436445063168, 1.658887680326356, 1.657799661469611,
    1.533759081626056, 1.57005466274861,
]
CI = [
    -2.419141543551908, 0.10051470700889778, 0.4718842164015053, 0.4715194840125711, 0.15289532415958834,
    -0.13933609432530847, -0.14260429630144628, 0.10378866643202761, -0.04461423375703258, -0.04629235303241221,
    0.012615719381297765, -0.0032468725065361134,
]
S = [
    6.544977485561544e-05, 0.17213645786347742, 0.6464297519859867, 0.6310253086563824, 0.4101405870567136,
    0.42114272525552493, 0.42114376749673127, 0.5189473278581442, 0.46972738986477375, 0.46972840623773565,
    0.5115348786861474, 0.5010550449533061,
]
C = [
    0.04999992289377067, 0.6596523519045103, 0.3720264592222394, 0.3592841534732351, 0.5623764502258238,
    0.4884522819735005, 0.5083996855798801, 0.5392680156584625, 0.49006225577634255, 0.5097348885903918,
    0.4952287107867888, 0.49989609090332654,
]
HA = [(0.1, 0.5), (1.5, 0.9), (3.0, 1.0), (0.3, 2.5), (2.0, 7.0), (5.5, 0.2), (0.05, 30.0)]
T = [
    0.07339499712685262, 0.03018497168884232, 0.0006740379034671478, 0.17270356400634565, 0.011375065974089604,
    7.0551959699397575e-09, 0.23964167243278733,
]
Z = [(0.3+0.2j), (2+0.01j), (-4+1j), (0.5-0.7j), (12+5j), (0.001+3j)]
W = [
    (0.7528947901368792+0.22965315234906994j), (0.020620065445569127+0.33928137058021124j),
    (0.036281456489988644-0.13583895100065507j), (1.4770890248369914+1.8170449094235166j),
    (0.016811986039351023+0.040108726805084545j), (0.17900113529702003+5.4372255527742175e-05j),
]
J_AT = [0.01, 0.9, 4.2, 11.7, 30.0]
J = [
    [0.9999750001562495, 0.8075237981225448, -0.37655705436756765, -0.021331281388499677, -0.08636798358104021],
    [0.004999937500260416, 0.4059495460788057, -0.13864694212604622, -0.2333002408314302, -0.11875106261662294],
    [1.2499895833658854e-05, 0.09458630427480116, 0.3105347009742123, -0.01854910165960805,
    0.07845124607326535], [2.0833203125325523e-08, 0.014434028475866176, 0.4343942763872008,
    0.22695866761447017, 0.129211228759725],
]
SH = [(0, 0, 0.4, 0.2), (3, 2, 1.1, -0.5), (3, -1, 2.2, 3.0), (7, -4, 0.6, 1.7), (8, 8, 1.4, 0.3)]
Y = [
    (0.28209479177387814+0j), (0.1989337211307179-0.3098209139833242j),
    (-0.18926428872179235-0.026978970084703527j), (0.3134049739083737-0.17812057619244276j),
    (-0.3380212998928734+0.30963234091585334j),
]

# Series at 0, asymptotic ones, the transformations, polynomials, near 1 and at it.
ONE_F_ONE = [
    (0.5, 0.75, 600.0), (2.5, 1.25, -700.0), (-3.0, 2.5, 4.0), (-2.5, -3.5, 30.0), (4.0, 0.5, -40.0),
    (3.25, 6.5, -0.5), (7.0, 2.0, 90.0), (-6.0, 1.5, -12.0), (1.0, 1.0, 3.0), (5.0, -0.5, 2.0), (2.0, 5.5, 150.0),
    (0.0, 0.5, 3.0),
]
M = [
    5.271701350473027e+259, 1.797407361979316e-08, 0.06031746031746032, -80911878974399.5, 4.307507085852507e-06,
    0.7820511283478192, 1.373255877963244e+46, 14534.623176823177, 20.085536923187668, -5234.065565976935,
    1.7236774934785022e+59, 1.0,
]
TWO_F_ONE = [
    (0.5, 1.5, 2.0, 0.9990234375), (1.25, 0.75, 2.0, 0.9375), (2.0, 3.0, 1.5, 0.75), (0.5, 0.5, 1.5, -30000.0),
    (-3.0, 2.5, 0.5, 2.5), (4.0, 1.5, 2.5, -1.0), (3.0, 2.5, 2.0, 0.875), (1.0, 1.0, 2.0, 0.5),
    (-2.5, 3.5, 1.25, 0.998046875), (2.0, 0.5, 3.0, 1.0), (0.25, 4.0, 0.125, -7.0), (1.0, 2.0, -0.5, 0.625),
]
F = [
    4.907841593596754, 2.7964884321080805, 174.08315931098994, 0.03376131819319464, -145.875, 0.20976215563702155,
    1764.9385258416225, 1.3862943611198906, -0.12324929295626526, 2.6666666666666665, -0.3976414258222667,
    -179.73769531912785,
]


@pytest.fixture(params=[np.float32, np.float64], ids=["f32", "f64"])
def dtype(request):
    with jax.enable_x64(request.param is np.float64):
        yield request.param


def assert_close(found, exact, ulp, scale=None):
    """Within `ulp` units in the last place of the results' dtype, of the value or, where it may be near 0, of `scale`."""
    found, exact = np.asarray(found), np.asarray(exact)
    size = np.abs(exact) if scale is None else np.maximum(np.abs(exact), scale)
    error = np.abs(found - exact) / size / np.finfo(found.dtype).eps
    assert error.max() <= ulp, error


def test_sine_and_cosine_integrals(dtype):
    # The values are those of the rounded argument, of which large ones decide the angle: they are whole in f32, too.
    exactly = [i for i, x in enumerate(X) if dtype is np.float64 or np.float32(x) == x]
    x = np.array(X, dtype)[exactly]
    si, ci = special.sici(x)
    assert si.dtype == dtype
    assert_close(si, np.array(SI)[exactly], 4)
    assert_close(ci, np.array(CI)[exactly], 4, scale=0.05)


def test_fresnel(dtype):
    exactly = [i for i, x in enumerate(X) if dtype is np.float64 or np.float32(x) == x]
    s, c = special.fresnel(np.array(X, dtype)[exactly])
    assert_close(s, np.array(S)[exactly], 4)
    assert_close(c, np.array(C)[exactly], 4)


def test_owens_t(dtype):
    h, a = np.array(HA).T
    exactly = [i for i in range(len(HA)) if dtype is np.float64 or np.all(np.float32(HA[i]) == HA[i])]
    found = special.owens_t(h.astype(dtype)[exactly], a.astype(dtype)[exactly])
    assert_close(found, np.array(T)[exactly], 4 if dtype is np.float32 else 32)


def test_wofz(dtype):
    z = np.array(Z, np.complex64 if dtype is np.float32 else np.complex128)
    # An argument that is rounded moves the value by as much.
    assert_close(special.wofz(z), W, 16 if dtype is np.float32 else 450)


def test_bessel(dtype):
    found = special.bessel_jn(np.array(J_AT, dtype), v=3, n_iter=90)
    assert found.shape == (4, len(J_AT))
    assert_close(found, J, 32, scale=0.05)


def test_spherical_harmonics(dtype):
    n, m, theta, phi = (np.array(part) for part in zip(*SH))
    found = special.sph_harm_y(n, m, theta.astype(dtype), phi.astype(dtype))
    assert_close(found, Y, 16)


def test_hypergeometric(dtype):
    # Values beyond f32 are infinite there.
    exact = np.array(M).astype(dtype)
    found = np.asarray(special.hyp1f1(*np.array(ONE_F_ONE, dtype).T))
    is_finite = np.isfinite(exact)
    np.testing.assert_array_equal(found[~is_finite], exact[~is_finite])
    assert_close(found[is_finite], np.array(M)[is_finite], 1 if dtype is np.float32 else 450)
    assert_close(special.hyp2f1(*np.array(TWO_F_ONE, dtype).T), F, 1 if dtype is np.float32 else 64)
    ends = [(0, -1, 0.5), (1, 0, 0.5), (-2, -2, 3.0), (-1, -3, 2.0), (np.nan, 1, 1), (1, 1, np.inf)]
    found = special.hyp1f1(*np.array(ends, dtype).T)
    np.testing.assert_allclose(found, [1, np.inf, np.exp(3.0), 1 + 2 / 3, np.nan, np.nan], rtol=1e-6)
    ends = [(0, 1, -1, 0.5), (1, 2, 0, 0.5), (1, 1, 2, 1.5), (1, 2, 2, 1), (-2, 1, 3, 3), (1, 1, np.nan, 0.5)]
    found = special.hyp2f1(*np.array(ends, dtype).T)
    np.testing.assert_allclose(found, [1, np.inf, np.inf, np.inf, 0.5, np.nan], rtol=1e-6)


def test_bad_orders():
    with pytest.raises(ValueError, match="bessel_jn: the order v is 50; it must be at least 0 and below n_iter"):
        special.bessel_jn(np.ones(2, np.float32), v=50)
    with pytest.raises(ValueError, match="lpmn_values: the order m is -1 and the degree n is 2"):
        special.lpmn_values(-1, 2, np.ones(2, np.float32), False)
    with pytest.raises(TypeError, match="sph_harm_y: degrees and orders must be integers"):
        special.sph_harm_y(np.ones(2, np.float32), np.ones(2, np.int32), 0.1, 0.2, n_max=2)
