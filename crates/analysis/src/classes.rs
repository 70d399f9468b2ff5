//! Classes of cases that share a resource: what slows the resource slows all of them, and their
//! errors are mostly their own.

use fathom_record::{Better, MetricId, Params, Unit};

/// Work that exchanges data between two CPUs.
const TWO_CPUS: &str = "two CPUs";
/// Work of one core on itself.
pub(crate) const CORE_SPEED: &str = "core speed";
const KERNEL_ENTRY: &str = "kernel entry";
/// Work of two CPUs on memory, which exchanges nothing.
const MEMORY_OF_TWO: &str = "memory of two CPUs";

/// Metrics of a class by the beginnings of their ids, the first that fits; work on one CPU.
const CLASSES: [(&str, &[&str]); 9] = [
    (TWO_CPUS, &["memory.core_to_core", "os.wake"]),
    ("page faults", &["memory.fault", "memory.mmap", "memory.munmap"]),
    ("cache and memory", &["memory."]),
    (CORE_SPEED, &["cpu.", "os.vdso", "os.futex"]),
    ("processes", &["os.process", "os.thread"]),
    (KERNEL_ENTRY, &["os.", "file.call"]),
    ("device", &["file.read.latency", "file.fsync", "file.contention", "file.capacity"]),
    ("file system", &["file."]),
    ("network stack", &["network."]),
];

/// With fewer cases a class has no factor.
pub(crate) const CASES_MIN: usize = 4;

/// The sign by which a number says that something is slower.
pub(crate) fn slowness(better: Better, unit: Unit) -> Option<f64> {
    match (better, unit) {
        (_, Unit::Bytes | Unit::Ratio) => None,
        // Of a frequency neither direction is better.
        (Better::Higher, _) | (_, Unit::Hertz) => Some(-1.0),
        (Better::Lower, _) => Some(1.0),
        (Better::Neither, _) => None,
    }
}

/// The resource that mostly decides a case; `None` for work of the user.
#[must_use]
pub fn class(metric: &MetricId, params: &Params) -> Option<&'static str> {
    let begins = |(_, starts): &&(&str, &[&str])| {
        starts.iter().any(|start| metric.as_str().starts_with(start))
    };
    let (class, _) = *CLASSES.iter().find(begins)?;
    // To take a free lock is no system call; to wake nobody is one.
    let class = match params.text("op") {
        Some("wake") if metric.as_str().starts_with("os.futex") => KERNEL_ENTRY,
        _ => class,
    };
    let on_two =
        ["cpus", "threads"].iter().any(|name| params.integer(name).is_some_and(|count| count > 1));
    Some(match class {
        "cache and memory" if on_two => MEMORY_OF_TWO,
        _ if on_two => TWO_CPUS,
        class => class,
    })
}

/// Whether a class is of work on two CPUs, so that the place of the CPUs moves it.
pub(crate) fn is_on_two(class: &str) -> bool {
    [TWO_CPUS, MEMORY_OF_TWO].contains(&class)
}

/// All names.
pub fn names() -> impl Iterator<Item = &'static str> {
    CLASSES.iter().map(|(class, _)| *class).chain([MEMORY_OF_TWO])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_is_of_the_resource_that_decides() {
        let on_two = Params::one("cpus", 2);
        let threads = Params::one("threads", 2);
        let none = Params::none();
        for (metric, params, expected) in [
            ("cpu.call", &none, Some("core speed")),
            ("os.syscall", &none, Some("kernel entry")),
            ("os.futex.uncontended", &Params::one("op", "wake"), Some("kernel entry")),
            ("os.futex.uncontended", &Params::one("op", "lock_unlock"), Some("core speed")),
            ("os.switch.ring", &none, Some("kernel entry")),
            ("os.pipe.bandwidth", &Params::one("cpus", 1), Some("kernel entry")),
            ("os.pipe.bandwidth", &on_two, Some("two CPUs")),
            ("network.tcp.rtt", &on_two, Some("two CPUs")),
            ("network.tcp.rtt", &none, Some("network stack")),
            ("memory.core_to_core", &none, Some("two CPUs")),
            ("memory.bandwidth", &threads, Some("memory of two CPUs")),
            ("memory.bandwidth", &Params::one("threads", 1), Some("cache and memory")),
            ("memory.fault", &none, Some("page faults")),
            ("file.read.latency", &none, Some("device")),
            ("file.create", &none, Some("file system")),
            ("bench.change", &threads, None),
        ] {
            assert_eq!(class(&MetricId::new(metric), params), expected, "{metric}{params}");
        }
        assert!(names().any(|it| it == MEMORY_OF_TWO) && names().count() == CLASSES.len() + 1);
    }
}
