"""Base class for what starts processes and must end them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class Owner(ABC):
    """Own processes: they end when it is closed, or when its context ends."""

    @abstractmethod
    def close(self) -> None:
        """End every process."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
