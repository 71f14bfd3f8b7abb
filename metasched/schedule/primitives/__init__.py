"""The transformations and random variables of a schedule, a file each."""
