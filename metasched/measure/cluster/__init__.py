"""Measuring on several machines, which a dask cluster connects.

Its files, in reading order:

- `dask_package`: The packages dask and distributed, imported when they are first needed
- `address`: Where a scheduler is, and whether it may be talked to: on this machine, or with TLS
- `yardstick`: How fast a machine is: two kernels whose code is the same on all machines of a target
- `payloads`: What travels between machines: text, numbers, and machine code
- `machine`: A machine of a cluster: what its worker builds and times with, and says of itself
- `remote_calls`: What a cluster's worker is asked to do, as functions that are sent by name
- `worker`: A dask worker with our resources, on this machine
- `fleet`: Which machines of a cluster build, and which of them time candidates of a target
- `work`: What is to be built and timed, and which of it is next
- `connection`: A client's connection to the scheduler: what is sent to a machine, and which machines there are
- `runner`: Measuring on the machines of a cluster: built where there is room, timed where times compare
"""
