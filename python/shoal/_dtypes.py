"""Scalar types: jnp.float32 and the like, which stand for a dtype and make arrays of it."""

import functools

from shoal import _core


class _ScalarType(type):
    """A class of scalars, of which there are no instances: calling it makes an array."""

    def __call__(cls, x):
        return _core._array(x, dtype=cls)

    def __hash__(cls):
        return hash(cls.dtype)

    def __eq__(cls, other):
        return cls is other or cls.dtype == other

    def __ne__(cls, other):
        return not cls == other

    @property
    def dtype(cls):
        return _core._dtype_object(cls._shoal_dtype)

    def __instancecheck__(cls, instance):
        return isinstance(instance, cls.dtype.type)


def _scalar_type(name, stored):
    made = _ScalarType(name, (), {"_shoal_dtype": stored, "__module__": "shoal.numpy"})
    made.__doc__ = f"The dtype {stored}; called with a value, an array of it."
    return made


bool_ = _scalar_type("bool", "bool")
int8 = _scalar_type("int8", "int8")
int16 = _scalar_type("int16", "int16")
int32 = _scalar_type("int32", "int32")
int64 = _scalar_type("int64", "int64")
uint8 = _scalar_type("uint8", "uint8")
uint16 = _scalar_type("uint16", "uint16")
uint32 = _scalar_type("uint32", "uint32")
uint64 = _scalar_type("uint64", "uint64")
float16 = _scalar_type("float16", "float16")
bfloat16 = _scalar_type("bfloat16", "bfloat16")
float32 = _scalar_type("float32", "float32")
float64 = _scalar_type("float64", "float64")
complex64 = _scalar_type("complex64", "complex64")
complex128 = _scalar_type("complex128", "complex128")
single = float32
double = float64
half = float16
csingle = complex64
cdouble = complex128
int_ = int64
uint = uint64
float_ = float64
complex_ = complex128

NAMES = (
    "bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex64 complex128 "
    "single double half csingle cdouble int_ uint float_ complex_".split()
)


@functools.cache
def key_kinds():
    """The kinds that dtypes of keys have: extended and, of that, prng_key."""
    import numpy

    extended = type("extended", (numpy.generic,), {"__doc__": "The kind of dtypes with which nothing is computed."})
    prng_key = type("prng_key", (extended,), {"__doc__": "The kind of dtypes of keys of random numbers."})
    return {"extended": extended, "prng_key": prng_key}


class KeyDtype:
    """A dtype of keys of random numbers: not one of NumPy."""

    kind = "V"

    def __init__(self, name, implementation, itemsize):
        self.name = self._shoal_dtype = name
        self._shoal_implementation = implementation
        self.itemsize = itemsize

    @property
    def type(self):
        return key_kinds()["prng_key"]

    def __repr__(self):
        return self.name

    def __reduce__(self):
        return _key_dtype, (self.name,)


KEYS = {
    made.name: made
    for made in (
        KeyDtype("key<fry>", "threefry2x32", 8),
        KeyDtype("key<rbg>", "rbg", 16),
        KeyDtype("key<urbg>", "unsafe_rbg", 16),
    )
}


def _key_dtype(name):
    return KEYS[name]
