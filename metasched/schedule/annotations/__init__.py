"""The annotations that direct the compiler at a loop or a block, a file each, named by its key."""
