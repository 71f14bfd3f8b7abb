"""What several tests use: programs, schedules, emulated instructions, and the scenarios that run in processes."""
