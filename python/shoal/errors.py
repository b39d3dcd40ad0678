"""The exceptions of this package; most are also of a class of Python."""

from shoal._later import YET as _YET, later as _later
from shoal._core import (
    CheckpointError,
    ConcretizationTypeError,
    DeadlineExceeded,
    Disagreement,
    DistributedError,
    DuplicateSpecError,
    Fenced,
    IndivisibleError,
    KeyReuseError,
    NonConcreteBooleanIndexError,
    OutOfRange,
    ProcessFailed,
    ShapeError,
    ShardingTypeError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    TypePromotionError,
    UnexpectedTracerError,
)

JaxRuntimeError = RuntimeError
JAXTypeError = TypeError
JAXIndexError = IndexError

__getattr__ = _later(__name__, {_YET: "InconclusiveDimensionOperation JaxprTypeError"})
