"""The command `shoal`: launcher and doctor."""

import os
import sys


def main():
    """Becomes the tool that lies in this package."""
    tool = os.path.join(os.path.dirname(__file__), "bin", "shoal")
    os.execv(tool, [tool, *sys.argv[1:]])
