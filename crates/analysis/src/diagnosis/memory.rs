//! Memory: what is free, swap, huge pages, address space randomisation.

use super::rule::{Outcome, Rule, Subject, size};
use fathom_record::Fix;
use fathom_record::diagnosis::Acceptable;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "memory-available",
        touches: &["memory.*", "file.*", "os.process.fork"],
        effect: "sizes above a quarter of it are unavailable",
        look: available,
    },
    Rule {
        id: "swap",
        touches: &["memory.*", "file.*", "os.*"],
        effect: "a page that was swapped out is read from a device when it is touched",
        look: swap,
    },
    Rule {
        id: "huge-pages",
        touches: &["memory.*", "os.process.fork"],
        effect: "whether memory lies in huge pages decides on faults, forks and translation",
        look: huge_pages,
    },
    Rule {
        id: "aslr",
        touches: &["*"],
        effect: "all processes get one memory layout: intervals between processes look too narrow",
        look: aslr,
    },
];

/// Four times the largest resident set there is (`os.process.fork`).
const AVAILABLE_GOOD_BYTES: u64 = 4 << 30;
/// Below it the kernel reclaims while something is measured.
const AVAILABLE_WARNING_BYTES: u64 = 256 << 20;
/// Below it a worker may be killed.
const AVAILABLE_SEVERE_BYTES: u64 = 64 << 20;

fn available(subject: &Subject<'_>) -> Outcome {
    let memory = &subject.host.memory;
    let Some(available) = memory.available_bytes else {
        let because = "/proc/meminfo does not tell MemAvailable";
        return Outcome::unknown("the memory available", because);
    };
    let of = memory.total_bytes.map_or(String::new(), |total| format!(" of {}", size(total)));
    let found = format!("{}{of}", size(available));
    let outcome = match available {
        bytes if bytes < AVAILABLE_SEVERE_BYTES => Outcome::severe(found)
            .effect("the kernel reclaims memory or kills workers while a run lasts"),
        bytes if bytes < AVAILABLE_WARNING_BYTES => {
            Outcome::warning(found).effect("the kernel reclaims memory while a run lasts")
        }
        bytes if bytes < AVAILABLE_GOOD_BYTES => {
            return Outcome::note(found)
                .from(subject, &["memory.available_bytes", "memory.total_bytes"])
                .effect(format!(
                    "sizes above a quarter of it, {}, are unavailable",
                    size(bytes / 4)
                ))
                .nothing_to_do(Acceptable::SizeOfMachine);
        }
        _ => Outcome::good(found),
    };
    let outcome = outcome.from(subject, &["memory.available_bytes", "memory.total_bytes"]);
    match available < AVAILABLE_WARNING_BYTES {
        true => outcome.fix(Fix::FindMemoryUsers),
        false => outcome,
    }
}

fn swap(subject: &Subject<'_>) -> Outcome {
    let all = subject.host.memory.swap_bytes;
    let moved = subject.condition.look.as_ref().and_then(|look| look.swapped_pages);
    let paths = ["memory.swap_bytes", "swap_used_bytes", "look.swapped_pages"];
    let outcome = match (all, subject.condition.swap_used_bytes) {
        (Some(0), _) => Outcome::good("there is none"),
        (Some(all), Some(used)) => {
            let found = format!("{} of {} in use", size(used), size(all));
            match (used, moved) {
                (_, Some(pages)) if pages > 0 => {
                    Outcome::warning(format!("{found}; {pages} pages moved just now"))
                        .fix(Fix::WaitForSwapping)
                }
                (0, _) => Outcome::good(found),
                _ => Outcome::note(found).nothing_to_do(Acceptable::NewMemory),
            }
        }
        _ => Outcome::unknown("swap in use", "/proc/meminfo does not tell it"),
    };
    outcome.from(subject, &paths)
}

fn huge_pages(subject: &Subject<'_>) -> Outcome {
    let outcome = match subject.host.memory.thp.as_deref() {
        Some("madvise") => Outcome::good("transparent huge pages for who asks for them (madvise)"),
        Some("always") => Outcome::note("transparent huge pages for everyone (always)")
            .nothing_to_do(Acceptable::PagesOnRequest),
        Some(other) => Outcome::note(format!("transparent huge pages: {other}"))
            .effect("memory in huge pages cannot be measured without reserving some")
            .nothing_to_do(Acceptable::Setting),
        None => Outcome::unknown("transparent huge pages", "this kernel has no switch for them"),
    };
    outcome.from(subject, &["memory.thp"])
}

fn aslr(subject: &Subject<'_>) -> Outcome {
    let outcome = match subject.host.aslr {
        Some(0) => Outcome::warning("off: kernel.randomize_va_space = 0").fix(Fix::RandomiseLayout),
        Some(1) => Outcome::note("in part: kernel.randomize_va_space = 1")
            .effect("the heap lies at one place in all processes")
            .fix(Fix::RandomiseLayout),
        Some(level) => Outcome::good(format!("on: kernel.randomize_va_space = {level}")),
        None => Outcome::unknown("address space randomisation", "/proc/sys does not tell it"),
    };
    outcome.from(subject, &["aslr"])
}
