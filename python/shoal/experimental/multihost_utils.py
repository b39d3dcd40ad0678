"""What the processes of a job do together with data that each has for itself."""

from shoal._core import (
    assert_equal,
    broadcast_one_to_all,
    global_array_to_host_local_array,
    host_local_array_to_global_array,
    process_allgather,
    reached_preemption_sync_point,
    sync_global_devices,
    to_host,
)
