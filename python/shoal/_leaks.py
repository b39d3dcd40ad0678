"""What checking_leaks looks for: values of a traced function that the program keeps when the function is over."""

import gc
import types

from shoal import _core

_known = set()  # By id: those told of, or older than the checks.


def _leaked():
    gc.collect()
    return [x for x in gc.get_objects() if type(x) is _core.Array and x._is_leaked]


def set_checking(check):
    """Whether each call of a jitted or mapped function is checked."""
    _known.clear()
    _known.update(map(id, _leaked() if check else ()))
    _core._set_leak_check(_check if check else None)


def _keepers(array, ours):
    """What refers to an array, beside a list of ours, in words."""
    found = []
    for keeper in gc.get_referrers(array):
        if isinstance(keeper, dict):
            found.append("under " + ", ".join(repr(name) for name, value in keeper.items() if value is array))
        elif keeper is not ours and not isinstance(keeper, (types.CellType, types.FrameType)):
            found.append(f"by an object of {type(keeper).__name__}")
    return found


def _check(name):
    leaked = [x for x in _leaked() if id(x) not in _known]
    if not leaked:
        return
    _known.update(map(id, leaked))
    kept = _keepers(leaked[0], leaked)
    raise Exception(
        f"Leaked trace: '{name}' is over, but the program still has {len(leaked)} of the values that stood in it for "
        f"arrays, among them {leaked[0]._type_text}{', kept ' + ' and '.join(kept) if kept else ''}; return what is "
        "needed outside"
    )
