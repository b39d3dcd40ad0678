"""The keys of which paths in trees consist."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class SequenceKey:
    """A position in a list or tuple."""

    idx: int

    def __str__(self):
        return f"[{self.idx}]"


@dataclass(frozen=True)
class DictKey:
    """A key of a dict."""

    key: Any

    def __str__(self):
        return f"[{self.key!r}]"


@dataclass(frozen=True)
class GetAttrKey:
    """An attribute of an object."""

    name: str

    def __str__(self):
        return f".{self.name}"


@dataclass(frozen=True)
class FlattenedIndexKey:
    """A position among the children of an object of a registered class."""

    key: int

    def __str__(self):
        return f"[<flat index {self.key}>]"
