"""The exceptions of this package; most are also of a class of Python."""

from shoal._core import (
    ConcretizationTypeError,
    DeadlineExceeded,
    Disagreement,
    DistributedError,
    DuplicateSpecError,
    IndivisibleError,
    NonConcreteBooleanIndexError,
    OutOfRange,
    ProcessFailed,
    ShardingTypeError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    UnexpectedTracerError,
)

JaxRuntimeError = RuntimeError
