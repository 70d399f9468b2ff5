//! CPU time of all that runs on the machine.

use super::counters::Counters;
use crate::host::tree::{Tree, after};

/// CPU time of all processes and threads of the kernel since the start, on all CPUs, in steps of
/// 10 ms. `None` if unknown.
pub fn machine_cpu_ns() -> Option<u64> {
    used_ns(&Tree::at("/"), rustix::param::clock_ticks_per_second())
}

fn used_ns(tree: &Tree, ticks_per_s: u64) -> Option<u64> {
    Counters::open(tree, "/proc/stat").read(|text| {
        // User time, which has that of guests, niced time, system time.
        let times = after(text, "cpu ")?.split_ascii_whitespace().take(3);
        let ticks = times.map(|time| time.parse::<u64>().ok()).sum::<Option<u64>>()?;
        ticks.checked_mul(1_000_000_000 / ticks_per_s.max(1))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_processes_and_kernel_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let of = |text: &str| {
            std::fs::create_dir_all(folder.path().join("proc")).unwrap();
            std::fs::write(folder.path().join("proc/stat"), text).unwrap();
            used_ns(&Tree::at(folder.path()), 100)
        };
        let all = "cpu  100 20 3 4000 500 60 7 8 90 1\ncpu0 9 9 9 9\n";
        assert_eq!(of(all), Some(1_230_000_000));
        assert_eq!(of("cpu  100 x 3\n"), None);
        assert_eq!(of("intr 5\n"), None);
    }
}
