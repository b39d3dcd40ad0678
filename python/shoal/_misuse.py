"""Errors about what the user's program does."""

from shoal import _core


def misuse(error, text):
    """The exception of this class, whose text ends with the line of the user's program that led to it."""
    return error(_core._with_user_line(str(text)))
