import os, sys
proc_id = int(sys.argv[1]) if len(sys.argv) > 1 else 0
num_procs = int(sys.argv[2]) if len(sys.argv) > 2 else 1
port = sys.argv[3] if len(sys.argv)>3 else "6000"
import shoal as jax
jax.config.update("jax_platform_name", "cpu")
jax.distributed.initialize("localhost:"+port, num_procs, proc_id)

from shoal.sharding import Mesh, PartitionSpec as P, NamedSharding
import shoal.numpy as jnp
import numpy as np

def get_device_grid():
    by_proc = {}
    for d in jax.devices():
        by_proc.setdefault(d.process_index, []).append(d)
    hosts = sorted(by_proc)
    return np.array([[by_proc[h][x] for x in range(jax.local_device_count())] for h in hosts])
def create_2d_mesh():
    dev_grid = get_device_grid()
    return Mesh(dev_grid, ("x", "y"))
def create_1d_mesh():
    dev_grid = get_device_grid()
    return Mesh(dev_grid.flatten(), ("y",))

print(f"Rank {proc_id}")
print(f"Local devices {jax.local_device_count()}")
print(f"Global devices {jax.device_count()}")
print(f"World size {num_procs}")
print(f"Device grid\n{get_device_grid()}")
mesh2d = create_2d_mesh()
A = jax.device_put(
    jnp.diag(jnp.arange(1, jax.device_count() + 1, dtype=jnp.float32)),
    NamedSharding(mesh2d, P(None, ("x", "y"))),
)
for shard in A.addressable_shards:
    print(f"shard\n {shard.data}")
print(A.sharding, A.addressable_shards[0])
# Gather over the number of hosts
A = jax.lax.with_sharding_constraint(A, NamedSharding(mesh2d, P(None, "y")))
for shard in A.addressable_shards:
    print(f"shard\n {shard.data}")
print(A.sharding)
print([(s.device.id, s.index, s.replica_id) for s in A.addressable_shards])
print(repr(A)); 
try: print(A)
except Exception as e: print("EXC print(A):", type(e).__name__, e)
try: print(np.asarray(A))
except Exception as e: print("EXC asarray:", type(e).__name__, e)
try: jax.debug.visualize_array_sharding(A, use_color=False)
except Exception as e: print("EXC viz:", type(e).__name__, e)
