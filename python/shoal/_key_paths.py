"""The keys of which paths in trees consist."""


class _Key:
    """One field, which is what a key is equal by."""

    __slots__ = ("_value",)
    _field = ""

    def __eq__(self, other):
        return type(self) is type(other) and self._value == other._value

    def __hash__(self):
        return hash((type(self).__name__, self._value))

    def __repr__(self):
        return f"{type(self).__name__}({self._field}={self._value!r})"

    def __reduce__(self):
        return type(self), (self._value,)


class SequenceKey(_Key):
    """A position in a list or tuple."""

    __slots__ = ()
    _field = "idx"
    __match_args__ = ("idx",)
    idx = property(lambda self: self._value)

    def __init__(self, idx):
        self._value = idx

    def __str__(self):
        return f"[{self._value}]"


class DictKey(_Key):
    """A key of a dict."""

    __slots__ = ()
    _field = "key"
    __match_args__ = ("key",)
    key = property(lambda self: self._value)

    def __init__(self, key):
        self._value = key

    def __str__(self):
        return f"[{self._value!r}]"


class GetAttrKey(_Key):
    """An attribute of an object."""

    __slots__ = ()
    _field = "name"
    __match_args__ = ("name",)
    name = property(lambda self: self._value)

    def __init__(self, name):
        self._value = name

    def __str__(self):
        return f".{self._value}"


class FlattenedIndexKey(_Key):
    """A position among the children of an object of a registered class."""

    __slots__ = ()
    _field = "key"
    __match_args__ = ("key",)
    key = property(lambda self: self._value)

    def __init__(self, key):
        self._value = key

    def __str__(self):
        return f"[<flat index {self._value}>]"
