//! Recorded differences that can move a class of cases, each with what toggles it. They coincide
//! with a difference in speed; that they caused it is for a test to show.

use std::collections::BTreeMap;

use fathom_record::Document;
use serde::Serialize;

use crate::differences::Difference;

/// A recorded difference that can move a class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Suspect {
    pub what: String,
    pub a: String,
    pub b: String,
    /// How to set it as it was in A; absent for what cannot be set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub toggle: Option<Toggle>,
}

/// What toggles a fact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Toggle {
    /// A file to write.
    File { path: &'static str, value: String },
    /// A kernel parameter.
    Sysctl { name: &'static str, value: String },
    /// Another kernel to boot.
    Kernel { release: String },
    /// Parameters of the kernel to boot with.
    Parameters { line: String },
    /// An environment variable of Fathom's test settings.
    Variables { set: String },
    /// The same version of Fathom.
    Version { name: String },
    /// The same folder of test files.
    Folder { path: String },
    /// The same CPU.
    Cpu { cpu: String },
}

/// How a fact is set.
#[derive(Clone, Copy)]
enum By {
    Nothing,
    File(&'static str),
    /// The same, of a fact that is on or off.
    Switch(&'static str),
    Sysctl(&'static str),
    SysctlSwitch(&'static str),
    Kernel,
    Parameters,
    Variables,
    Version,
    Folder,
    Cpu,
}

const ALL: &[&str] = &[];
const MEMORY: &[&str] = &["cache and memory", "memory of two CPUs", "page faults", "processes"];
const PAGES: &[&str] = &["page faults", "processes"];
const KERNEL: &[&str] = &[
    "kernel entry",
    "page faults",
    "processes",
    "two CPUs",
    "device",
    "file system",
    "network stack",
];
const LIBRARY: &[&str] = &["kernel entry", "processes"];
const FILES: &[&str] = &["device", "file system"];
const NETWORK: &[&str] = &["network stack", "two CPUs"];
const CORE: &[&str] = &["core speed"];

/// Facts with the classes that they can move.
#[rustfmt::skip]
const FACTS: [(&str, &[&str], By); 44] = [
    ("host", ALL, By::Nothing),
    ("CPU", ALL, By::Nothing),
    ("microcode", ALL, By::Nothing),
    ("logical CPUs", ALL, By::Nothing),
    ("SMT", ALL, By::Switch("/sys/devices/system/cpu/smt/control")),
    ("boost", ALL, By::Switch("/sys/devices/system/cpu/cpufreq/boost")),
    ("governor", ALL, By::File("/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor")),
    ("frequency driver", ALL, By::Nothing),
    ("virtualisation", ALL, By::Nothing),
    ("container", ALL, By::Nothing),
    ("test setting", ALL, By::Variables),
    ("tool", ALL, By::Version),
    ("CPU quota", ALL, By::Nothing),
    ("CPU measured on", ALL, By::Cpu),
    ("tuned", ALL, By::Nothing),
    ("kernel", KERNEL, By::Kernel),
    ("kernel command line", ALL, By::Parameters),
    ("C library", LIBRARY, By::Nothing),
    ("kernel clock source", CORE,
        By::File("/sys/devices/system/clocksource/clocksource0/current_clocksource")),
    ("transparent huge pages", MEMORY, By::File("/sys/kernel/mm/transparent_hugepage/enabled")),
    ("address randomisation", PAGES, By::Sysctl("kernel.randomize_va_space")),
    ("memory limit", MEMORY, By::Nothing),
    ("swap", MEMORY, By::Nothing),
    ("swappiness", MEMORY, By::Sysctl("vm.swappiness")),
    ("zswap", MEMORY, By::Switch("/sys/module/zswap/parameters/enabled")),
    ("KSM", MEMORY, By::Switch("/sys/kernel/mm/ksm/run")),
    ("DAMON", MEMORY, By::Nothing),
    ("autogroup", KERNEL, By::SysctlSwitch("kernel.sched_autogroup_enabled")),
    ("disks", FILES, By::Nothing),
    ("I/O scheduler", FILES, By::Nothing),
    ("dirty limits", FILES, By::Nothing),
    ("data disk", FILES, By::Nothing),
    ("scheduler of the data disk", FILES, By::Nothing),
    ("read-ahead of the data disk", FILES, By::Nothing),
    ("folder of test files", FILES, By::Folder),
    ("TCP congestion control", NETWORK, By::Sysctl("net.ipv4.tcp_congestion_control")),
    ("queueing discipline", NETWORK, By::Sysctl("net.core.default_qdisc")),
    ("TCP receive buffer", NETWORK, By::Nothing),
    ("TCP send buffer", NETWORK, By::Nothing),
    ("slow start after idle", NETWORK, By::SysctlSwitch("net.ipv4.tcp_slow_start_after_idle")),
    ("accept queue limit", NETWORK, By::Sysctl("net.core.somaxconn")),
    ("MTU", NETWORK, By::Nothing),
    ("transmit queue", NETWORK, By::Nothing),
    ("offloads", NETWORK, By::Nothing),
];

/// The differences that can move a class.
pub(crate) fn suspects(
    class: &str,
    differences: &[Difference],
    [a, b]: [&Document; 2],
) -> Vec<Suspect> {
    let is_mitigation =
        |what: &String| [a, b].iter().any(|run| run.host.mitigations.contains_key(what));
    let of_fact = |it: &Difference| {
        let (_, classes, by) = FACTS.iter().find(|(what, ..)| *what == it.what)?;
        let can = classes.is_empty() || classes.contains(&class);
        can.then(|| Suspect {
            what: it.what.clone(),
            a: it.a.clone(),
            b: it.b.clone(),
            toggle: toggle(*by, &it.a).filter(|_| it.a != "unknown"),
        })
    };
    let mut found: Vec<Suspect> = differences.iter().filter_map(of_fact).collect();
    // Their names are many, and one parameter sets all of them.
    let mitigations: BTreeMap<&str, &Difference> = differences
        .iter()
        .filter(|it| is_mitigation(&it.what))
        .map(|it| (it.what.as_str(), it))
        .collect();
    let slows = KERNEL.contains(&class);
    if let Some((_, first)) = mitigations.first_key_value().filter(|_| slows) {
        let names: Vec<&str> = mitigations.keys().copied().collect();
        let state = if first.a.contains("Vulnerable") { "off" } else { "auto" };
        found.push(Suspect {
            what: format!("mitigation of {}", names.join(", ")),
            a: first.a.clone(),
            b: first.b.clone(),
            toggle: Some(Toggle::Parameters { line: format!("mitigations={state}") }),
        });
    }
    found
}

/// What sets a fact to this value.
fn toggle(by: By, value: &str) -> Option<Toggle> {
    let (is_on, value) = (value == "on", value.to_owned());
    let switched = || if is_on { "1" } else { "0" }.to_owned();
    Some(match by {
        By::Nothing => return None,
        By::File(path) => Toggle::File { path, value },
        By::Switch(path) if path.ends_with("smt/control") => Toggle::File { path, value },
        By::Switch(path) => Toggle::File { path, value: switched() },
        By::Sysctl(name) => Toggle::Sysctl { name, value },
        By::SysctlSwitch(name) => Toggle::Sysctl { name, value: switched() },
        By::Kernel => Toggle::Kernel { release: value },
        By::Parameters => Toggle::Parameters { line: value },
        By::Variables => Toggle::Variables { set: value },
        By::Version => Toggle::Version { name: value },
        By::Cpu => Toggle::Cpu { cpu: value },
        // Without the file system behind it.
        By::Folder => Toggle::Folder { path: value.rsplit_once(" (")?.0.to_owned() },
    })
}
