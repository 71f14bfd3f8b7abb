"""From a scheduled program to machine code: lowering to loops over flat arrays, then a folder a kind of target."""
