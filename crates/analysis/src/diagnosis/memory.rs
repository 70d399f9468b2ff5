//! Memory: available bytes, swap, huge pages, address space layout randomisation.

use super::rule::{Rule, RuleOutcome, Subject, size};
use fathom_record::Fix;
use fathom_record::diagnosis::Acceptable;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "memory-available",
        touches: &["memory.*", "file.*", "os.process.fork"],
        effect: "working sets above a quarter of it are unavailable",
        check: available,
    },
    Rule {
        id: "swap",
        touches: &["memory.*", "file.*", "os.*"],
        effect: "accesses to swapped pages are major faults",
        check: swap,
    },
    Rule {
        id: "huge-pages",
        touches: &["memory.*", "os.process.fork"],
        effect: "the page size determines faults, forks and TLB misses",
        check: huge_pages,
    },
    Rule {
        id: "aslr",
        touches: &["*"],
        effect: "all processes have the same layout: intervals over processes are too narrow",
        check: aslr,
    },
];

/// Four times the largest resident set of a metric (`os.process.fork`).
const AVAILABLE_GOOD_BYTES: u64 = 4 << 30;
/// Below this the kernel reclaims memory during a run.
const AVAILABLE_WARNING_BYTES: u64 = 256 << 20;
/// Below this the kernel may kill a worker.
const AVAILABLE_SEVERE_BYTES: u64 = 64 << 20;

fn available(subject: &Subject<'_>) -> RuleOutcome {
    let memory = &subject.host.memory;
    let Some(available) = memory.available_bytes else {
        return RuleOutcome::unknown("available memory", subject.unread("/proc/meminfo"));
    };
    let of = memory.total_bytes.map_or(String::new(), |total| format!(" of {}", size(total)));
    let found = format!("{}{of}", size(available));
    let outcome = match available {
        bytes if bytes < AVAILABLE_SEVERE_BYTES => RuleOutcome::severe(found)
            .effect("the kernel reclaims memory or kills workers during a run")
            .fix(Fix::FindMemoryUsers),
        bytes if bytes < AVAILABLE_WARNING_BYTES => RuleOutcome::warning(found)
            .effect("the kernel reclaims memory during a run")
            .fix(Fix::FindMemoryUsers),
        bytes if bytes < AVAILABLE_GOOD_BYTES => RuleOutcome::note(found)
            .effect(format!(
                "working sets above a quarter of it, {}, are unavailable",
                size(bytes / 4)
            ))
            .nothing_to_do(Acceptable::SizeOfMachine),
        _ => RuleOutcome::good(found),
    };
    outcome.from(subject, &["memory.available_bytes", "memory.total_bytes"])
}

fn swap(subject: &Subject<'_>) -> RuleOutcome {
    let all = subject.host.memory.swap_bytes;
    let moved = subject.condition.look.as_ref().and_then(|look| look.swapped_pages);
    let paths = ["memory.swap_bytes", "swap_used_bytes", "look.swapped_pages"];
    let outcome = match (all, subject.condition.swap_used_bytes) {
        (Some(0), _) => RuleOutcome::good("no swap"),
        (Some(all), Some(used)) => {
            let found = format!("{} of {} in use", size(used), size(all));
            match (used, moved) {
                (_, Some(pages)) if pages > 0 => {
                    RuleOutcome::warning(format!("{found}; {pages} pages are being swapped"))
                        .fix(Fix::WaitForSwapping)
                }
                (0, _) => RuleOutcome::good(found),
                _ => RuleOutcome::note(found).nothing_to_do(Acceptable::NewMemory),
            }
        }
        _ => RuleOutcome::unknown("swap in use", subject.unread("/proc/meminfo")),
    };
    outcome.from(subject, &paths)
}

fn huge_pages(subject: &Subject<'_>) -> RuleOutcome {
    let outcome = match subject.host.memory.thp.as_deref() {
        Some("madvise") => RuleOutcome::good("transparent huge pages: madvise"),
        Some("always") => RuleOutcome::note("transparent huge pages: always")
            .nothing_to_do(Acceptable::PagesOnRequest),
        Some(other) => RuleOutcome::note(format!("transparent huge pages: {other}"))
            .effect("huge pages can be measured only if some are reserved")
            .nothing_to_do(Acceptable::Setting),
        None => RuleOutcome::unknown("transparent huge pages", subject.unread("/sys/kernel/mm")),
    };
    let guest = subject.host.is_guest();
    let outcome = if guest {
        outcome.effect("page=huge is guest-huge: the pages of the host beneath are unknown")
    } else {
        outcome
    };
    outcome.from(subject, &["memory.thp"])
}

fn aslr(subject: &Subject<'_>) -> RuleOutcome {
    let outcome = match subject.host.aslr {
        Some(0) => {
            RuleOutcome::warning("off: kernel.randomize_va_space = 0").fix(Fix::RandomiseLayout)
        }
        Some(1) => RuleOutcome::note("partial: kernel.randomize_va_space = 1")
            .effect("the heap has the same address in all processes")
            .fix(Fix::RandomiseLayout),
        Some(level) => RuleOutcome::good(format!("on: kernel.randomize_va_space = {level}")),
        None => RuleOutcome::unknown("ASLR", subject.unread("/proc/sys/kernel/randomize_va_space")),
    };
    outcome.from(subject, &["aslr"])
}
