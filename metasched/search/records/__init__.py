"""What searches take from records: their own as they go on, earlier ones of the task, and those of other tasks.

Its files, in reading order:

- `other_names`: Records of a program with other names, or of older versions of primitives, translated to one program's
  own
- `task_records`: What is recorded of a task, as a search asks for it: by trace and by code, without reading whole
  records
- `earlier_searches`: What a search takes from earlier ones of the same program and target, in other spaces and with
  other versions
- `resume`: Resuming from records: a strategy observes them in the batches in which they were made
- `record_features`: Features of recorded candidates of any program, from the texts of their records
- `feature_cache`: Features of measured candidates, kept in the user's cache folder, so that none is worked out twice
- `other_tasks`: What other tasks teach the model of one: the records that a database has of them, as features and times
- `recorded_tasks`: All that a database has of its tasks, as features and times: what `metasched model` trains on, and
  judges by
"""
