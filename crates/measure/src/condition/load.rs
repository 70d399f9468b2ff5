//! Who else uses the machine: a look at the CPUs, load, pressure, swap, another run.

use std::collections::BTreeMap;
use std::time::Duration;

use fathom_record::Condition;
use fathom_record::condition::Look;

use super::keep;
use super::stat::{self, Stat};
use crate::clock;
use crate::host::cpuid::Cpuid;
use crate::host::tree::{Fact, Tree};

pub(super) fn read(tree: &Tree, condition: &mut Condition) {
    let load = tree.fact("/proc/loadavg");
    let average = load.clone().and_then(|fact| fact.and_then(|text| averages(&text)));
    condition.load_average = keep(condition, "load_average", average);
    let runnable = load.and_then(|fact| fact.and_then(|text| runnable(&text)));
    condition.runnable = keep(condition, "runnable", runnable);
    condition.pressure = keep(condition, "pressure", pressure(tree)).unwrap_or_default();
    condition.swap_used_bytes = keep(condition, "swap_used_bytes", swap_used(tree));
    condition.another_run = keep(condition, "another_run", another_run(tree));
}

/// Reads the CPUs twice.
pub(super) fn look(tree: &Tree, later: &Tree, window: Duration, condition: &mut Condition) {
    let (begun_ns, before, swapped) = (clock::monotonic_raw_ns(), Stat::read(tree), swapped(tree));
    std::thread::sleep(window);
    let (after, swapped_after) = (Stat::read(later), self::swapped(later));
    let length_ns = clock::monotonic_raw_ns().saturating_sub(begun_ns) as f64;
    let cpus = after.since(&before);
    condition.since_boot =
        keep(condition, "since_boot", after.since_boot().map(|boot| Fact::new(boot, stat::PATH)));
    if cpus.is_empty() {
        return;
    }
    let swapped_pages = swapped_after.zip(swapped).and_then(|(now, then)| now.checked_sub(then));
    if swapped_pages.is_some() {
        condition.origin("look.swapped_pages", format!("{VMSTAT}, twice"));
    }
    condition.origin("look", format!("{}, twice within {:.0} ms", stat::PATH, length_ns / 1e6));
    condition.look = Some(Look { length_ns, cpus, swapped_pages });
}

/// Whether the hypervisor's word on stolen time counts: only the processor itself says so.
pub(super) fn steal_is_told(live: bool, condition: &mut Condition) {
    let told = if live { Cpuid::ask().map(|cpuid| cpuid.steal_is_told()) } else { None };
    let told = told.map(|told| Fact::new(told, "cpuid leaf 0x40000001"));
    condition.steal_is_told = keep(condition, "steal_is_told", told);
}

fn averages(text: &str) -> Option<[f64; 3]> {
    let mut fields = text.split_whitespace().map(|field| field.parse::<f64>().ok());
    let mut next = || fields.next()?.filter(|value| value.is_finite() && *value >= 0.0);
    Some([next()?, next()?, next()?])
}

/// `2/345`: threads that run or wait to, of all.
fn runnable(text: &str) -> Option<u64> {
    text.split_whitespace().nth(3)?.split_once('/')?.0.parse().ok()
}

/// `some avg10=` of each pressure file, as a share.
fn pressure(tree: &Tree) -> Option<Fact<BTreeMap<String, f64>>> {
    let one = |kind: &str| {
        let text = tree.text(&format!("/proc/pressure/{kind}"))?;
        let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
        let percent = line.split_whitespace().find_map(|field| field.strip_prefix("avg10="))?;
        let share = percent.parse::<f64>().ok()? / 100.0;
        (0.0..=1.0).contains(&share).then(|| (kind.to_owned(), share))
    };
    let told: BTreeMap<String, f64> = ["cpu", "memory", "io"].into_iter().filter_map(one).collect();
    (!told.is_empty()).then(|| Fact::new(told, "/proc/pressure/*: some avg10"))
}

fn swap_used(tree: &Tree) -> Option<Fact<u64>> {
    let path = "/proc/meminfo";
    let text = tree.text(path)?;
    let bytes = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1 << 10)
    };
    let used = bytes("SwapTotal")?.checked_sub(bytes("SwapFree")?)?;
    Some(Fact::new(used, format!("{path}: SwapTotal, SwapFree")))
}

const VMSTAT: &str = "/proc/vmstat";

/// Pages swapped in and out since boot.
fn swapped(tree: &Tree) -> Option<u64> {
    let text = tree.text(VMSTAT)?;
    let count = |key: &str| -> Option<u64> {
        text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.parse().ok())
    };
    count("pswpin")?.checked_add(count("pswpout")?)
}

/// Whether the socket that a run holds is in the list of sockets.
fn another_run(tree: &Tree) -> Option<Fact<bool>> {
    let path = "/proc/net/unix";
    let text = tree.text(path)?;
    let mark = format!("@{}", super::RUN_MARK);
    let held = text.lines().any(|line| line.split_whitespace().last() == Some(mark.as_str()));
    Some(Fact::new(held, path))
}
