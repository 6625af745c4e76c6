"""``python -m conformance`` is the ``conformance`` command."""

import sys

from conformance.cli.commands import main

if __name__ == "__main__":
    sys.exit(main())
