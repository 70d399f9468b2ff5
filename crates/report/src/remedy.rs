//! The words for all remedies, with the commands and options they need: for noisy or missing
//! numbers, and for findings of the doctor.

use fathom_record::diagnosis::Acceptable;
use fathom_record::quantity::time_option;
use fathom_record::{Fix, Reason, Remedy, shell_word};

const QUOTA: &str =
    "raise or remove the quota (cpu.max or cpu.cfs_quota_us), or measure outside the cgroup";
const CORE: &str = "SMT contention or frequency: measure on a quieter or dedicated host, or try \
                    --tune";
const GROUPS: &str = "the mode of a process is set at its start (memory layout, CPU): --thorough \
                      gives the shares";
const SYNCS: &str = "syncs are dropped by the file system, host or device: a power cut loses data";
const SETTLE: &str = "let the machine settle (frequency, temperature, neighbours), and run again";
const SETTLE_OR_LONGER: &str = "let the machine settle (frequency, temperature, neighbours), or \
                                measure longer: --time, or --thorough";
const HUGE_PAGES: &str = "allow huge pages (transparent_hugepage/enabled, PR_SET_THP_DISABLE, the \
                          cgroup's limit), or free contiguous memory";
const ADVISE: &str = "as root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled";
const CLOCK_SOURCE: &str = "select a clock source readable in user space, such as tsc, from \
                            /sys/devices/system/clocksource/clocksource0/available_clocksource";

/// The remedy for a noisy or missing number.
pub fn words(remedy: &Remedy) -> String {
    use Remedy as R;
    let fixed = match remedy {
        R::RaiseCpuQuota => QUOTA,
        R::RaiseDeviceLimit => "raise the limit, or measure outside the cgroup",
        R::QuieterHost => "measure on a quieter or dedicated host",
        R::QuietCpu => "stop other processes, or select a quiet CPU with --cpu N",
        R::StopOthers => "stop other processes, and measure again",
        R::MoveInterrupts => "move interrupts to other CPUs, or select another CPU with --cpu N",
        R::OtherCpu => "find what else runs on this CPU, or select another with --cpu N",
        R::FindAffinityChanges => "find what changes CPU affinities on this machine",
        R::QuietCore => CORE,
        R::AvoidSwap => "free memory, to avoid swapping",
        R::CountGroups => GROUPS,
        R::FollowDrift => "a buffer fills or settles while sampling: --thorough shows more of it",
        R::MeasureLonger => "measure longer: --time, or --thorough",
        R::LetSettle => SETTLE,
        R::LetSettleOrMeasureLonger => SETTLE_OR_LONGER,
        R::RunToEnd => "let the run finish",
        R::MoreBytes => "use more --bytes",
        R::DistrustSyncs => SYNCS,
        R::LeaveSandbox => "run outside the sandbox or container that forbids it",
        R::AllowCall => "run outside the sandbox that forbids it, or on a kernel that supports it",
        R::NewerKernel { version } => {
            return format!("use Linux {version} or later, outside a sandbox that forbids it");
        }
        R::KernelWith { option } => {
            return format!("use a kernel with {option}, outside a sandbox that forbids it");
        }
        R::RaiseLimit { limits } => return format!("raise {}", limits.join(" or ")),
        R::Do { action } => return action.clone(),
        R::Repeat { option: Some(option) } => {
            let options = option.replace(',', ", or more --");
            return format!("measure longer: a larger --{options}");
        }
        R::Repeat { option: None } => "let the machine settle, and run it again",
        R::MeasureFor { seconds } => return format!("use --time {}", time_option(*seconds)),
        R::LowerRate => "lower --rate",
        R::LowerRateOrOwnCpu => "lower --rate, or leave the generator a CPU of its own",
        R::EvictEach => "`fathom serve --cold` evicts after each response",
        R::RemoveSemaphores => "remove old semaphore sets (ipcs -s, ipcrm), or raise kernel.sem",
        R::AllowIcmp => "add a group of this user to net.ipv4.ping_group_range (sysctl)",
        R::SecondCpu => "allow this process a second CPU (taskset, cpuset)",
        R::MoreCores => "allow this process more cores (taskset, cpuset)",
        R::AllowCpu { cpu } => {
            return format!(
                "bring CPU {cpu} online, or allow it to this process (taskset, cpuset)"
            );
        }
        R::MountProc => "mount /proc",
        R::InstallShell => "install a shell",
        R::AllowMemoryPrograms => "allow executing memfds (vm.memfd_noexec, security module)",
        R::FifoFolder => "set TMPDIR to a directory that allows FIFOs",
        R::DiskFolder => "set TMPDIR to a directory on a disk",
        R::FreeTemporarySpace => "free space there, or set TMPDIR to another directory",
        R::ReadableClockSource => CLOCK_SOURCE,
        R::AllowHugePages => HUGE_PAGES,
        R::StartWithHugePages => "start it from a service or shell that does not disable them",
        R::AdviseHugePages => ADVISE,
        R::FreeMemory => "free memory, or raise the cgroup's limit",
        R::AllowOvercommit => "free memory, or allow overcommit (vm.overcommit_memory)",
        R::FreeSpace => "free space, or use another --folder",
        R::OtherFolder => "use another --folder",
        R::ServeFile { bytes } => {
            return format!(
                "there, `fathom load --make 1x{bytes} DIR/{bytes}`, and `fathom serve DIR`"
            );
        }
        R::OtherFolderOrMemory => "use another --folder, or --folder PATH --allow-memory",
    };
    fixed.to_owned()
}

/// The remedy of the most important reason that has one.
pub(crate) fn first<'a>(reasons: impl IntoIterator<Item = &'a Reason>) -> Option<String> {
    reasons.into_iter().find_map(|reason| reason.remedy.as_ref()).map(words)
}

/// The remedy for a finding: a command to type, if there is one, and text.
#[derive(Debug, PartialEq, Eq)]
pub struct Advice {
    /// To be typed, with HOST, NODE, N and PATH as placeholders.
    pub command: Option<String>,
    /// What the command does, or what to do without one.
    pub words: String,
}

const CURRENT: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
const AVAILABLE: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";

/// The remedy for a finding of the doctor.
pub fn advice(fix: &Fix) -> Advice {
    Advice { command: command(fix), words: about(fix) }
}

fn command(fix: &Fix) -> Option<String> {
    use Fix as F;
    let fixed = match fix {
        F::BindMemory { node } => {
            let node = node.map_or_else(|| "NODE".to_owned(), |node| node.to_string());
            return Some(format!("numactl --membind={node} fathom run"));
        }
        F::RaiseProcessLimit { to } => return Some(format!("ulimit -u {to}")),
        F::RaiseCpuQuota { file } => {
            let file = file.as_ref()?;
            let unlimited = if file.ends_with("cpu.max") { "max" } else { "-1" };
            return Some(format!("echo {unlimited} | sudo tee {}", shell_word(file)));
        }
        F::FindClockSource => return Some(format!("cat {AVAILABLE}")),
        F::ChooseTsc => return Some(format!("echo tsc | sudo tee {CURRENT}")),
        F::EnableOffloads { interface, offloads } => {
            let on = offloads.iter().map(|name| format!(" {} on", shell_word(name)));
            let on = on.collect::<String>();
            return Some(format!("sudo ethtool -K {}{on}", shell_word(interface)));
        }
        F::CheckPathMtu { payload_bytes } => {
            return Some(format!("ping -M do -c 3 -s {payload_bytes} HOST"));
        }
        F::UseKernelClock => "FATHOM_CLOCK=monotonic_raw fathom run",
        F::FindTscFailure => "sudo dmesg | grep -iE 'tsc|clocksource'",
        F::TakeSiblingOffline | F::BecomeRootToTune => "sudo fathom run --tune",
        F::ChooseCore => "fathom run --cpu N",
        F::SetGovernor => "sudo cpupower frequency-set -g performance",
        F::RaiseFileLimit => "ulimit -n 4096",
        F::RaiseAddressSpace => "ulimit -v unlimited",
        F::RaiseLockedMemory => "ulimit -l 65536",
        F::StopBusyProcesses => "top -o %CPU",
        F::WaitForOtherRun => "pgrep -af 'fathom.* run'",
        F::FindMemoryUsers => "ps -eo rss,pid,args --sort=-rss | head",
        F::WaitForSwapping => "vmstat 1",
        F::RandomiseLayout => "sudo sysctl kernel.randomize_va_space=2",
        F::MountProc { .. } => "sudo mount -t proc proc /proc",
        F::SetMachineId => "sudo systemd-machine-id-setup",
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
        F::SetLoopbackUp => "sudo ip link set lo up",
        F::WidenPortRange => "sudo sysctl net.ipv4.ip_local_port_range='32768 60999'",
        F::WaitForTimeWait => "ss -tn state time-wait | tail -n +2 | wc -l",
        F::RaiseAcceptQueue => "sudo sysctl net.core.somaxconn=4096",
        F::RaiseSocketBuffers => BUFFERS,
        F::SetLoopbackMtu => "sudo ip link set lo mtu 65536",
        _ => return None,
    };
    Some(fixed.to_owned())
}

const BUFFERS: &str = "sudo sysctl net.ipv4.tcp_rmem='4096 131072 6291456' \
                       net.ipv4.tcp_wmem='4096 16384 4194304'";
const TUNE: &str = "`sudo fathom run --tune` sets it during a run, and restores it";
const PROCESSES: &str =
    "in the measuring shell; the hard limit is in /etc/security/limits.conf (nproc)";
const DEDICATED: &str =
    "measure on a dedicated host, or later; steal is reported, never subtracted";
const LAYOUT: &str = "randomises the layout of every process, until the next boot";
const CONTAINER: &str =
    "then measure again; in a container, raise its CPU limit or measure outside";
const SECOND_CPU: &str = "allow a second CPU (taskset, cpuset.cpus, the container's --cpuset-cpus)";
const JUMPS: &str = "the counter or the kernel's clock jumps: see `dmesg | grep -i clock`";

const DAMON: &str =
    "stops them until the next boot; modules: /sys/module/damon_*/parameters/enabled";
const AUTOGROUP: &str = "if other sessions compete for CPU time; until the next boot";

fn about(fix: &Fix) -> String {
    use Fix as F;
    let fixed = match fix {
        F::UseKernelClock => "measures with the kernel's clock",
        F::UpdateFirmware => "update the firmware, which sets the TSCs; or boot with tsc=unstable",
        F::FindClockSource => "if the kernel lists tsc; else boot a kernel that trusts it",
        F::SeeFinding { id } => return format!("see {id}"),
        F::LookWhenQuiet => "long interruptions: examine again when the machine is quiet",
        F::FindClockJumps => JUMPS,
        F::ChooseTsc => "the kernel lists tsc as usable; until the next boot",
        F::FindTscFailure => "shows why the TSC was marked unstable; only a reboot restores it",
        F::TakeSiblingOffline => "takes the sibling offline during a run, and restores it",
        F::ChooseCore => "measures a core of another kind",
        F::BindMemory { .. } => "binds its memory to that node too",
        F::SetGovernor => TUNE,
        F::RaiseProcessLimit { .. } => PROCESSES,
        F::RaiseFileLimit | F::RaiseAddressSpace => "in the measuring shell",
        F::RaiseLockedMemory => "in the measuring shell, if the hard limit allows it",
        F::StopBusyProcesses => "lists them; stop them, or measure later",
        F::DedicatedHost => DEDICATED,
        F::WaitForOtherRun => "lists it; wait until it ends",
        F::WaitForLoadAverage => "wait a minute and examine again: load averages lag behind",
        F::EnablePressure => "boot with psi=1 on the kernel command line (needs CONFIG_PSI)",
        F::WaitForPressure => "wait until the stalled tasks are done, or stop them",
        F::WaitAfterBoot => "wait one or two minutes",
        F::MeasureLater => "measure in some minutes",
        F::FindMemoryUsers => "lists the processes that hold it",
        F::WaitForSwapping => "shows swapping (si, so); free memory until it ends",
        F::RandomiseLayout => LAYOUT,
        F::RaiseCpuQuota { file: Some(_) } => CONTAINER,
        F::RaiseCpuQuota { file: None } => {
            "raise or remove the quota, or measure outside the cgroup"
        }
        F::RaiseContainerCpu => "raise the container's CPU limit, or measure outside",
        F::RaiseMemoryLimit => {
            "raise the memory limit of the container or unit, or measure outside"
        }
        F::RaisePidsMax => "raise pids.max of the container or unit (TasksMax=)",
        F::MountProc { and_sys: false } => "or give the container its /proc",
        F::MountProc { and_sys: true } => "and sysfs at /sys",
        F::SetMachineId => {
            "or give the container that of its host: -v /etc/machine-id:/etc/machine-id:ro"
        }
        F::MountSys => "or give the container its /sys",
        F::MountProcForCpus => "mount /proc: it lists the CPUs allowed to this process",
        F::SecondCpu => SECOND_CPU,
        F::BecomeRootToTune => "only if the machine may be tuned during a run",
        F::BecomeRootToDropCaches => "only to drop the whole page cache of the machine",
        F::AllowIoUring => "only to measure io_uring",
        F::AllowPerfEvents => "until the next boot",
        F::KeepElsewhere => "stores runs in a writable place",
        F::ReadDamonAsRoot => "lists them",
        F::StopDamon => DAMON,
        F::DisableZswap => "affects pages reclaimed from now on",
        F::StopKsm => "stops it until the next boot",
        F::DisableAutogroup => AUTOGROUP,
        F::ChooseCubic => "affects new connections of this network namespace, until the next boot",
        F::SetLoopbackUp => "in this network namespace; containers may start without it",
        F::WidenPortRange | F::RaiseAcceptQueue | F::RaiseSocketBuffers => {
            "the kernel's default; in this network namespace, until the next boot"
        }
        F::WaitForTimeWait => "counts them; wait until they are gone: each lasts 60 s",
        F::EnableOffloads { .. } => "if the driver supports it; until the next boot",
        F::SetLoopbackMtu => "the kernel's default; until the next boot",
        F::CheckPathMtu { .. } => "shows whether the path to HOST carries packets of this size",
        F::Nothing { why } => return format!("no action: {}", acceptable(*why)),
    };
    fixed.to_owned()
}

fn acceptable(why: Acceptable) -> &'static str {
    match why {
        Acceptable::KernelClock => "the kernel's clock is used instead",
        Acceptable::CheckedByRun => "a run calibrates again, and checks its clock at the end",
        Acceptable::CompareWithSame => "compare only with machines that have the same",
        Acceptable::ExpectedLoad => "the load was said to be expected",
        Acceptable::OnPurpose => "set on purpose",
        Acceptable::SeenBySpin => "frequency changes are detected by the reference loop",
        Acceptable::SizeOfMachine => "the size of the machine",
        Acceptable::NewMemory => "a worker's memory is freshly allocated and not swapped",
        Acceptable::PagesOnRequest => "probes request the page size they need, and check it",
        Acceptable::Setting => "a setting of the machine",
        Acceptable::Forbidden => "forbidden by a seccomp filter or the kernel's configuration",
        Acceptable::NoHardware => "not provided by the processor or the hypervisor",
        Acceptable::KernelBuild => "needs a kernel built with it",
        Acceptable::SeveralCpus => "raise the quota only to measure on several CPUs at once",
        Acceptable::OneCpu => "the machine has one CPU",
        Acceptable::NoPageMoved => "no page of a measured process is moved",
        Acceptable::Nature => "a property of the machine; compare it only with similar ones",
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
    fn first_remedy_belongs_to_the_main_reason() {
        let reason = |remedy: Option<Remedy>| Reason::new(Cause::Steal, "").with_remedy(remedy);
        let reasons = [None, Some(Remedy::MountProc), Some(Remedy::InstallShell)].map(reason);
        assert_eq!(first(&reasons).as_deref(), Some("mount /proc"));
        assert_eq!(first(&reasons[..1]), None);
    }
}
