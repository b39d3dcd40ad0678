"""What JAX's tests ask of their helpers, for Shoal: cases, random arrays, comparisons, meshes."""

import contextlib
import functools
import io
import math
import random as sampling
import re
import textwrap
import unittest
import warnings
import zlib

import ml_dtypes
import numpy as np
from absl.testing import absltest, parameterized

import shoal
from jax_tests_shim import PRIVATE, NotThere, Option
from shoal import sharding, test_util, tree_util
from shoal.test_util import check_grads, check_jvp, check_vjp  # noqa: F401 (tests have them from here)

_TOLERANCES = {"bfloat16": 1e-2, "float16": 1e-3, "float32": 1e-6, "float64": 1e-15, "complex64": 1e-6, "complex128": 1e-15}

NUM_GENERATED_CASES = Option("jax_num_generated_cases")
SKIP_SLOW_TESTS = Option("jax_skip_slow_tests")
TEST_NUM_THREADS = Option("jax_test_num_threads")


def __getattr__(name):
    """What is not here is about JAX's insides: a decorator or a context manager that ends the test."""
    if name.startswith("__"):
        raise AttributeError(name)

    @contextlib.contextmanager
    def not_there(*args, **kwargs):
        raise NotThere(PRIVATE, f"jtu.{name}")
        yield

    return not_there


# Dtypes.


def _canonical(dtype):
    dtype = np.dtype(dtype) if not isinstance(dtype, str) else np.dtype(getattr(ml_dtypes, dtype, dtype))
    if shoal.config.jax_enable_x64 or dtype.name not in ("int64", "uint64", "float64", "complex128"):
        return dtype
    return np.dtype(dtype.name.replace("64", "32").replace("128", "64"))


def _dtype(x):
    if type(x) in (bool, int, float, complex):
        return np.asarray(shoal.numpy.asarray(x)).dtype
    return x.dtype if hasattr(x, "dtype") else np.asarray(x).dtype


class _Dtypes:
    """Lists of the dtypes that arrays may have."""

    _LISTS = {
        "floating": "float32 float64", "all_floating": "bfloat16 float16 float32 float64",
        "integer": "int32 int64", "all_integer": "int8 int16 int32 int64",
        "unsigned": "uint32 uint64", "all_unsigned": "uint8 uint16 uint32 uint64",
        "complex": "complex64 complex128", "boolean": "bool_",
        "inexact": "floating complex", "all_inexact": "all_floating complex",
        "numeric": "floating integer unsigned complex",
        "all": "all_floating all_integer all_unsigned complex boolean",
        "custom_floats": "bfloat16",
    }

    def supported(self, dtypes):
        return [dtype for dtype in dtypes if np.dtype(dtype) == _canonical(dtype)]

    def __getattr__(self, name):
        words = self._LISTS[name].split()
        if words[0] in self._LISTS:
            return [dtype for word in words for dtype in getattr(self, word)]
        return self.supported([ml_dtypes.bfloat16 if word == "bfloat16" else getattr(np, word) for word in words])


dtypes = _Dtypes()


def supported_dtypes():
    return {*dtypes.all, shoal.numpy.int4, shoal.numpy.uint4} if hasattr(shoal.numpy, "int4") else set(dtypes.all)


def num_float_bits(dtype):
    return ml_dtypes.finfo(_canonical(dtype)).bits


def to_default_dtype(x):
    x = np.asarray(x)
    width = 64 if shoal.config.jax_enable_x64 else 32
    names = {"b": "bool", "i": f"int{width}", "u": f"uint{width}", "f": f"float{width}", "c": f"complex{2 * width}"}
    return x.astype(names[x.dtype.kind]) if x.dtype.kind in names else x


def with_jax_dtype_defaults(function, use_defaults=True):
    @functools.wraps(function)
    def called(*args, **kwargs):
        result = function(*args, **kwargs)
        if isinstance(use_defaults, bool):
            return tree_util.tree_map(to_default_dtype, result) if use_defaults else result
        return tree_util.tree_map(lambda x, use: to_default_dtype(x) if use else x, result, use_defaults)

    return called


def promote_like_jnp(function, inexact=False):
    """A function of NumPy whose arguments are first promoted as jax.numpy does."""

    def called(*args, **kwargs):
        leaves, tree = tree_util.tree_flatten(args)
        with shoal.numpy_dtype_promotion("standard"):
            common = np.dtype(shoal.numpy.result_type(*leaves)) if leaves else np.dtype("float32")
        if inexact and common.kind in "biu":
            common = _canonical(np.float64)
        return function(*tree_util.tree_unflatten(tree, [np.asarray(x).astype(common) for x in leaves]), **kwargs)

    return called


def strict_promotion_if_dtypes_match(dtypes):
    return shoal.numpy_dtype_promotion("strict" if all(dtype == dtypes[0] for dtype in dtypes) else "standard")


# Where tests run.


def device_under_test():
    return "cpu"


def test_device_matches(kinds):
    return "cpu" in kinds


def _false(*args, **kwargs):
    return False


is_device_rocm = is_device_cuda = is_device_oneapi = is_device_tpu = is_cloud_tpu = is_device_tpu_at_least = _false
is_asan = is_msan = is_tsan = is_sanitized = is_gil_disabled = is_test_rbe = is_running_under_pytest = _false
is_cuda_compute_capability_at_least = is_cuda_compute_capability_equal = is_cuda_version_at_least = _false
is_libtpu_at_least = _false


def is_optimized_build():
    return True


def jaxlib_version():
    return (0, 12, 0)


def numpy_version():
    return parse_version(np.__version__)


def parse_version(text):
    return tuple(int(part) for part in re.match(r"[0-9.]+", text)[0].strip(".").split("."))


def _skip_if(condition, reason):
    def decorate(method):
        @functools.wraps(method)
        def called(self, *args, **kwargs):
            if condition():
                raise unittest.SkipTest(reason)
            return method(self, *args, **kwargs)

        return called

    return decorate


def skip_on_devices(*kinds, skip_reason=None):
    return _skip_if(lambda: "cpu" in kinds, skip_reason or f"not on {kinds}")


def run_on_devices(*kinds, skip_reason=None):
    return _skip_if(lambda: "cpu" not in kinds, skip_reason or f"only on {kinds}")


def device_supports_buffer_donation():
    return lambda method: method


def skip_on_flag(name, value):
    return _skip_if(lambda: Option(name).value == value, f"{name} is {value}")


def skip_under_pytest(reason):
    return lambda method: method


def thread_unsafe_test(*args, **kwargs):
    return lambda method: method


thread_unsafe_test_class = thread_unsafe_test


def pytest_mark_if_available(marker):
    return lambda thing: thing


def request_cpu_devices(count):
    shoal.config.update("jax_num_cpu_devices", count)


# Cases.


def sanitize_test_name(name):
    return re.sub(r"[^A-Za-z0-9]+", "_", name)


def sample_product_testcases(*lists, **named):
    """A few of the products of lists of dicts and of lists by name."""
    factors = [list(each) for each in lists] + [[{name: value} for value in values] for name, values in named.items()]
    count = math.prod(map(len, factors))
    wanted = min(count, NUM_GENERATED_CASES.value)
    cases = []
    for number in sampling.Random(0).sample(range(count), wanted):
        case = {}
        for factor in factors:
            number, i = divmod(number, len(factor))
            case.update(factor[i])
        cases.append(case)
    return cases


def sample_product(*lists, **named):
    return parameterized.parameters(*sample_product_testcases(*lists, **named))


def named_cases_from_sampler(generator):
    """A few of the cases of a generator of dicts, to which a function is given that chooses one of several."""
    choose = sampling.Random(0).choice
    found = {}
    for _ in range(100):
        if len(found) == NUM_GENERATED_CASES.value:
            break
        for case in generator(lambda choices: [choose(list(choices))]):
            found.setdefault(case["testcase_name"], case)
    return list(found.values())


def cases_from_list(cases):
    return list(cases)[: NUM_GENERATED_CASES.value]


class JaxTestLoader(absltest.TestLoader):
    pass


# Shapes and random arrays.


class _ScalarShape:
    def __len__(self):
        return 0

    def __getitem__(self, i):
        raise IndexError(i)


class _NumpyScalar(_ScalarShape):
    pass


class _PythonScalar(_ScalarShape):
    pass


NUMPY_SCALAR_SHAPE, PYTHON_SCALAR_SHAPE = _NumpyScalar(), _PythonScalar()


def is_valid_shape(shape, dtype):
    return shape is not PYTHON_SCALAR_SHAPE or np.dtype(dtype) in map(np.dtype, (bool, int, float, complex))


def _dims_of_shape(shape):
    if isinstance(shape, _ScalarShape):
        return ()
    return tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)


def _cast_to_shape(value, shape, dtype):
    if shape is PYTHON_SCALAR_SHAPE:
        return np.asarray(value).item()
    return np.dtype(dtype).type(value) if shape is NUMPY_SCALAR_SHAPE else np.asarray(value, dtype)


def dtype_str(dtype):
    return np.dtype(dtype).name


def format_shape_dtype_string(shape, dtype):
    if isinstance(shape, _ScalarShape):
        return dtype_str(dtype)
    return f"{dtype_str(dtype)}[{','.join(map(str, _dims_of_shape(shape)))}]"


def _made(draw, shape, dtype, change=lambda x: x, spoil=lambda x: x):
    """An array of any dtype from a function that draws f64 of a shape. Complex numbers are drawn twice."""
    dtype, dims = np.dtype(dtype), _dims_of_shape(shape)
    values = change(np.asarray(draw(dims)))
    if dtype.kind == "c":
        values = values + 1j * change(np.asarray(draw(dims)))
    if dtype.kind == "u":
        values = np.abs(values)
    values = values > 0 if dtype.kind == "b" else values
    with np.errstate(all="ignore"):
        return _cast_to_shape(spoil(values.astype(dtype)), shape, dtype)


def rand_default(rng, scale=3):
    return lambda shape, dtype: _made(lambda dims: scale * rng.randn(*dims), shape, dtype)


def rand_nonzero(rng):
    def replaced(x):
        return np.where(x == 0, np.ones((), x.dtype), x)

    return lambda shape, dtype: _made(lambda dims: 3 * rng.randn(*dims), shape, dtype, spoil=replaced)


def rand_positive(rng):
    return lambda shape, dtype: _made(lambda dims: 2 * rng.rand(*dims), shape, dtype, lambda x: x + 1)


def rand_small(rng):
    return lambda shape, dtype: _made(lambda dims: 1e-3 * rng.randn(*dims), shape, dtype)


def rand_small_positive(rng):
    return lambda shape, dtype: _made(lambda dims: 2e-5 * rng.rand(*dims), shape, dtype, lambda x: x + 1e-5)


def rand_not_small(rng, offset=10.0):
    return lambda shape, dtype: _made(
        lambda dims: 3 * rng.randn(*dims), shape, dtype, lambda x: x + np.where(x > 0, offset, -offset)
    )


def rand_uniform(rng, low=0.0, high=1.0):
    return lambda shape, dtype: _made(lambda dims: low + (high - low) * rng.rand(*dims), shape, dtype)


def _spoiled(rng, values):
    """rand_default with some elements replaced."""

    def spoil(x):
        x = np.array(x)
        for value in values:
            with np.errstate(all="ignore"):
                x = np.where(rng.rand(*x.shape) < 0.15, np.asarray(value).astype(x.dtype), x)
        return x

    def made(shape, dtype):
        exact = np.dtype(dtype).kind in "biu"
        return _made(lambda dims: 3 * rng.randn(*dims), shape, dtype, spoil=(lambda x: x) if exact else spoil)

    return made


def rand_some_inf(rng):
    return _spoiled(rng, [np.inf, -np.inf])


def rand_some_nan(rng):
    return _spoiled(rng, [np.nan])


def rand_some_inf_and_nan(rng):
    return _spoiled(rng, [np.inf, -np.inf, np.nan])


def rand_some_zero(rng):
    return lambda shape, dtype: _made(
        lambda dims: 3 * rng.randn(*dims), shape, dtype, lambda x: np.where(rng.rand(*x.shape) < 0.3, 0.0, x)
    )


def rand_some_equal(rng):
    def change(x):
        return np.where(rng.rand(*x.shape) < 0.4, x.ravel()[0], x) if x.size else x

    return lambda shape, dtype: _made(lambda dims: 10 * rng.randn(*dims), shape, dtype, change)


def rand_bool(rng):
    return lambda shape, dtype: _cast_to_shape(rng.rand(*_dims_of_shape(shape)) < 0.5, shape, dtype)


def rand_int(rng, low=0, high=None):
    def made(shape, dtype):
        exact = np.dtype(dtype) if np.dtype(dtype).kind in "iu" else np.dtype(np.int64)
        limits = (low, np.iinfo(dtype).max) if high is None and low == 0 else (low, high)
        return np.asarray(rng.randint(*limits, _dims_of_shape(shape), exact)).astype(dtype)

    return made


def rand_unique_int(rng, high=None):
    return lambda shape, dtype: rng.choice(np.arange(high or math.prod(shape), dtype=dtype), shape, replace=False)


def rand_indices_unique_along_axis(rng):
    def made(dim, shape, axis, allow_negative=True):
        rest = (*shape[:axis], *shape[axis + 1 :])
        rows = [rng.permutation(dim)[: shape[axis]] for _ in range(math.prod(rest))]
        indices = np.moveaxis(np.array(rows, int).reshape(*rest, shape[axis]), -1, axis)
        return np.where(rng.rand(*indices.shape) < 0.5, indices - dim, indices) if allow_negative else indices

    return made


def rand_fullrange(rng, standardize_nans=False):
    def made(shape, dtype):
        dtype, dims = np.dtype(dtype), _dims_of_shape(shape)
        if dtype.kind == "b":
            return _cast_to_shape(rng.rand(*dims) < 0.5, shape, dtype)
        values = np.frombuffer(rng.bytes(math.prod(dims) * dtype.itemsize), dtype).reshape(dims)
        if standardize_nans:
            values = np.where(np.isnan(values), np.asarray(np.nan, dtype), values)
        return _cast_to_shape(values, shape, dtype)

    return made


def rand_like(rng, x):
    return _made(lambda dims: rng.randn(*dims), PYTHON_SCALAR_SHAPE if np.isscalar(x) else np.shape(x), _dtype(x))


# Comparisons.


def default_tolerance():
    return {np.dtype(getattr(ml_dtypes, name, name)): value for name, value in _TOLERANCES.items()}


default_gradient_tolerance = {
    np.dtype(getattr(ml_dtypes, name, name)): value for name, value in test_util._DIFFERENCES.items()
}


def _normalized(tolerance):
    if tolerance is None:
        return {}
    if isinstance(tolerance, dict):
        return {np.dtype(key): value for key, value in tolerance.items()}
    return {dtype: tolerance for dtype in default_tolerance()}


def join_tolerance(first, second):
    """The larger of two tolerances, dtype by dtype."""
    first, second = _normalized(first), _normalized(second)
    default = default_tolerance()
    return {
        dtype: max(first.get(dtype, default.get(dtype, 0)), second.get(dtype, default.get(dtype, 0)))
        for dtype in {**first, **second}
    }


def tolerance(dtype, tol=None):
    if tol is not None and not isinstance(tol, dict):
        return tol
    dtype = np.dtype(dtype) if not hasattr(dtype, "names") or dtype.names is None else dtype
    return _normalized(tol).get(_canonical(dtype), _TOLERANCES.get(_canonical(dtype).name, 0))


def check_eq(xs, ys, err_msg=""):
    tree_util.tree_map(functools.partial(np.testing.assert_array_equal, err_msg=err_msg), xs, ys)


def check_close(xs, ys, atol=None, rtol=None, err_msg=""):
    def compare(x, y):
        x, y = np.asarray(x), np.asarray(y)
        assert x.shape == y.shape, (x.shape, y.shape)
        a, r = (max(tolerance(v.dtype, t) for v in (x, y)) * max(x.size, 1) for t in (atol, rtol))
        _compare(x, y, a, r, err_msg)

    tree_util.tree_map(compare, xs, ys)


def _compare(x, y, atol, rtol, err_msg):
    if x.dtype == y.dtype == shoal.float0:
        return np.testing.assert_array_equal(x, y)
    wide = [v.astype(np.float32) if v.dtype.name == "bfloat16" else v for v in (x, y)]
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(*wide, atol=atol, rtol=rtol, err_msg=err_msg)


def _check_dtypes_match(xs, ys):
    def compare(x, y):
        assert _canonical(_dtype(x)) == _canonical(_dtype(y)), (_dtype(x), _dtype(y))

    tree_util.tree_map(compare, xs, ys)


def check_raises(thunk, kind, text):
    try:
        thunk()
    except kind as error:
        assert str(error).startswith(text), f"{error}\ndoes not start with\n{text}"
        return
    raise AssertionError(f"{kind} was not raised")


def check_raises_regexp(thunk, kind, pattern):
    try:
        thunk()
    except kind as error:
        assert re.match(pattern, str(error)), f"{error}\ndoes not match\n{pattern}"
        return
    raise AssertionError(f"{kind} was not raised")


@contextlib.contextmanager
def capture_stdout():
    shoal.effects_barrier()
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        yield lambda: (shoal.effects_barrier(), text.getvalue())[1]
        shoal.effects_barrier()


@contextlib.contextmanager
def ignore_warning(*, message="", category=Warning, **more):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=message, category=category)
        yield


def complex_plane_sample(dtype, size_re=10, size_im=None):
    """Numbers of all quadrants, of all magnitudes, with zeros and infinities, as a matrix."""
    info = ml_dtypes.finfo(np.dtype(dtype).type(0).real.dtype)

    def axis(size):
        positive = np.logspace(np.log10(float(info.tiny)), np.log10(float(info.max)) - 1e-3, size)
        return np.concatenate([[-np.inf], -positive[::-1], [-0.0, 0.0], positive, [np.inf]])

    re_, im = axis(size_re), axis(size_re if size_im is None else size_im)
    z = np.zeros((len(im), len(re_)), dtype)
    z.real, z.imag = re_[None], im[:, None]
    return z


# Options and cases.


def with_config(**options):
    def decorate(cls):
        cls._options = {**cls._options, **options}
        return cls

    return decorate


with_global_config = with_config


class JaxTestCase(parameterized.TestCase):
    # Those of JAX's tests that mean something here.
    _options = {"jax_numpy_dtype_promotion": "strict", "jax_numpy_rank_promotion": "raise"}

    def setUp(self):
        super().setUp()
        self._rng = np.random.RandomState(zlib.adler32(self._testMethodName.encode()))
        for name, value in self._options.items():
            self.enter_context(Option(name)(value))

    def rng(self):
        return self._rng

    def assertDtypesMatch(self, actual, desired, *, canonicalize_dtypes=True):
        first, second = _dtype(actual), _dtype(desired)
        if canonicalize_dtypes and not {"key<fry>", "key<rbg>"} & {str(first), str(second)}:
            first, second = (x if x.names else _canonical(x) for x in map(np.dtype, (first, second)))
        self.assertEqual(first, second)

    def assertArraysEqual(self, actual, desired, *, check_dtypes=True, err_msg="", allow_object_dtype=False, verbose=True):
        if check_dtypes:
            self.assertDtypesMatch(actual, desired)
        actual, desired = np.asarray(actual), np.asarray(desired)
        if not allow_object_dtype and object in (actual.dtype, desired.dtype):
            raise TypeError("arrays of objects are not compared")
        np.testing.assert_array_equal(actual, desired, err_msg=err_msg, verbose=verbose)

    def assertArraysAllClose(self, actual, desired, *, check_dtypes=True, atol=None, rtol=None, err_msg=""):
        self.assertEqual(np.shape(actual), np.shape(desired))
        a, r = (max(tolerance(_dtype(x), t) for x in (actual, desired)) for t in (atol, rtol))
        _compare(np.asarray(actual), np.asarray(desired), a or 0, r or 1e-7, err_msg)
        if check_dtypes:
            self.assertDtypesMatch(actual, desired)

    def assertAllClose(self, actual, desired, *, check_dtypes=True, atol=None, rtol=None, canonicalize_dtypes=True,
                       err_msg=""):
        options = dict(check_dtypes=check_dtypes, atol=atol, rtol=rtol, canonicalize_dtypes=canonicalize_dtypes,
                       err_msg=err_msg)
        if isinstance(actual, dict):
            self.assertEqual(set(actual), set(desired))
            for key in actual:
                self.assertAllClose(actual[key], desired[key], **options)
        elif isinstance(actual, (list, tuple)):
            self.assertEqual(len(actual), len(desired))
            for x, y in zip(actual, desired):
                self.assertAllClose(x, y, **options)
        elif hasattr(actual, "__array__") or np.isscalar(actual):
            self.assertTrue(hasattr(desired, "__array__") or np.isscalar(desired), f"{desired!r} is no array")
            if check_dtypes:
                self.assertDtypesMatch(actual, desired, canonicalize_dtypes=canonicalize_dtypes)
            self.assertArraysAllClose(
                np.asarray(actual), np.asarray(desired), check_dtypes=False, atol=atol, rtol=rtol, err_msg=err_msg
            )
        elif actual != desired:
            raise TypeError((type(actual), type(desired)))

    def assertMultiLineStrippedEqual(self, expected, what):
        def lines(text):
            return "\n".join(line.strip() for line in textwrap.dedent(text).strip().splitlines() if line.strip())

        self.assertMultiLineEqual(lines(expected), lines(what))

    @contextlib.contextmanager
    def assertNoWarnings(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            yield

    def assertDeprecationWarnsOrRaises(self, deprecation_id, message, *, error_class=ValueError):
        raise NotThere(PRIVATE, "jax._src.deprecations")

    def _CompileAndCheck(self, fun, args_maker, *, check_dtypes=True, tol=None, rtol=None, atol=None,
                         check_cache_misses=True):
        """Compares a function with itself under jit: when it is traced, and when it is only run."""
        traced = []

        def counted(*args):
            traced.append(True)
            return fun(*args)

        compiled = shoal.jit(counted)
        options = dict(check_dtypes=check_dtypes, atol=atol or tol, rtol=rtol or tol)
        args = args_maker()
        plain = fun(*args)
        self.assertAllClose(compiled(*args), plain, **options)
        self.assertAllClose(compiled(*args), plain, **options)
        self.assertLen(traced, 1)
        args = args_maker()
        self.assertAllClose(compiled(*args), fun(*args), **options)
        self.assertLen(traced, 1)

    def _CheckAgainstNumpy(self, numpy_reference_op, lax_op, args_maker, check_dtypes=True, tol=None, atol=None, rtol=None,
                           canonicalize_dtypes=True):
        args = args_maker()
        self.assertAllClose(
            lax_op(*args), numpy_reference_op(*args), check_dtypes=check_dtypes, atol=atol or tol, rtol=rtol or tol,
            canonicalize_dtypes=canonicalize_dtypes,
        )

    def assertCacheMisses(self, *args, **kwargs):
        raise NotThere(PRIVATE, "jtu.assertCacheMisses")


def _jit(*args, **kwargs):
    return shoal.jit(*args, **kwargs)


def _noop(fun, *args, **kwargs):
    return fun


_jit._name, _noop._name = "jit", "noop"
JIT_IMPLEMENTATION = (_jit, _noop)


class BufferDonationTestCase(JaxTestCase):
    def assertDeleted(self, x):
        self.assertTrue(x.is_deleted())

    def assertNotDeleted(self, x):
        self.assertFalse(x.is_deleted())


# Meshes.


def create_mesh(shape, names, iota_order=False, axis_types=None):
    if len(shoal.devices()) < math.prod(shape):
        raise unittest.SkipTest(f"there are fewer than {math.prod(shape)} devices")
    if isinstance(names, str):
        names = (names,)
    types = axis_types or (sharding.AxisType.Auto,) * len(shape)
    if iota_order:
        return sharding.Mesh(np.array(shoal.devices()[: math.prod(shape)]).reshape(shape), names, axis_types=axis_types)
    return shoal.make_mesh(shape, names, types)


@contextlib.contextmanager
def with_mesh(named_shape):
    names, shape = zip(*named_shape) if named_shape else ((), ())
    with create_mesh(shape, names, iota_order=True):
        yield


def with_mesh_from_kwargs(function):
    def called(*args, **kwargs):
        with with_mesh(kwargs["mesh"]):
            return function(*args, **kwargs)

    return called


def with_explicit_mesh(sizes, names, axis_types=None, iota_order=False):
    types = axis_types or (sharding.AxisType.Explicit,) * len(sizes)

    def decorate(method):
        def called(*args, **kwargs):
            mesh = create_mesh(sizes, names, iota_order, types)
            with shoal.set_mesh(mesh):
                return method(*args, **kwargs, mesh=mesh)

        called.__wrapped_source__ = method
        return called

    return decorate
