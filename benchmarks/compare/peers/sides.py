"""The programs that are compared: getting them, starting them, asking them."""

import json
import os
import pathlib
import resource
import select
import shutil
import socket
import subprocess
import sys
import time
import zipfile

HERE = pathlib.Path(__file__).resolve().parent.parent
ROOT = HERE.parent.parent
PLUGIN = "lammps-jax-pjrt-cpu==0.11.2"  # XLA's CPU plugin, built from the sources of jaxlib 0.11.2.
PLUGIN_HEADER = "tensorflow-cpu==2.21.0"  # Only for pjrt_c_api.h, which is in no smaller package.
TORCH = "torch==2.15.0"


def run(*command, **options):
    subprocess.run([str(part) for part in command], check=True, stdout=sys.stderr, **options)


class Side:
    """A program that answers requests; started when first asked, and anew if it died."""

    def __init__(self, name, command, env=None):
        self.name, self.command, self.env = name, [str(part) for part in command], env or {}
        self.process = None

    def environment(self, request, env):
        return os.environ | self.env | env

    def start(self, request):
        self.process = subprocess.Popen(self.command, env=self.environment(request, {}), text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def ask(self, request, timeout=300):
        """The answer of the running program."""
        if self.process is None:
            self.start(request)
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            if not select.select([self.process.stdout], [], [], timeout)[0]:
                raise TimeoutError(f"no answer in {timeout} s")
            line = self.process.stdout.readline()
            if not line:
                raise ConnectionError("ended without an answer")
            return json.loads(line)
        except (OSError, ValueError) as problem:
            self.stop()
            return {"error": str(problem)}

    def ask_new(self, request, env, timeout=300):
        """The answer of a process of its own, with the time from its start to its end as "wall"."""
        return self.ask_command([*self.command, json.dumps(request)], request, env, timeout)

    def ask_command(self, command, request, env, timeout):
        begin = time.perf_counter()
        try:
            done = subprocess.run([str(part) for part in command], env=self.environment(request, env), text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=timeout)
            wall = time.perf_counter() - begin
            answers = [line for line in done.stdout.splitlines() if line.startswith("{")]  # Libraries print, too.
            if done.returncode != 0 and not answers:
                return {"error": f"exit code {done.returncode}"}
            return json.loads(answers[-1] if answers else "{}") | {"wall": wall}
        except (subprocess.TimeoutExpired, ValueError) as problem:
            return {"error": str(problem)}

    def ask_job(self, request, env, timeout=300):
        """The answer of request["processes"] processes of request["devices"] devices each."""
        return {"unsupported": "several processes"}

    def ask_launcher(self, launcher, request, env, timeout):
        """The answer of processes that a launcher starts, and what it takes longer than one of them as "beyond"."""
        command = [*self.command, json.dumps(request)]
        answer = self.ask_command([*launcher, *command], request, env, timeout)
        if request["work"] != "nothing" or "wall" not in answer:
            return answer
        return answer | {"beyond": answer["wall"] - self.ask_command(command, request, env, timeout)["wall"]}

    def cpu_seconds(self):
        if self.process is None or self.process.poll() is not None:
            return 0.0
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


class ShoalSide(Side):
    """Several processes are started by `shoal run`."""

    def __init__(self, name, command, env, launcher):
        super().__init__(name, command, env)
        self.launcher = launcher

    def ask_job(self, request, env, timeout=300):
        launcher = [self.launcher, "run", "--no-prefix", "-n", request["processes"], "--devices-per-process",
                    request.get("devices", 1), "--"]
        more = {"SHOAL_TRANSPORT": "socket"} if request.get("sockets") else {}
        return self.ask_launcher(launcher, request, env | more, timeout)


class MpiSide(Side):
    """Only jobs, which mpirun starts."""

    def ask(self, request, timeout=300):
        return {"unsupported": "one process"}

    def ask_new(self, request, env, timeout=300):
        return self.ask(request)

    def ask_job(self, request, env, timeout=300):
        transport = ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self"] if request.get("sockets") else []
        launcher = ["mpirun", "--allow-run-as-root", "--oversubscribe", *transport, "-n", request["processes"]]
        return self.ask_launcher(launcher, request, env, timeout)


class JaxSide(Side):
    """JAX has no launcher."""

    def ask_job(self, request, env, timeout=300):
        if request.get("sockets") or request["work"] == "nothing":
            return {"unsupported": "it has nothing of its own for that"}
        with socket.socket() as some:
            some.bind(("127.0.0.1", 0))
            port = some.getsockname()[1]
        env = env | {"COMPARE_COORDINATOR": f"127.0.0.1:{port}", "COMPARE_PROCESSES": str(request["processes"]),
                     "COMPARE_DEVICES": str(request.get("devices", 1))}
        command = [*self.command, json.dumps(request)]
        others = [subprocess.Popen(command, env=self.environment(request, env | {"COMPARE_PROCESS": str(process)}),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                  for process in range(1, request["processes"])]
        try:
            return self.ask_command(command, request, env | {"COMPARE_PROCESS": "0"}, timeout)
        finally:
            for process in others:
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


class PjrtSide(Side):
    """XLA is told the number of devices when it starts, so that there are two processes."""

    def __init__(self, name, command, env):
        super().__init__(name, command, env)
        self.eight = Side(name, command, env | {"PJRT_DEVICES": "8"})

    def needs_eight(self, request):
        return request.get("devices", 1) > 1 or request["work"] == "collective"

    def ask(self, request, timeout=300):
        return self.eight.ask(request, timeout) if self.needs_eight(request) else super().ask(request, timeout)

    def environment(self, request, env):
        return super().environment(request, env) | ({"PJRT_DEVICES": "8"} if self.needs_eight(request) else {})

    def cpu_seconds(self):
        return super().cpu_seconds() + self.eight.cpu_seconds()

    def stop(self):
        super().stop()
        self.eight.stop()


def compiled(folder, name, compiler, *options):
    """The program peers/<name>.cc, compiled if it is older than its sources."""
    binary, source = folder / name, HERE / "peers" / f"{name}.cc"
    newest = max(path.stat().st_mtime for path in (source, HERE / "serve.h"))
    if not binary.exists() or binary.stat().st_mtime < newest:
        run(*compiler, "-std=c++20", "-O2", source, "-o", binary, *options)
    return binary


def set_up(folder, build, with_torch):
    """Gets and builds what is missing below `folder`; the sides by name."""
    folder.mkdir(parents=True, exist_ok=True)
    run("cmake", "--build", build, "--target", "compare_shoal", "compare_limits", "shoal_tool")
    sides = {
        "Shoal": ShoalSide("Shoal", [build / "bin" / "compare_shoal"],
                           {"SHOAL_NUM_CPU_DEVICES": "8", "SHOAL_CACHE_DIR": str(folder / "shoal_cache")},
                           build / "bin" / "shoal"),
        # OpenMP's threads shall sleep while others are measured.
        "limit": Side("limit", [build / "bin" / "compare_limits"], {"OMP_WAIT_POLICY": "passive"}),
    }

    python = folder / "venv" / "bin" / "python"
    stamp = folder / "venv" / "installed"
    wanted = (HERE / "requirements.txt").read_text() + (TORCH if with_torch else "")
    if not stamp.exists() or (with_torch and stamp.read_text() != wanted):
        run(sys.executable, "-m", "venv", folder / "venv")
        run(python, "-m", "pip", "install", "-q", "-r", HERE / "requirements.txt", *([TORCH] if with_torch else []))
        stamp.write_text(wanted)
    sides["JAX"] = JaxSide("JAX", [python, HERE / "peers" / "jax_side.py"])

    plugin, header = folder / "pjrt_c_api_cpu_plugin.so", folder / "pjrt_c_api.h"
    for package, file in ((PLUGIN, plugin), (PLUGIN_HEADER, header)):
        if not file.exists():
            wheels = folder / "wheels"
            run(python, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "--python-version", "3.12",
                "-d", wheels, package)
            [wheel] = wheels.glob(package.split("==")[0].replace("-", "_") + "*.whl")
            with zipfile.ZipFile(wheel) as archive:
                member = next(name for name in archive.namelist() if name.endswith("/" + file.name))
                file.write_bytes(archive.read(member))
            wheel.unlink()
    binary = compiled(folder, "pjrt", [os.environ.get("CXX", "g++")], "-I", folder, "-ldl")
    # With huge pages, which XLA itself does not ask for: its best.
    sides["XLA in C++"] = PjrtSide("XLA in C++", [binary], {
        "PJRT_PLUGIN": str(plugin), "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"})
    if shutil.which("mpicxx") and shutil.which("mpirun"):
        sides["Open MPI"] = MpiSide("Open MPI", [compiled(folder, "open_mpi", ["mpicxx"], "-O3")])
    if with_torch:
        sides["PyTorch"] = Side("PyTorch", [python, HERE / "peers" / "torch_side.py"])
    return sides


# ---- A quiet machine.


def busy_seconds():
    """Seconds that all cores together were busy, and that there were."""
    values = [int(field) for field in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    tick = os.sysconf("SC_CLK_TCK")
    return (sum(values) - values[3] - values[4]) / tick, sum(values) / tick


def wait_until_quiet(longest, share=0.08):
    """Waits until less than this share of the machine is busy for a second; gives up after `longest` seconds."""
    end = time.monotonic() + longest
    while True:
        busy, total = busy_seconds()
        time.sleep(1)
        busy_after, total_after = busy_seconds()
        if busy_after - busy < share * (total_after - total) or time.monotonic() > end:
            return


class ForeignLoad:
    """How many cores others than the sides kept busy since it was made."""

    def __init__(self, sides):
        self.sides = sides
        self.begin = time.monotonic()
        self.own, self.busy = self.own_seconds(), busy_seconds()[0]

    def own_seconds(self):
        total = sum(side.cpu_seconds() for side in self.sides)
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
            usage = resource.getrusage(who)
            total += usage.ru_utime + usage.ru_stime
        return total

    def cores(self):
        elapsed = max(time.monotonic() - self.begin, 1e-9)
        return max(0.0, (busy_seconds()[0] - self.busy - (self.own_seconds() - self.own)) / elapsed)
