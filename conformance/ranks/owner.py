"""What has started processes and ends them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class Owner(ABC):
    """Owns processes: close it, or use it as a context manager, and they end."""

    @abstractmethod
    def close(self) -> None:
        """End every process."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
