"""Schedules chosen without measuring: expert traces, what other sizes had, and what the cost model likes best.

Its files, in reading order:

- `expert_guess`: The expert traces that can be replayed on a program, and the best of them by the roofline
- `quick_evolution`: An evolution that somebody waits for: it ends where it gains no more, or has no hope to
- `favourite`: The candidate of a space that the cost model scores highest before anything is measured
- `guess`: The best guess for a program: a schedule chosen without measuring
"""
