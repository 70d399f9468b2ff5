//! Load of the machine: CPU utilization, load average, pressure, swap, another run.

use std::collections::BTreeMap;
use std::time::Duration;

use fathom_record::Condition;
use fathom_record::condition::Look;

use crate::clock;
use crate::host::cpuid::Cpuid;
use crate::host::memory::{MEMINFO, bytes};
use crate::stat::{self, ProcStat};
use crate::tree::{FileTree, TreeFact, after, keep};

pub(super) fn read(tree: &FileTree, condition: &mut Condition) {
    keep!(condition.load_average, tree.value("/proc/loadavg", averages));
    keep!(condition.runnable, tree.value("/proc/loadavg", runnable));
    keep!(condition.pressure, pressure(tree));
    if condition.pressure.is_empty() {
        condition.pressure_missing = Some(no_pressure(tree).to_owned());
    }
    keep!(condition.swap_used_bytes, swap_used(tree));
    keep!(condition.another_run, another_run(tree));
}

/// Samples CPU utilization and swapping over `window`.
pub(super) fn look(tree: &FileTree, later: &FileTree, window: Duration, condition: &mut Condition) {
    let (begun_ns, then, swapped) =
        (clock::monotonic_raw_ns(), ProcStat::read(tree), swapped(tree));
    std::thread::sleep(window);
    let (now, swapped_now) = (ProcStat::read(later), self::swapped(later));
    let length_ns = clock::monotonic_raw_ns().saturating_sub(begun_ns) as f64;
    let cpus = now.since(&then);
    keep!(condition.since_boot, now.since_boot().map(|boot| TreeFact::new(boot, stat::PATH)));
    if cpus.is_empty() {
        return;
    }
    let swapped_pages = swapped_now.zip(swapped).and_then(|(new, old)| new.checked_sub(old));
    if swapped_pages.is_some() {
        condition.origin("look.swapped_pages", format!("{VMSTAT}, twice"));
    }
    condition.origin("look", format!("{}, twice within {:.0} ms", stat::PATH, length_ns / 1e6));
    condition.look = Some(Look { length_ns, cpus, swapped_pages });
}

/// Whether the hypervisor reports steal.
pub(super) fn reports_steal(live: bool, condition: &mut Condition) {
    let cpuid = if live { Cpuid::read() } else { None };
    let reported = cpuid.map(|cpuid| TreeFact::new(cpuid.reports_steal(), "cpuid leaf 0x40000001"));
    keep!(condition.steal_is_told, reported);
}

fn averages(text: &str) -> Option<[f64; 3]> {
    let mut fields = text.split_whitespace().map(|field| field.parse::<f64>().ok());
    let mut next = || fields.next()?.filter(|value| value.is_finite() && *value >= 0.0);
    Some([next()?, next()?, next()?])
}

/// Runnable threads of all: `2/345`.
fn runnable(text: &str) -> Option<u64> {
    text.split_whitespace().nth(3)?.split_once('/')?.0.parse().ok()
}

/// `some avg10=` of each pressure file, as a share.
fn pressure(tree: &FileTree) -> Option<TreeFact<BTreeMap<String, f64>>> {
    let one = |kind: &str| {
        let text = tree.text(&format!("/proc/pressure/{kind}"))?;
        let percent = after(&text, "some ")?
            .split_whitespace()
            .find_map(|field| field.strip_prefix("avg10="))?;
        let share = percent.parse::<f64>().ok()? / 100.0;
        (0.0..=1.0).contains(&share).then(|| (kind.to_owned(), share))
    };
    let shares = ["cpu", "memory", "io"].into_iter().filter_map(one).collect();
    TreeFact::unless_empty(shares, "/proc/pressure/*: some avg10")
}

/// Why there is no pressure. With `psi=0`, or without `psi=1` where that is the default of the
/// build, kernels since 5.13 have no files, and earlier ones answer EOPNOTSUPP.
fn no_pressure(tree: &FileTree) -> &'static str {
    let command_line = tree.text("/proc/cmdline").unwrap_or_default();
    if command_line.split_whitespace().any(|word| word == "psi=0") {
        "psi=0 on the kernel command line"
    } else if tree.names("/proc/pressure").is_empty() {
        "no files in /proc/pressure: off, or not in this kernel"
    } else {
        "/proc/pressure cannot be read: off"
    }
}

fn swap_used(tree: &FileTree) -> Option<TreeFact<u64>> {
    let text = tree.text(MEMINFO)?;
    let used = bytes(&text, "SwapTotal")?.checked_sub(bytes(&text, "SwapFree")?)?;
    Some(TreeFact::new(used, format!("{MEMINFO}: SwapTotal, SwapFree")))
}

const VMSTAT: &str = "/proc/vmstat";

/// Pages swapped in and out since boot.
fn swapped(tree: &FileTree) -> Option<u64> {
    let text = tree.text(VMSTAT)?;
    let count = |key: &str| after(&text, key)?.parse::<u64>().ok();
    count("pswpin ")?.checked_add(count("pswpout ")?)
}

/// Whether the abstract socket of a run exists.
fn another_run(tree: &FileTree) -> Option<TreeFact<bool>> {
    let path = "/proc/net/unix";
    let text = tree.text(path)?;
    let mark = format!("@{}", super::RUN_MARK);
    let held = text.lines().any(|line| line.split_whitespace().last() == Some(mark.as_str()));
    Some(TreeFact::new(held, path))
}
