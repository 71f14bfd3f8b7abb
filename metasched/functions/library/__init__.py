"""The math functions, a file each: its name is the function's."""
