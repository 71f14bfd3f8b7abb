"""Whether the kernels' threads have a core each."""

from __future__ import annotations

from metasched.doctor.examined import Examined
from metasched.doctor.finding import Finding, Standing
from metasched.support.messages import counted

# A share of a core less than that is a rounding of the quota.
_SLACK = 0.05


def check(examined: Examined) -> Finding:
    """The target's threads against the cores that the process may use, and its quota of time (cgroups)."""
    threads, cores, quota = examined.target.threads, examined.cores(), _quota(examined)
    with_threads = counted(threads, "thread")
    facts = {"threads": threads, "cores": cores, "quota_cores": quota}
    if threads > cores:
        return Finding(
            Standing.PROBLEM,
            f"kernels run with {with_threads} on {counted(cores, 'core')} that this process may use",
            f"set NUMBA_NUM_THREADS={cores}, or give --threads {cores}",
            facts,
        )
    if quota is not None and quota < threads - _SLACK:
        return Finding(
            Standing.PROBLEM,
            f"kernels run with {with_threads}, and the container gives the time of {quota:.2g} cores: "
            "the system stops them in the middle of a timing",
            f"give --threads {max(1, int(quota))}, or raise the container's limit of CPU time",
            facts,
        )
    siblings = _shares_cores(examined)
    facts["shared_cores"] = siblings
    if siblings and threads > cores // 2:
        return Finding(
            Standing.NOTE,
            f"{with_threads} on {cores} logical cores, two of which share a core",
            f"dense kernels are often as fast with --threads {max(1, cores // 2)}, and their times steadier",
            facts,
        )
    return Finding(Standing.GOOD, f"{with_threads} on {counted(cores, 'core')}", facts=facts)


def _quota(examined: Examined) -> float | None:
    """Cores whose time a container has (cgroup v2, then v1); None where there is no limit."""
    both = (examined.text("sys/fs/cgroup/cpu.max") or "").split()
    if not both:
        both = [examined.text(f"sys/fs/cgroup/cpu/cpu.cfs_{name}_us") or "" for name in ("quota", "period")]
    if len(both) != 2 or not all(text.isdigit() for text in both) or int(both[1]) == 0:
        return None
    return int(both[0]) / int(both[1])


def _shares_cores(examined: Examined) -> bool:
    """Whether the first logical core shares its core with another."""
    siblings = examined.text("sys/devices/system/cpu/cpu0/topology/thread_siblings_list") or "0"
    return any(mark in siblings for mark in ",-")
