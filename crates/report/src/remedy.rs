//! The one place where remedies are worded, with the commands and options that they take: what to
//! do about a number, and what mends a finding of the doctor.

use fathom_record::diagnosis::Acceptable;
use fathom_record::{Fix, Reason, Remedy};

const QUOTA: &str =
    "raise or remove the quota (cpu.max or cpu.cfs_quota_us), or measure outside the group";
const CORE: &str = "a neighbour on the other thread of the core, or a changing frequency: measure \
                    on a quieter or dedicated host, or see what --tune can set";
const GROUPS: &str = "which group a process joins is decided when it starts (memory layout, CPU): \
                      --thorough shows the shares";
const SYNCS: &str = "the file system, the host or the device drops syncs: a loss of power would \
                     lose what is called written";
const HUGE_PAGES: &str = "allow huge pages (transparent_hugepage/enabled, PR_SET_THP_DISABLE, the \
                          cgroup's limit), or free memory in larger pieces";
const ADVISE: &str = "as root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled";
const CLOCK_SOURCE: &str = "choose a clock source that programs can read, such as tsc, from \
                            /sys/devices/system/clocksource/clocksource0/available_clocksource";

/// What to do next about a number.
pub fn words(remedy: &Remedy) -> String {
    use Remedy as R;
    let fixed = match remedy {
        R::RaiseCpuQuota => QUOTA,
        R::RaiseDeviceLimit => "raise the limit or measure outside the group to see the device",
        R::QuieterHost => "measure on a quieter or dedicated host",
        R::QuietCpu => "stop other processes, or choose a quiet CPU with --cpu N",
        R::StopOthers => "stop other processes, and measure again",
        R::MoveInterrupts => "move interrupts to other CPUs, or choose another with --cpu N",
        R::OtherCpu => "see what else runs on this CPU, or choose another with --cpu N",
        R::FindAffinityChanges => "see what changes affinities on this machine",
        R::QuietCore => CORE,
        R::AvoidSwap => "free memory, so that nothing is swapped",
        R::CountGroups => GROUPS,
        R::FollowDrift => "something fills or settles while it is measured: --thorough shows more",
        R::MeasureLonger => "measure it longer: --thorough",
        R::LetSettle => "let it settle (frequency, temperature, neighbours), and run again",
        R::LetSettleOrMeasureLonger => {
            "let it settle (frequency, temperature, neighbours), or measure longer: --thorough"
        }
        R::RunToEnd => "run it again to the end",
        R::MoreBytes => "give more --bytes",
        R::DistrustSyncs => SYNCS,
        R::LeaveSandbox => "run outside the sandbox or container that forbids it",
        R::AllowCall => "run outside the sandbox that forbids it, or with a kernel that has it",
        R::NewerKernel { version } => {
            return format!("use Linux {version} or later, outside a sandbox that forbids it");
        }
        R::KernelWith { option } => {
            return format!("use a kernel with {option}, outside a sandbox that forbids it");
        }
        R::RaiseLimit { limits } => return format!("raise {}", limits.join(" or ")),
        R::RemoveSemaphores => "remove old sets (ipcs -s, ipcrm) or raise kernel.sem",
        R::SecondCpu => "allow this process a second CPU (taskset, cpuset)",
        R::MoreCores => "allow this process more cores (taskset, cpuset)",
        R::AllowCpu { cpu } => return format!("allow this process CPU {cpu} (taskset, cpuset)"),
        R::MountProc => "mount /proc",
        R::InstallShell => "install a shell",
        R::AllowMemoryPrograms => {
            "allow programs in memory (vm.memfd_noexec, or the security module)"
        }
        R::FifoFolder => "set TMPDIR to a folder in which a FIFO may be made",
        R::DiskFolder => "set TMPDIR to a folder on a disk",
        R::FreeTemporarySpace => "free space there, or name another folder by TMPDIR",
        R::ReadableClockSource => CLOCK_SOURCE,
        R::AllowHugePages => HUGE_PAGES,
        R::StartWithHugePages => "start it by a service or shell that does not forbid them",
        R::AdviseHugePages => ADVISE,
        R::FreeMemory => "free memory, or raise the cgroup's limit",
        R::AllowOvercommit => "free memory, or allow overcommitment (vm.overcommit_memory)",
        R::FreeSpace => "free space, or name another --folder",
        R::OtherFolder => "name another --folder",
        R::OtherFolderOrMemory => "name another --folder, or allow memory (--allow-memory)",
    };
    fixed.to_owned()
}

/// The next thing to do, by the weightiest reason that has one.
pub(crate) fn first<'a>(reasons: impl IntoIterator<Item = &'a Reason>) -> Option<String> {
    reasons.into_iter().find_map(|reason| reason.remedy.as_ref()).map(words)
}

/// What mends a finding: a command to type, where there is one, and what to know of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Advice {
    /// To be copied.
    pub(crate) command: Option<String>,
    /// What it does, or what to do where no command does it.
    pub(crate) words: String,
}

const CURRENT: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
const AVAILABLE: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";

/// What mends a finding of the doctor.
pub(crate) fn advice(fix: &Fix) -> Advice {
    Advice { command: command(fix), words: about(fix) }
}

fn command(fix: &Fix) -> Option<String> {
    use Fix as F;
    Some(match fix {
        F::BindMemory { node } => {
            let node = node.map_or_else(|| "NODE".to_owned(), |node| node.to_string());
            format!("numactl --membind={node} fathom run")
        }
        F::RaiseProcessLimit { to } => format!("ulimit -u {to}"),
        F::RaiseCpuQuota { file } => {
            let file = file.as_ref()?;
            let none = if file.ends_with("cpu.max") { "max" } else { "-1" };
            format!("echo {none} | sudo tee {file}")
        }
        F::FindClockSource => format!("cat {AVAILABLE}"),
        F::ChooseTsc => format!("echo tsc | sudo tee {CURRENT}"),
        other => fixed_command(other)?.to_owned(),
    })
}

fn fixed_command(fix: &Fix) -> Option<&'static str> {
    use Fix as F;
    Some(match fix {
        F::UseKernelClock => "FATHOM_CLOCK=monotonic_raw fathom run",
        F::FindTscFailure => "sudo dmesg | grep -iE 'tsc|clocksource'",
        F::TakeSiblingOffline | F::BecomeRootToTune => "sudo fathom run --tune",
        F::ChooseCore => "fathom run --cpu N",
        F::SetGovernor => "sudo cpupower frequency-set -g performance",
        F::RaiseFileLimit => "ulimit -n 4096",
        F::RaiseAddressSpace => "ulimit -v unlimited",
        F::RaiseLockedMemory => "ulimit -l 65536",
        F::StopBusyProcesses => "top -o %CPU",
        F::WaitForOtherRun => "pgrep -af 'fathom run'",
        F::FindMemoryUsers => "ps -eo rss,pid,args --sort=-rss | head",
        F::WaitForSwapping => "vmstat 1",
        F::RandomiseLayout => "sudo sysctl kernel.randomize_va_space=2",
        F::MountProc { .. } => "sudo mount -t proc proc /proc",
        F::MountSys => "sudo mount -t sysfs sysfs /sys",
        F::BecomeRootToDropCaches => "sudo fathom run",
        F::AllowIoUring => "sudo sysctl kernel.io_uring_disabled=0",
        F::AllowPerfEvents => "sudo sysctl kernel.perf_event_paranoid=1",
        F::KeepElsewhere => "fathom run --store PATH",
        F::ReadDamonAsRoot => "sudo fathom doctor",
        F::StopDamon => "echo off | sudo tee /sys/kernel/mm/damon/admin/kdamonds/*/state",
        F::DisableZswap => "echo N | sudo tee /sys/module/zswap/parameters/enabled",
        F::StopKsm => "echo 0 | sudo tee /sys/kernel/mm/ksm/run",
        F::DisableAutogroup => "sudo sysctl kernel.sched_autogroup_enabled=0",
        F::ChooseCubic => "sudo sysctl net.ipv4.tcp_congestion_control=cubic",
        _ => return None,
    })
}

const TUNE: &str = "`sudo fathom run --tune` sets it for the length of a run, and puts it back";
const PROCESSES: &str =
    "in the shell that measures; the hard limit is in /etc/security/limits.conf (nproc)";
const DEDICATED: &str =
    "measure on a dedicated host, or at another time; steal is reported, never corrected for";
const LAYOUT: &str = "so that every process draws its layout anew; it lasts until the next boot";
const CONTAINER: &str = "then measure again; in a container: raise its CPU limit, or measure \
                         outside it";
const SECOND_CPU: &str = "allow a second CPU (taskset, cpuset.cpus, the container's --cpuset-cpus)";
const JUMPS: &str = "the counter or the kernel's clock jumps: look into `dmesg | grep -i clock`";

const DAMON: &str =
    "stops them until the next boot; modules: /sys/module/damon_*/parameters/enabled";
const AUTOGROUP: &str = "where other sessions compete for CPU time; it lasts until the next boot";

fn about(fix: &Fix) -> String {
    use Fix as F;
    let fixed = match fix {
        F::UseKernelClock => "measures by the kernel's clock",
        F::UpdateFirmware => {
            "update the firmware, which sets the counters; or boot with tsc=unstable"
        }
        F::FindClockSource => {
            "if the kernel lists tsc there; else boot with a kernel that trusts it"
        }
        F::SeeFinding { id } => return format!("see the finding {id}"),
        F::LookWhenQuiet => "the machine was interrupted for long: look again when it is quiet",
        F::FindClockJumps => JUMPS,
        F::ChooseTsc => "the kernel still lists tsc as usable; it lasts until the next boot",
        F::FindTscFailure => "says why the kernel gave the TSC up; only a boot brings it back",
        F::TakeSiblingOffline => "takes the sibling offline for a run, and brings it back",
        F::ChooseCore => "measures a core of another kind",
        F::BindMemory { .. } => "keeps its memory on that node too",
        F::SetGovernor => TUNE,
        F::RaiseProcessLimit { .. } => PROCESSES,
        F::RaiseFileLimit | F::RaiseAddressSpace => "in the shell that measures",
        F::RaiseLockedMemory => "in the shell that measures, where the hard limit allows it",
        F::StopBusyProcesses => "shows who; stop them, or measure when they are done",
        F::DedicatedHost => DEDICATED,
        F::WaitForOtherRun => "shows it; wait for its end",
        F::WaitForLoadAverage => "wait a minute and look again: an average lags behind",
        F::WaitForPressure => "wait until what waits is done, or stop it; then look again",
        F::WaitAfterBoot => "wait a minute or two",
        F::MeasureLater => "a run in some minutes may be quieter",
        F::FindMemoryUsers => "shows who holds it",
        F::WaitForSwapping => "shows when it ends (si, so); free memory until it does",
        F::RandomiseLayout => LAYOUT,
        F::RaiseCpuQuota { file: Some(_) } => CONTAINER,
        F::RaiseCpuQuota { file: None } => {
            "raise or remove the quota, or measure outside the group"
        }
        F::RaiseContainerCpu => "raise the container's CPU limit, or measure outside it",
        F::RaiseMemoryLimit => {
            "raise the memory limit of the container or unit, or measure outside it"
        }
        F::RaisePidsMax => "raise pids.max of the container or unit (TasksMax=)",
        F::MountProc { and_sys: false } => "or give the container its /proc",
        F::MountProc { and_sys: true } => "and sysfs at /sys",
        F::MountSys => "or give the container its /sys",
        F::MountProcForCpus => "mount /proc: it lists the CPUs that this process may use",
        F::SecondCpu => SECOND_CPU,
        F::BecomeRootToTune => "only where the machine may be set for a run",
        F::BecomeRootToDropCaches => "only to drop every page cache of the machine",
        F::AllowIoUring => "only where io_uring is to be measured",
        F::AllowPerfEvents => "lasts until the next boot",
        F::KeepElsewhere => "keeps the run at a place that can be written",
        F::ReadDamonAsRoot => "names them",
        F::StopDamon => DAMON,
        F::DisableZswap => "turns it off for pages that are reclaimed from now on",
        F::StopKsm => "stops it until the next boot",
        F::DisableAutogroup => AUTOGROUP,
        F::ChooseCubic => "for new connections of this network namespace, until the next boot",
        F::Nothing { why } => return format!("nothing to do here: {}", acceptable(*why)),
    };
    fixed.to_owned()
}

fn acceptable(why: Acceptable) -> &'static str {
    match why {
        Acceptable::KernelClock => "the kernel's clock replaces it",
        Acceptable::CheckedByRun => "a run calibrates again, and checks over its whole length",
        Acceptable::CompareWithSame => "compare only with machines that have the same",
        Acceptable::OnPurpose => "somebody set it on purpose",
        Acceptable::SeenBySpin => {
            "it is how the machine is used; the reference spin shows it drift"
        }
        Acceptable::SizeOfMachine => "it is the size of the machine",
        Acceptable::NewMemory => "a worker's memory is new, and none of it is swapped",
        Acceptable::PagesOnRequest => "probes ask for the page size they need, and check it",
        Acceptable::Setting => "it is how the machine is set",
        Acceptable::Forbidden => "a filter or the kernel's build forbids it",
        Acceptable::NoHardware => "the processor, or the hypervisor, does not give them",
        Acceptable::KernelBuild => "another build of the kernel would be needed",
        Acceptable::SeveralCpus => "raise the quota only to measure on several CPUs at once",
        Acceptable::OneCpu => "a second CPU would have to be added to the machine",
        Acceptable::NoPageMoved => "they move no page of a measured process",
        Acceptable::Nature => "it is what the machine is; compare it with its like",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_record::Cause;

    #[test]
    fn quota_command_depends_on_cgroup_version() {
        let command = |file: &str| advice(&Fix::RaiseCpuQuota { file: Some(file.into()) }).command;
        let v2 = "echo max | sudo tee /a/cpu.max".to_owned();
        assert_eq!(command("/a/cpu.max"), Some(v2));
        let v1 = "echo -1 | sudo tee /c/cpu.cfs_quota_us".to_owned();
        assert_eq!(command("/c/cpu.cfs_quota_us"), Some(v1));
        let unknown = advice(&Fix::RaiseCpuQuota { file: None });
        assert_eq!(unknown.command, None);
        assert!(unknown.words.starts_with("raise or remove the quota"), "{unknown:?}");
    }

    #[test]
    fn first_remedy_is_of_the_weightiest_reason_that_has_one() {
        let reason = |remedy: Option<Remedy>| Reason::new(Cause::Steal, "").with_remedy(remedy);
        let reasons = [None, Some(Remedy::MountProc), Some(Remedy::InstallShell)].map(reason);
        assert_eq!(first(&reasons).as_deref(), Some("mount /proc"));
        assert_eq!(first(&reasons[..1]), None);
    }

    #[test]
    fn limits_are_listed_in_words() {
        let limits = Remedy::raise(&["`ulimit -v`", "vm.max_map_count"]);
        assert_eq!(words(&limits), "raise `ulimit -v` or vm.max_map_count");
    }
}
