//! Load of the machine: CPU utilization, load average, pressure, swap, another run.

use std::collections::BTreeMap;
use std::time::Duration;

use fathom_record::Condition;
use fathom_record::condition::{BusyProgram, Look};

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
    let (used, used_ns) = (ticks_of_processes(tree), clock::monotonic_raw_ns());
    let (begun_ns, then, swapped) =
        (clock::monotonic_raw_ns(), ProcStat::read(tree), swapped(tree));
    std::thread::sleep(window);
    let (now, swapped_now) = (ProcStat::read(later), self::swapped(later));
    let length_ns = clock::monotonic_raw_ns().saturating_sub(begun_ns) as f64;
    let used_later = ticks_of_processes(later);
    // Reading all processes takes a time of its own.
    let between = Duration::from_nanos(clock::monotonic_raw_ns().saturating_sub(used_ns));
    let busiest = busiest(&used, &used_later, between);
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
    condition.look = Some(Look { length_ns, cpus, swapped_pages, busiest });
}

/// Programs that are named.
const NAMED: usize = 3;
/// A program that used less of a CPU is not what disturbs.
const CPUS_MIN: f64 = 0.1;

/// The name and the clock ticks used of each process but this one.
fn ticks_of_processes(tree: &FileTree) -> BTreeMap<u32, (String, u64)> {
    let of = |name: String| {
        let process: u32 = name.parse().ok()?;
        let text = tree.text(&format!("/proc/{process}/stat"))?;
        // The name may have parentheses of its own.
        let (begin, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        // Fields 14 and 15 of proc(5); the third follows the name.
        let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok();
        let ticks = ticks(11)?.checked_add(ticks(12)?)?;
        Some((process, (begin.split_once('(')?.1.to_owned(), ticks)))
    };
    let own = std::process::id();
    let all = tree.names("/proc").into_iter().filter_map(of);
    all.filter(|(process, _)| *process != own).collect()
}

/// The programs that used most CPU time within `window`; those that began or ended in it are
/// counted in part.
fn busiest(
    then: &BTreeMap<u32, (String, u64)>,
    now: &BTreeMap<u32, (String, u64)>,
    window: Duration,
) -> Vec<BusyProgram> {
    let whole = window.as_secs_f64() * rustix::param::clock_ticks_per_second() as f64;
    let mut by_name: BTreeMap<&str, u64> = BTreeMap::new();
    for (process, (name, ticks)) in now {
        let before = then.get(process).map_or(0, |(_, before)| *before);
        *by_name.entry(name).or_default() += ticks.saturating_sub(before);
    }
    let program = |(name, ticks): (&str, u64)| BusyProgram {
        name: name.to_owned(),
        cpus: ticks as f64 / whole,
    };
    let mut all: Vec<BusyProgram> = by_name.into_iter().map(program).collect();
    all.retain(|one| one.cpus >= CPUS_MIN);
    all.sort_by(|a, b| b.cpus.total_cmp(&a.cpus));
    all.truncate(NAMED);
    all
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busiest_programs_are_summed_by_name() {
        let process = |name: &str, user: u64, system: u64| {
            let fields = format!("S 1 1 1 0 -1 4194304 0 0 0 0 {user} {system} 0 0 20 0 1 0 5");
            format!("({name}) {fields}")
        };
        let at = |ticks: [u64; 4]| {
            let root = tempfile::tempdir().unwrap();
            let names = ["rustc", "a (b) c", "rustc", "idle"];
            for (number, (name, ticks)) in names.into_iter().zip(ticks).enumerate() {
                let folder = root.path().join(format!("proc/{}", 7000 + number));
                std::fs::create_dir_all(&folder).unwrap();
                let text = format!("{} {}", 7000 + number, process(name, ticks, 3));
                std::fs::write(folder.join("stat"), text).unwrap();
            }
            root
        };
        let (then, now) = (at([100, 50, 7, 9]), at([115, 60, 22, 9]));
        let ticks = |root: &tempfile::TempDir| ticks_of_processes(&FileTree::at(root.path()));
        let hz = rustix::param::clock_ticks_per_second();
        // In as many ticks as one CPU has in the window.
        let window = Duration::from_secs_f64(20.0 / hz as f64);
        let found = busiest(&ticks(&then), &ticks(&now), window);
        let program = |name: &str, cpus: f64| BusyProgram { name: name.to_owned(), cpus };
        assert_eq!(found, [program("rustc", 1.5), program("a (b) c", 0.5)]);
    }
}
