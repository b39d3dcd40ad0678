from nb import cell
cell("import shoal as jax\njax.devices()")
cell("import shoal.numpy as jnp\narr = jnp.arange(32.0).reshape(4, 8)\narr.devices()")
cell("arr.sharding")
cell("jax.debug.visualize_array_sharding(arr, use_color=False)")
cell("""from shoal.sharding import PartitionSpec as P
mesh = jax.make_mesh((2, 4), ('x', 'y'))
sharding = jax.sharding.NamedSharding(mesh, P('x', 'y'))
print(sharding)
print(mesh.axis_types)
print(mesh)""")
cell("""arr_sharded = jax.device_put(arr, sharding)
print(arr_sharded)
jax.debug.visualize_array_sharding(arr_sharded, use_color=False)""")
cell("arr_sharded")
cell("[ (s.device, s.index, s.replica_id, s.data.shape) for s in arr_sharded.addressable_shards]")
cell("""s_host = jax.NamedSharding(mesh, P('x', 'y'), memory_kind='pinned_host')
s_dev = s_host.with_memory_kind('device')
arr_host = jax.device_put(arr, s_host)
arr_dev = jax.device_put(arr, s_dev)
print(arr_host.sharding.memory_kind)
print(arr_dev.sharding.memory_kind)
print(arr_host.sharding, arr_host.addressable_shards[0])
print([ (m.kind) for m in jax.devices()[0].addressable_memories()], jax.devices()[0].default_memory())""")
cell("""@jax.jit
def f_elementwise(x):
  return 2 * jnp.sin(x) + 1

result = f_elementwise(arr_sharded)
print("shardings match:", result.sharding == arr_sharded.sharding)
print(result)""")
cell("""@jax.jit
def f_contract(x):
  return x.sum(axis=0)

result = f_contract(arr_sharded)
jax.debug.visualize_array_sharding(result, use_color=False)
print(result); print(result.sharding)""")
cell("""f = jax.jit(lambda x: x, out_shardings=s_dev)
out_dev = f(arr_host)
print(out_dev)
print(out_dev.sharding.memory_kind)""")
cell("""g = jax.jit(lambda x: x, out_shardings=s_host)
out_host = g(arr_dev)
print(out_host)
print(out_host.sharding.memory_kind)""")
cell("""@jax.jit
def f_contract_2(x):
  out = x.sum(axis=0)
  sharding = jax.sharding.NamedSharding(mesh, P('x'))
  return jax.lax.with_sharding_constraint(out, sharding)

result = f_contract_2(arr_sharded)
jax.debug.visualize_array_sharding(result, use_color=False)
print(result); print(result.sharding)""")
cell("""# same, mesh with Auto axes (what make_mesh gave when the doc was written)
from shoal.sharding import AxisType
mesh_auto = jax.make_mesh((2, 4), ('x', 'y'), axis_types=(AxisType.Auto,)*2)
arr_auto = jax.device_put(arr, jax.sharding.NamedSharding(mesh_auto, P('x','y')))
@jax.jit
def f_contract_2a(x):
  out = x.sum(axis=0)
  return jax.lax.with_sharding_constraint(out, jax.sharding.NamedSharding(mesh_auto, P('x')))
r = f_contract_2a(arr_auto)
jax.debug.visualize_array_sharding(r, use_color=False)
print(r, r.sharding)
r = f_contract(arr_auto)
jax.debug.visualize_array_sharding(r, use_color=False)
print(r, r.sharding)
print('auto mesh:', mesh_auto, jax.sharding.NamedSharding(mesh_auto, P('x','y')))""")
cell("""from shoal.experimental.shard_map import shard_map
mesh = jax.make_mesh((8,), ('x',))
f_elementwise_sharded = shard_map(
    f_elementwise, mesh=mesh, in_specs=P('x'), out_specs=P('x'))
arr = jnp.arange(32)
f_elementwise_sharded(arr)""")
cell("""from shoal import shard_map
mesh = jax.make_mesh((8,), ('x',))
f_elementwise_sharded = shard_map(
    f_elementwise, mesh=mesh, in_specs=P('x'), out_specs=P('x'))
arr = jnp.arange(32)
f_elementwise_sharded(arr)""")
cell("""x = jnp.arange(32)
print(f"global shape: {x.shape=}")

def f(x):
  print(f"device local shape: {x.shape=}")
  print(x, jax.typeof(x))
  return x * 2

y = shard_map(f, mesh=mesh, in_specs=P('x'), out_specs=P('x'))(x)
print(y); print(y.sharding)""")
cell("""def f(x):
  return jnp.sum(x, keepdims=True)

shard_map(f, mesh=mesh, in_specs=P('x'), out_specs=P('x'))(x)""")
cell("""def f(x):
  sum_in_shard = x.sum()
  return jax.lax.psum(sum_in_shard, 'x')

shard_map(f, mesh=mesh, in_specs=P('x'), out_specs=P())(x)""")
cell("""# pitfall: out_specs=P() without psum
shard_map(lambda x: x.sum(), mesh=mesh, in_specs=P('x'), out_specs=P())(x)""")
cell("""# pitfall: not divisible
shard_map(lambda x: x*2, mesh=mesh, in_specs=P('x'), out_specs=P('x'))(jnp.arange(30))""")
cell("""# pitfall: device_put not divisible
jax.device_put(jnp.arange(30), jax.sharding.NamedSharding(mesh, P('x')))""")
cell("""@jax.jit
def layer(x, weights, bias):
  return jax.nn.sigmoid(x @ weights + bias)""")
cell("""import numpy as np
rng = np.random.default_rng(0)

x = rng.normal(size=(32,))
weights = rng.normal(size=(32, 4))
bias = rng.normal(size=(4,))

layer(x, weights, bias)""")
cell("""mesh = jax.make_mesh((8,), ('x',))
sharding = jax.sharding.NamedSharding(mesh, P('x'))

x_sharded = jax.device_put(x, sharding)
weights_sharded = jax.device_put(weights, sharding)

layer(x_sharded, weights_sharded, bias)""")
cell("""# same with an Auto mesh
mesh_a = jax.make_mesh((8,), ('x',), axis_types=(AxisType.Auto,))
sharding_a = jax.sharding.NamedSharding(mesh_a, P('x'))
x_sharded = jax.device_put(x, sharding_a)
weights_sharded = jax.device_put(weights, sharding_a)
r=layer(x_sharded, weights_sharded, bias)
print(r.sharding)
r""")
cell("""@jax.jit
def layer_auto(x, weights, bias):
  x = jax.lax.with_sharding_constraint(x, sharding)
  weights = jax.lax.with_sharding_constraint(weights, sharding)
  return layer(x, weights, bias)

layer_auto(x, weights, bias) # pass in unsharded inputs""")
cell("""@jax.jit
def layer_auto(x, weights, bias):
  x = jax.lax.with_sharding_constraint(x, sharding_a)
  weights = jax.lax.with_sharding_constraint(weights, sharding_a)
  return layer(x, weights, bias)

layer_auto(x, weights, bias) # pass in unsharded inputs, Auto mesh""")
cell("""from functools import partial

@jax.jit
@partial(shard_map, mesh=mesh,
         in_specs=(P('x'), P('x', None), P(None)),
         out_specs=P(None))
def layer_sharded(x, weights, bias):
  return jax.nn.sigmoid(jax.lax.psum(x @ weights, 'x') + bias)

layer_sharded(x, weights, bias)""")
cell("""# numpy f64 reference
z = x.astype(np.float64)@weights+bias
1/(1+np.exp(-z))""")
