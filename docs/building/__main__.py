"""`python -m docs.building FOLDER`: write the pages that Sphinx reads."""

import sys
from pathlib import Path

from docs.building.firing import firings, programs
from docs.building.pages import sources, write
from docs.building.shipped_rules import rules_page

write(sources(rules_page(firings(programs()))), Path(sys.argv[1]))
