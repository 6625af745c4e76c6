"""A module that kills the process that ranks are forked from."""

import os
import signal
import time

os.kill(os.getppid(), signal.SIGKILL)
time.sleep(60)
