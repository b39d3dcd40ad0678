# seed 004 with jax.make_mesh defaulting to Auto axes (as when the doc was written)
from nb import cell, G
import shoal as jax, functools
from shoal.sharding import AxisType
_mm = jax.make_mesh
def mm(shape, names, **kw):
    if hasattr(jax.sharding,'AxisType'):
        kw.setdefault('axis_types',(AxisType.Auto,)*len(names))
    return _mm(shape, names, **kw)
jax.make_mesh = mm
exec(open('seed004.py').read().split('\n',1)[1])
