"""What a user tries first, with the package as it is installed: run by an interpreter that has it, in any folder."""

import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

PROGRAM = """
import numpy as np
import shoal as jax, shoal.numpy as jnp
from shoal.sharding import NamedSharding, PartitionSpec as P
jax.distributed.initialize()
mesh = jax.make_mesh((8,), ("x",))
x = jax.make_array_from_callback((8,), NamedSharding(mesh, P("x")), lambda index: np.arange(8.0, dtype=np.float32)[index])
total = jax.jit(lambda x: jnp.sum(jnp.sin(x) ** 2 + jnp.cos(x) ** 2))(x)
print(jax.process_index(), len(jax.local_devices()), float(total))
"""


def main():
    import shoal as jax
    import shoal.numpy as jnp
    from shoal.sharding import NamedSharding, PartitionSpec as P

    assert "site-packages" in jax.__file__, f"this is not the installed package: {jax.__file__}"
    x = jax.device_put(jnp.arange(8.0), NamedSharding(jax.make_mesh((8,), ("x",)), P("x")))
    y = jax.jit(lambda x: (x @ x, x + 1))(x)
    assert float(y[0]) == 140 and len(y[1].sharding.device_set) == 8, y

    tool = Path(sysconfig.get_path("scripts")) / "shoal"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SHOAL_")}
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "program.py"
        program.write_text(PROGRAM)
        done = subprocess.run(
            [tool, "run", "-n", "2", "--devices-per-process", "4", "--", sys.executable, program], cwd=folder,
            env=environment, capture_output=True, text=True, timeout=120,
        )
    lines = sorted(line.split("] ", 1)[-1] for line in done.stdout.splitlines())
    assert (done.returncode, lines) == (0, ["0 4 8.0", "1 4 8.0"]), done
    print(f"Shoal {jax.__version__} works in CPython {sys.version.split()[0]}")


if __name__ == "__main__":
    os.environ["SHOAL_NUM_CPU_DEVICES"] = "8"
    main()
