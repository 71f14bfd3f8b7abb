"""What a schedule may say to the compiler of a loop or a block, a file for each key: its name is the key."""
