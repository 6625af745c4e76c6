"""Exceptions by which a test body ends."""

from __future__ import annotations

__all__ = ["NO_JVP", "Deviation", "NotApplicable", "Skipped", "Unfit", "need"]

#: Why what forward mode does is not judged.
NO_JVP = "the class defines no jvp"


class Deviation(AssertionError):
    """A broken clause: what was looked at, the actual and the expected value, and the likely cause, if known.

    >>> print(Deviation("the gradient of x", actual=3.0, expected=2.0))
    the gradient of x
    actual:   3.0
    expected: 2.0
    """

    def __init__(self, what: str, actual: object = None, expected: object = None, likely: str = "") -> None:
        """Store the values; the text is made when it is read."""
        super().__init__(what)
        self.what = what
        self.actual = actual
        self.expected = expected
        self.likely = likely

    def __str__(self) -> str:
        """Return one line for each known fact, notes included; a value whose repr raises does no harm."""
        lines = [self.what]
        lines += [f"actual:   {_text(self.actual)}"] if self.actual is not None else []
        lines += [f"expected: {_text(self.expected)}"] if self.expected is not None else []
        lines += getattr(self, "__notes__", [])
        if self.likely:
            lines.append(f"looks like: {self.likely}")
        return "\n".join(lines)


class RaisedAlone(Deviation):
    """The error that one rank raised while others waited for it in a collective.

    No variation excuses it, since ranks are to refuse a call together. The test ends in that error, as every test does
    that makes the same call: they have one cause.
    """

    def __init__(self, error: Exception) -> None:
        """Keep the error."""
        what = "this rank raised an error while other ranks were waiting in a collective"
        super().__init__(what, f"{type(error).__name__}: {error}", "an exception on every rank, or on none")
        self.error = error


def _text(value: object) -> str:
    try:
        return str(value)
    except Exception as error:
        return f"<{type(value).__name__}, whose __str__ raised {type(error).__name__}>"


class NotApplicable(Exception):
    """The clause says nothing about this subject; the message says why.

    >>> raise NotApplicable("the class defines no jvp")
    Traceback (most recent call last):
    conformance.kit.deviations.NotApplicable: the class defines no jvp
    """


class Unfit(Exception):
    """The result is malformed in a way that another clause reports; the message says how.

    So this clause cannot be judged. The test ends in an error, which counts as a consequence of that clause. A test
    that is skipped would leave the subject incomplete, as if the suite lacked something.

    >>> raise Unfit("the result is no tuple")
    Traceback (most recent call last):
    conformance.kit.deviations.Unfit: the result is no tuple
    """


class Skipped(Exception):
    """The clause applies but could not be run here; the message says what is missing.

    >>> raise Skipped("needs a second device")
    Traceback (most recent call last):
    conformance.kit.deviations.Skipped: needs a second device
    """


def need(condition: object, reason: str) -> None:
    """End the test as not applicable unless ``condition`` holds.

    A reason that ends with ``; see`` and the id of a clause makes the test a consequence if that clause is broken.

    Raises:
        NotApplicable: with the ``reason``.

    >>> need(True, "the class defines no jvp")
    """
    if not condition:
        raise NotApplicable(reason)
