"""`python -m docs.building FOLDER`: write the pages that Sphinx reads."""

import sys
from pathlib import Path

from docs.building.pages import sources, write

write(sources(), Path(sys.argv[1]))
