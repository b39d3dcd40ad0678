"""Many processes that run one program."""

from shoal import _core

__all__ = ["initialize", "shutdown", "is_initialized", "client", "global_state"]


def initialize(
    coordinator_address=None,
    num_processes=None,
    process_id=None,
    local_device_ids=None,
    cluster_detection_method=None,
    initialization_timeout=None,
    heartbeat_timeout_seconds=None,
    shutdown_timeout_seconds=None,
    coordinator_bind_address=None,
    slice_index=None,
    partition_index=None,
    mtls_cert_file=None,
    mtls_key_file=None,
    mtls_ca_file=None,
    mtls_peer_uri_prefix=None,
    verify_secure_credentials=None,
    *,
    insecure=None,
):
    """Joins the job, when all of its processes do. What is not given comes from the environment or the launcher.

    Processes share a secret (see docs/multi_process.md); insecure=True does without one in all of them.

    Args:
      coordinator_address: "host:port" of process 0, as all others reach it. SHOAL_COORDINATOR_ADDRESS.
      num_processes: The number of processes of the job. SHOAL_NUM_PROCESSES.
      process_id: The number of this process, from 0. SHOAL_PROCESS_ID.
      local_device_ids: Which of this process's devices it uses; default: all. SHOAL_LOCAL_DEVICE_IDS.
      cluster_detection_method: The launcher to ask, by its name, or "deactivate"; default: the innermost one that is
        found. SHOAL_CLUSTER_DETECTION_METHOD.
      initialization_timeout: How many seconds processes wait for each other; default 300. SHOAL_INITIALIZATION_TIMEOUT.
      heartbeat_timeout_seconds: A process that is silent for this long counts as failed; default 100.
        SHOAL_HEARTBEAT_TIMEOUT.
      shutdown_timeout_seconds: How long shutdown waits for the others; default 300. SHOAL_SHUTDOWN_TIMEOUT.
      coordinator_bind_address: The address at which process 0 listens; default: all of its addresses, or loopback if
        coordinator_address is that. SHOAL_COORDINATOR_BIND_ADDRESS.
      slice_index: Must be None.
      partition_index: Must be None.
      mtls_cert_file: Must be None, as what follows: processes know each other by a shared secret.
      mtls_key_file: Must be None.
      mtls_ca_file: Must be None.
      mtls_peer_uri_prefix: Must be None.
      verify_secure_credentials: Must be None.
      insecure: Whether the job does without a secret if there is none; default: no. SHOAL_INSECURE.

    Raises:
      RuntimeError: If it was called before, or devices are in use already.
      ValueError: For values that are not allowed, or contradict those of other processes.
      TimeoutError: If not all processes have joined in time: it names who is missing.
    """
    if slice_index is not None or partition_index is not None:
        raise NotImplementedError("initialize: slice_index and partition_index mean nothing on CPUs")
    if mtls_cert_file or mtls_key_file or mtls_ca_file or mtls_peer_uri_prefix or verify_secure_credentials:
        raise NotImplementedError("initialize: processes know each other by a shared secret (SHOAL_SECRET), not by TLS")
    _core._initialize(
        coordinator_address, num_processes, process_id, local_device_ids, cluster_detection_method,
        initialization_timeout, heartbeat_timeout_seconds, shutdown_timeout_seconds, coordinator_bind_address,
        insecure,
    )


def shutdown():
    """Leaves the job, when all processes do."""
    _core._shutdown()


def is_initialized():
    """Whether this process is between initialize and shutdown."""
    return _core._is_initialized()


def client():
    """Small texts for all processes of the job, and meeting points."""
    return _core._client()


class _GlobalState:
    """What programs ask for that use JAX's own state."""

    @property
    def client(self):
        return _core._client() if is_initialized() else None

    @property
    def process_id(self):
        return _core.process_index()

    @property
    def num_processes(self):
        return _core.process_count()


global_state = _GlobalState()
