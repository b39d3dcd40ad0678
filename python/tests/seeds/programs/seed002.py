import os, sys, traceback
pid, n, port = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
import shoal as jax
import time
t=time.time(); jax.distributed.initialize("localhost:"+port, n, pid); print("init_s", round(time.time()-t,3)) if os.environ.get("T") else None
import shoal.numpy as jnp, numpy as np
from shoal.experimental import multihost_utils as mhu
from shoal.sharding import Mesh, PartitionSpec as P, NamedSharding, AxisType
def T(name, f):
    try: r=f(); print(f"[{name}]", repr(r) if r is not None else "ok")
    except Exception as e: print(f"[{name}] EXC {type(e).__name__}: {str(e)[:900]}")
    sys.stdout.flush()
print(jax.process_index(), jax.process_count(), jax.device_count(), jax.local_device_count())
print(jax.devices()); print(jax.local_devices())
xs=jnp.ones(jax.local_device_count())
T("pmap psum", lambda: jax.pmap(lambda x: jax.lax.psum(x,'i'), axis_name='i')(xs))
def pm():
    r=jax.pmap(lambda x: jax.lax.psum(x,'i'), axis_name='i')(xs)
    return r.shape, r.is_fully_addressable, r.sharding, [s.data for s in r.addressable_shards]
T("pmap psum details", pm)
T("pmap psum np.asarray", lambda: np.asarray(jax.pmap(lambda x: jax.lax.psum(x,'i'), axis_name='i')(xs)))
T("pmap axis_index shards", lambda: [np.asarray(s.data) for s in jax.pmap(lambda x: x*0+jax.lax.axis_index('i'), axis_name='i')(xs).addressable_shards])
mesh=jax.make_mesh((jax.device_count(),),('x',),axis_types=(AxisType.Auto,))
print(mesh, [d.id for d in mesh.devices.flat])
sh=NamedSharding(mesh,P('x'))
def sm():
    x=jax.device_put(np.arange(2.*jax.device_count(),dtype=np.float32), sh)
    r=jax.jit(jax.shard_map(lambda a: jax.lax.psum(a.sum(),'x'), mesh=mesh,in_specs=P('x'),out_specs=P()))(x)
    return r, r.is_fully_replicated, [s.data for s in x.addressable_shards]
T("shard_map psum", sm)
T("jit sum of global", lambda: jax.jit(lambda a:a.sum())(jax.device_put(np.arange(16.,dtype=np.float32),sh)))
T("np.asarray of non-addressable", lambda: np.asarray(jax.device_put(np.arange(16.,dtype=np.float32),sh)))
T("print of non-addressable", lambda: str(jax.device_put(np.arange(16.,dtype=np.float32),sh)))
T("device_put different values", lambda: [s.data for s in jax.device_put(np.full(16,pid,np.float32),sh).addressable_shards])
T("device_put different values replicated", lambda: jax.device_put(np.full(4,pid,np.float32),NamedSharding(mesh,P())))
T("make_array_from_process_local_data", lambda: (lambda a:(a.shape,[np.asarray(s.data) for s in a.addressable_shards]))(jax.make_array_from_process_local_data(sh, np.full(2*jax.local_device_count(),pid,np.float32))))
T("make_array_from_callback", lambda: [np.asarray(s.data) for s in jax.make_array_from_callback((16,), sh, lambda idx: np.arange(16.)[idx]).addressable_shards])
T("broadcast_one_to_all", lambda: mhu.broadcast_one_to_all(np.arange(4)+10*pid))
T("broadcast_one_to_all is_source=last", lambda: mhu.broadcast_one_to_all({'a':np.float32(pid),'b':np.array([pid,pid])}, is_source=pid==n-1))
T("sync_global_devices", lambda: mhu.sync_global_devices("b1"))
T("sync_global_devices mismatched name", lambda: mhu.sync_global_devices("b%d"%pid))
T("process_allgather np", lambda: mhu.process_allgather(np.array([pid,pid*10])))
T("process_allgather scalar", lambda: mhu.process_allgather(np.float32(pid)))
T("process_allgather tiled", lambda: mhu.process_allgather(np.array([pid,pid*10]), tiled=True))
T("process_allgather global tiled", lambda: mhu.process_allgather(jax.device_put(np.arange(16.,dtype=np.float32),sh), tiled=True))
T("process_allgather global untiled", lambda: mhu.process_allgather(jax.device_put(np.arange(16.,dtype=np.float32),sh)))
T("assert_equal ok", lambda: mhu.assert_equal(np.arange(3)))
T("assert_equal differ", lambda: mhu.assert_equal(np.arange(3)+pid, "values differ"))
def h2g():
    g=mhu.host_local_array_to_global_array(np.arange(4.*jax.local_device_count(),dtype=np.float32).reshape(2*jax.local_device_count(),2)+100*pid, mesh, P('x'))
    l=mhu.global_array_to_host_local_array(g, mesh, P('x'))
    return g.shape, g.sharding, [np.asarray(s.data).tolist() for s in g.addressable_shards], np.asarray(l).tolist(), type(l), l.shape, l.sharding
T("host_local_to_global P(x)", h2g)
def h2g0():
    g=mhu.host_local_array_to_global_array(np.arange(3.), mesh, P())
    l=mhu.global_array_to_host_local_array(g*2, mesh, P())
    return g.shape, g, l
T("host_local_to_global P()", h2g0)
g2=np.array(jax.devices()).reshape(n,-1); mesh2=Mesh(g2,('x','y'))
def rs():
    A=jax.device_put(np.arange(32.,dtype=np.float32).reshape(4,8), NamedSharding(mesh2,P('x','y')))
    out=[]
    for sp in [P('y','x'),P(None,('x','y')),P(('x','y')) if n*jax.local_device_count()<=4 else P('y'),P(None,'y'),P()]:
        B=jax.jit(lambda a: jax.lax.with_sharding_constraint(a, NamedSharding(mesh2,sp)))(A)
        out.append((sp,[np.asarray(s.data).tolist() for s in B.addressable_shards][:2]))
    return out
T("reshard", rs)
T("reshard device_put global->global", lambda: [np.asarray(s.data).tolist() for s in jax.device_put(jax.device_put(np.arange(32.,dtype=np.float32).reshape(4,8), NamedSharding(mesh2,P('x','y'))), NamedSharding(mesh2,P('y','x'))).addressable_shards][:2])
def coll():
    x=jax.device_put(np.arange(float(jax.device_count()**2),dtype=np.float32), sh)
    D=jax.device_count()
    f=lambda a:(jax.lax.all_gather(a,'x').sum(0), jax.lax.psum_scatter(a,"x",tiled=True), jax.lax.all_to_all(a,"x",0,0,tiled=True), jax.lax.ppermute(a,'x',[(i,(i+1)%D) for i in range(D)]), jax.lax.pmax(a,'x'))
    r=jax.jit(jax.shard_map(f,mesh=mesh,in_specs=P('x'),out_specs=(P('x'),)*5))(x)
    return [[np.asarray(s.data).tolist() for s in a.addressable_shards][:2] for a in r]
T("collectives first two local shards", coll)
def layer():
    rng=np.random.default_rng(0); x=rng.normal(size=(32,)).astype(np.float32); w=rng.normal(size=(32,4)).astype(np.float32); b=rng.normal(size=(4,)).astype(np.float32)
    L=jax.jit(lambda x,w,b: jax.nn.sigmoid(x@w+b))
    return L(jax.device_put(x,sh),jax.device_put(w,sh),b)
T("seed004 layer on multi-process mesh", layer)
T("jit with local (single-device) arrays", lambda: jax.jit(lambda a:a+1)(jnp.ones(3)))
T("jit mixing global and local", lambda: jax.jit(lambda a,b:a+b)(jax.device_put(np.arange(16.,dtype=np.float32),sh), jnp.ones(16)))
T("device_put to other process's device", lambda: jax.device_put(np.ones(3), jax.devices()[0]))
print("DONE")
