"""A good gather that takes its time, for runs that somebody interrupts; it keeps a count of its calls where told to."""

from __future__ import annotations

import os
import time

from hostile import Good

time.sleep(float(os.environ.get("SLOW_IMPORT", "0")))


class Slow(Good):
    @staticmethod
    def forward(ctx, x):
        time.sleep(0.1)
        return Good.forward(ctx, x)
