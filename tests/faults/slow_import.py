"""A good gather whose module takes a while to import."""

import time

from hostile import Good

time.sleep(1.0)

Gather = Good
