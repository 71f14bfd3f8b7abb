"""The command line: a file a command, each a `Command`; `main` lists them.

Its files, in reading order:

- `arguments`: Arguments that several commands share
- `command`: What a command is, where it writes, and how its arguments are read
- `render`: Tables as text
- `calibrate`: `metasched calibrate`: have this machine measure itself, and keep it for the estimates of guesses and
  searches
- `completion`: `metasched completion`: the script by which a shell completes commands, options and files
- `fish_completion`: The script by which the shell fish completes commands, options and files
- `doctor`: `metasched doctor`: what this machine is like for compiling and timing kernels, and what to change
- `db`: `metasched db`: what a database holds, as text to keep or send, merged back in, and cleaned up
- `model`: `metasched model`: cost models trained on what was measured, what they hold, and how well they rank
- `kernels`: The kernel a command is about
- `main`: The command line's entry point: finds the command, runs it, and turns errors into messages and a status
- `net_arguments`: Arguments that the commands of `metasched net` share: a model, what is bound of it, and its inputs
- `net_show`: `metasched net show`: a model as it was imported and as it runs, what each pass did, and its tasks
- `net_tune`: `metasched net tune`: tune all tasks of a model in one session, and keep what was measured
- `net_run`: `metasched net run`: run a model on arrays, time it, and compare its results with those of a file
- `net_profile`: `metasched net profile`: where the time of a model's call goes, kernel by kernel
- `net_export`: `metasched net export`: write a compiled model to a folder that runs with NumPy alone
- `net`: `metasched net`: whole networks: what is in a model, tune it, run it, see where its time goes, hand it over
- `progress_view`: The progress of a tuning run on the command line: for a person, or as JSON for a program
- `replay`: `metasched replay`: run a schedule that was found before, check its results, and time it again
- `report`: `metasched report`: why a search came to what it did, by a database: as text, as JSON, or as one HTML file
- `rule_trial`: A rule on trial: the space and the tuned kernel of a program with it and without, at equal trials
- `rules_try`: `metasched rules try`: what a rule does to a program's space, and what it gains when the program is tuned
- `rules`: `metasched rules`: which rules are installed, what one of them does, and what one of yours gains
- `show`: `metasched show`: a program, its space, a schedule of it, and the code it becomes
- `tune`: `metasched tune`: find the fast schedule of a program on this machine, and keep what was measured
- `worker`: `metasched worker`: have this machine build and time candidates for a cluster
"""
