"""`python -m lanekit` is the `lanekit` command."""

import sys

from lanekit.cli import main

sys.exit(main())
