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
