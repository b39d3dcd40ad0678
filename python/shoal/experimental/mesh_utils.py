"""Grids of devices for meshes."""

from shoal import _core


def create_device_mesh(mesh_shape, devices=None, *, contiguous_submeshes=False, allow_split_physical_axes=False):
    """An array of NumPy of devices in this shape, in order of id.

    Args:
      mesh_shape: How many devices along each axis.
      devices: The devices; None: all.
      contiguous_submeshes: Makes no difference.
      allow_split_physical_axes: Makes no difference.
    """
    import math

    import numpy

    chosen = list(_core.devices() if devices is None else devices)
    if math.prod(mesh_shape) != len(chosen):
        raise ValueError(f"Number of devices {len(chosen)} must equal the product of mesh_shape {tuple(mesh_shape)}")
    grid = numpy.empty(len(chosen), dtype=object)
    grid[:] = chosen
    return grid.reshape(mesh_shape)


def create_hybrid_device_mesh(
    mesh_shape, dcn_mesh_shape, devices=None, *, process_is_granule=False, should_sort_granules_by_key=True,
    allow_split_physical_axes=False,
):
    """A grid whose axes go over processes first, as dcn_mesh_shape says, and over the devices of each within.

    Args:
      mesh_shape: How many devices along each axis.
      dcn_mesh_shape: How many processes along each axis.
      devices: The devices; None: all.
      process_is_granule: Makes no difference: granules are processes.
      should_sort_granules_by_key: Makes no difference.
      allow_split_physical_axes: Makes no difference.
    """
    import numpy

    chosen = list(_core.devices() if devices is None else devices)
    by_process = {}
    for device in chosen:
        by_process.setdefault(device.process_index, []).append(device)
    granules = [by_process[process] for process in sorted(by_process)]
    if numpy.prod(dcn_mesh_shape) != len(granules):
        raise ValueError(f"Number of slices/granules {len(granules)} must equal the product of dcn_mesh_shape "
                         f"{tuple(dcn_mesh_shape)}")
    blocks = numpy.empty(len(granules), dtype=object)
    for i, granule in enumerate(granules):
        blocks[i] = create_device_mesh(mesh_shape, granule)
    return numpy.block(blocks.reshape(dcn_mesh_shape).tolist())
