"""``python -m conformance`` is the ``conformance`` command."""

import os
import sys

if __name__ == "__main__":
    # `-m` puts the current directory first, where a user's random.py or json/ would be taken for Python's own.
    if not sys.flags.safe_path and sys.path[0] == os.getcwd():
        del sys.path[0]
    from conformance.cli.commands import main

    sys.exit(main())
