"""What makes the site: `python -m docs.building FOLDER` writes the pages that Sphinx reads into a folder.

Its files, in reading order:

- `notebooks`: A tutorial, which is a Python file with cells, as a notebook
- `links`: Links between files of the repository as links between pages of the site
- `commands`: A page for each command of the command line, from its own parser
- `firing`: On which programs each rule that ships fires, and what it writes there: nothing is measured
- `shipped_rules`: A page of the rules that ship: their own documentation, where they fire, and what they write there
- `pages`: What the site is made of, and the folder that Sphinx reads
- `drawings`: Drawings become part of the page that shows them, so that they follow its colours
- `docstrings`: Docstrings as Sphinx wants them
- `built_links`: Whether what the pages of the built site name is there
"""
