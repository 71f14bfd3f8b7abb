"""How many candidates of a search come first: what looks best without a doubt, and nothing for the sake of learning.

So a search of no more trials is as good as it can be, and one of many has lost little.
"""

SHORT_LIST = 16
