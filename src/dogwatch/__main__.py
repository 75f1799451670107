"""`python -m dogwatch`."""

import sys

from dogwatch.cli import main

sys.exit(main())
