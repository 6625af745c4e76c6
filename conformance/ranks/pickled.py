"""Serialize a subject that exists only as an object in the caller's process, for rank processes."""

from __future__ import annotations

import base64
import importlib.util
import io
import sys
from types import ModuleType
from typing import Any

from conformance.kit.subject import Subject


def payload(subject: Subject) -> str:
    """Serialize the subject as text.

    What is defined at the top of a module is sent by name; anything else, and anything in a module that a rank could
    not import, is sent as a whole.

    Raises:
        ValueError: it cannot be serialized.
    """
    import cloudpickle

    whole = [module for module in _modules(subject) if not _found_by_name(module)]
    for module in whole:
        cloudpickle.register_pickle_by_value(module)
    try:
        return as_text(subject)
    except Exception as error:
        raise ValueError(
            f"{subject.label} cannot be sent to rank processes: {type(error).__name__}: {error}; "
            "define it at the top of a module"
        ) from error
    finally:
        for module in whole:
            cloudpickle.unregister_pickle_by_value(module)


def _modules(subject: Subject) -> list[ModuleType]:
    """Return the modules of a subject's parts."""
    parts: list[Any] = [subject.target, subject.call, subject.formula, subject.reference, subject.inputs]
    parts += dict(subject.helpers).values()
    names = {str(getattr(part, "__module__", "")) for part in parts if part is not None}
    return [sys.modules[name] for name in sorted(names) if name in sys.modules and name != "__main__"]


def _found_by_name(module: ModuleType) -> bool:
    """Tell whether another process with the same path would import the same file under this name."""
    loaded = sys.modules.pop(module.__name__)
    try:
        spec = importlib.util.find_spec(module.__name__)
    except (ImportError, ValueError, AttributeError):
        return False
    finally:
        sys.modules[module.__name__] = loaded
    return spec is not None and spec.origin == getattr(getattr(module, "__spec__", None), "origin", None)


def as_text(value: object) -> str:
    """Pickle a value. A module that cannot be imported by name is pickled as an attribute of another module.

    ``once_differentiable`` refers to ``torch._C._functions``, which would otherwise be pickled by value and could not
    be restored.
    """
    import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def reducer_override(self, obj: object) -> object:
            if isinstance(obj, ModuleType) and obj.__name__ not in sys.modules:
                home, _, name = obj.__name__.rpartition(".")
                if getattr(sys.modules.get(home), name, None) is obj:
                    return getattr, (sys.modules[home], name)
            return super().reducer_override(obj)

    written = io.BytesIO()
    Pickler(written).dump(value)
    return base64.b64encode(written.getvalue()).decode()
