"""How tensor intrinsics are emitted, a file each: `emit(operands)` for the description of the same name in
`metasched.schedule.intrinsics`, which says how wide it is."""
