"""Images in another size."""

import enum as _enum

from shoal._core.image import resize, scale_and_translate


class ResizeMethod(_enum.Enum):
    """What a new element is made of."""

    NEAREST = 0
    LINEAR = 1
    LANCZOS3 = 2
    LANCZOS5 = 3
    CUBIC = 4
    CUBIC_PYTORCH = 5
    AREA = 6

    @staticmethod
    def from_string(s):
        """The method of a name, as functions take it."""
        names = {
            "nearest": "NEAREST",
            **dict.fromkeys(("linear", "bilinear", "trilinear", "triangle"), "LINEAR"),
            "lanczos3": "LANCZOS3",
            "lanczos5": "LANCZOS5",
            **dict.fromkeys(("cubic", "bicubic", "tricubic"), "CUBIC"),
            **dict.fromkeys(("cubic-pytorch", "bicubic-pytorch"), "CUBIC_PYTORCH"),
            "area": "AREA",
        }
        if s not in names:
            raise ValueError(f'Unknown resize method "{s}"')
        return ResizeMethod[names[s]]
