//! The list of settings that may be tried: none outside it is ever written.

/// A setting that can be changed and restored while the machine runs.
#[derive(Debug, PartialEq, Eq)]
pub struct Knob {
    pub name: &'static str,
    /// What is set together: the first values of all, or the second ones, …
    pub settings: &'static [KnobSetting],
    pub shown_by: ShownBy,
    /// The rule of the doctor whose remedy it is.
    pub rule: Option<&'static str>,
    /// Another knob on which its effect depends.
    pub interacts: Option<&'static str>,
}

#[derive(Debug, PartialEq, Eq)]
pub struct KnobSetting {
    /// A pattern of files below the root, or [`ATIME`].
    pub path: &'static str,
    /// The best-known one first. [`ALL_CPUS`] and [`LAST_CPU`] stand for those of this machine.
    pub values: &'static [&'static str],
}

/// What shows the effect of a knob where nothing else is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShownBy {
    Metrics(&'static [&'static str]),
    Command(&'static str),
    /// Nothing that every machine has, such as a service.
    Named,
}

/// The times of access of the mount that has the temporary files.
pub const ATIME: &str = "mount:atime";
/// A mask of all CPUs.
pub const ALL_CPUS: &str = "{all}";
/// The number of the last CPU.
pub const LAST_CPU: &str = "{last}";

/// What the kernel sets anew when a file is written: patterns below the same folder. In this order
/// they are noted; they are restored from the last one on, since some depend on later ones.
pub(crate) const RESETS: [(&str, &str); 5] = [
    ("scheduler", "iosched/*"),
    ("scheduler", "nr_requests"),
    ("scheduler", "wbt_lat_usec"),
    ("dirty_ratio", "dirty_bytes"),
    ("dirty_background_ratio", "dirty_background_bytes"),
];

const OFF: &[&str] = &["0", "1"];
/// A buffer that is used once: page faults.
const FAULTS: ShownBy = ShownBy::Command("dd if=/dev/zero of=/dev/null bs=64M count=1");
/// In this direction there is no case of a named congestion control, which the setting leaves
/// alone.
const BANDWIDTH: &str = "network.tcp.bandwidth{chunk_bytes=65536,cpus=2,direction=receive,\
                         streams=1,to=loopback}";
const ROUND_TRIP: &str = "network.tcp.rtt{bytes=1,cpus=2,mode=block,to=loopback}";
const COLD_READ: &str = "file.read.latency{file_bytes=67108864,order=sequential,state=cold}";
const RANDOM_READ: &str = "file.read.latency{file_bytes=67108864,order=random,state=cold}";
const WARM_READ: &str = "file.read.latency{file_bytes=67108864,order=sequential,state=warm}";
const DISK: ShownBy = ShownBy::Metrics(&[COLD_READ, RANDOM_READ, "file.fsync{bytes=4096}"]);
const CORE: ShownBy = ShownBy::Metrics(&["cpu.loop.iteration{form=register}", WAKING]);
const WAKING: &str = "os.wake.cross_cpu{via=futex}";

const fn knob(
    name: &'static str,
    settings: &'static [KnobSetting],
    shown_by: ShownBy,
    rule: Option<&'static str>,
) -> Knob {
    Knob { name, settings, shown_by, rule, interacts: None }
}

const fn with(knob: Knob, interacts: &'static str) -> Knob {
    Knob { interacts: Some(interacts), ..knob }
}

macro_rules! settings {
    ($($path:literal = $values:expr),+) => { &[$(KnobSetting { path: $path, values: $values }),+] };
}

pub const KNOBS: &[Knob] = &[
    knob(
        "congestion",
        settings!("proc/sys/net/ipv4/tcp_congestion_control" = &["cubic", "bbr", "reno"]),
        ShownBy::Metrics(&[BANDWIDTH, ROUND_TRIP]),
        Some("tcp-congestion"),
    ),
    knob(
        "damon",
        settings!("sys/kernel/mm/damon/admin/kdamonds/*/state" = &["off", "on"]),
        ShownBy::Metrics(&[WARM_READ, "memory.fault{kind=anonymous}"]),
        Some("damon"),
    ),
    with(
        knob(
            "thp",
            settings!(
                "sys/kernel/mm/transparent_hugepage/enabled" = &["always", "madvise", "never"]
            ),
            FAULTS,
            None,
        ),
        "thp-defrag",
    ),
    knob(
        "thp-defrag",
        settings!(
            "sys/kernel/mm/transparent_hugepage/defrag" =
                &["defer+madvise", "always", "defer", "madvise", "never"]
        ),
        FAULTS,
        None,
    ),
    with(
        knob(
            "scheduler",
            settings!("sys/block/*/queue/scheduler" = &["none", "mq-deadline", "kyber", "bfq"]),
            DISK,
            None,
        ),
        "read-ahead",
    ),
    knob(
        "read-ahead",
        settings!("sys/block/*/queue/read_ahead_kb" = &["128", "4096", "512", "8192", "0"]),
        DISK,
        None,
    ),
    knob(
        "governor",
        settings!(
            "sys/devices/system/cpu/cpu*/cpufreq/scaling_governor" =
                &["performance", "schedutil", "powersave", "ondemand"]
        ),
        CORE,
        Some("cpu-governor"),
    ),
    knob(
        "epp",
        settings!(
            "sys/devices/system/cpu/cpu*/cpufreq/energy_performance_preference" =
                &["performance", "balance_performance", "balance_power", "power"]
        ),
        CORE,
        None,
    ),
    knob("smt", settings!("sys/devices/system/cpu/smt/control" = &["off", "on"]), CORE, None),
    knob(
        "autogroup",
        settings!("proc/sys/kernel/sched_autogroup_enabled" = OFF),
        ShownBy::Metrics(&["os.switch.process{set_bytes=0}", WAKING]),
        Some("autogroup"),
    ),
    knob(
        "numa-balancing",
        settings!("proc/sys/kernel/numa_balancing" = OFF),
        ShownBy::Metrics(&["memory.latency.dram"]),
        None,
    ),
    knob(
        "rps",
        settings!("sys/class/net/*/queues/rx-*/rps_cpus" = &[ALL_CPUS, "0"]),
        ShownBy::Metrics(&[ROUND_TRIP, BANDWIDTH]),
        None,
    ),
    knob(
        "xps",
        settings!("sys/class/net/*/queues/tx-*/xps_cpus" = &[ALL_CPUS, "0"]),
        ShownBy::Named,
        None,
    ),
    knob(
        "busy-poll",
        settings!(
            "proc/sys/net/core/busy_poll" = &["50", "0"],
            "proc/sys/net/core/busy_read" = &["50", "0"]
        ),
        ShownBy::Metrics(&[ROUND_TRIP]),
        None,
    ),
    knob(
        "irq-affinity",
        settings!("proc/irq/*/smp_affinity_list" = &[LAST_CPU]),
        ShownBy::Metrics(&["file.fsync{bytes=4096}", WAKING]),
        None,
    ),
    knob(
        "atime",
        settings!("mount:atime" = &["noatime", "relatime", "strictatime"]),
        ShownBy::Metrics(&["file.path{call=open_close}"]),
        None,
    ),
    knob(
        "tcp-buffers",
        settings!(
            "proc/sys/net/ipv4/tcp_rmem" = &["4096 131072 6291456", "4096 131072 33554432"],
            "proc/sys/net/ipv4/tcp_wmem" = &["4096 16384 4194304", "4096 16384 33554432"]
        ),
        ShownBy::Metrics(&[BANDWIDTH]),
        Some("socket-buffers"),
    ),
    knob(
        "dirty",
        settings!(
            "proc/sys/vm/dirty_background_ratio" = &["10", "20", "1"],
            "proc/sys/vm/dirty_ratio" = &["40", "60", "2"]
        ),
        ShownBy::Named,
        None,
    ),
    knob("swappiness", settings!("proc/sys/vm/swappiness" = &["10", "100"]), ShownBy::Named, None),
    knob(
        "zswap",
        settings!("sys/module/zswap/parameters/enabled" = &["N", "Y"]),
        ShownBy::Named,
        Some("zswap"),
    ),
    knob(
        "somaxconn",
        settings!("proc/sys/net/core/somaxconn" = &["4096", "128"]),
        ShownBy::Named,
        Some("accept-queue"),
    ),
    knob(
        "timer-slack",
        settings!("proc/self/timerslack_ns" = &["1", "50000"]),
        ShownBy::Named,
        None,
    ),
];

pub fn find(name: &str) -> Option<&'static Knob> {
    KNOBS.iter().find(|knob| knob.name == name)
}

/// The knob that is the remedy for a finding of the doctor.
pub fn for_rule(rule: &str) -> Option<&'static Knob> {
    KNOBS.iter().find(|knob| knob.rule == Some(rule))
}

pub fn names() -> Vec<&'static str> {
    KNOBS.iter().map(|knob| knob.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_a_knob_belong_together() {
        for (at, knob) in KNOBS.iter().enumerate() {
            assert!(KNOBS[..at].iter().all(|other| other.name != knob.name), "{}", knob.name);
            let levels: Vec<usize> = knob.settings.iter().map(|one| one.values.len()).collect();
            assert!(levels.iter().all(|count| *count == levels[0] && *count > 0), "{}", knob.name);
            assert!(knob.interacts.is_none_or(|name| find(name).is_some()), "{}", knob.name);
            // What lasts beyond a boot is in other folders.
            for setting in knob.settings {
                let is_kernel = ["proc/", "sys/"].iter().any(|it| setting.path.starts_with(it));
                assert!(is_kernel || setting.path == ATIME, "{}", setting.path);
            }
        }
    }

    #[test]
    fn rules_with_a_knob_exist() {
        let rules: Vec<&str> = fathom_analysis::diagnosis::rules().map(|rule| rule.id).collect();
        for rule in KNOBS.iter().filter_map(|knob| knob.rule) {
            assert!(rules.contains(&rule), "{rule}");
        }
    }
}
