//! What the processes of a service have used, without following them.

use std::fs;

/// Of all threads, by the kernel's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ServiceUse {
    pub user_ns: f64,
    pub system_ns: f64,
    pub switches: u64,
}

impl ServiceUse {
    pub fn read(processes: impl Iterator<Item = u32>) -> Self {
        let tick_ns = 1e9 / rustix::param::clock_ticks_per_second().max(1) as f64;
        let text = |path: String| fs::read_to_string(path).unwrap_or_default();
        let mut all = Self::default();
        for process in processes {
            let [user, system] = ticks(&text(format!("/proc/{process}/stat"))).unwrap_or_default();
            all.user_ns += tick_ns * user as f64;
            all.system_ns += tick_ns * system as f64;
            let threads = fs::read_dir(format!("/proc/{process}/task"));
            for thread in threads.into_iter().flatten().flatten() {
                all.switches += switches(&text(format!("{}/status", thread.path().display())));
            }
        }
        all
    }

    /// Processes that have ended meanwhile take their counters along.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            user_ns: (self.user_ns - before.user_ns).max(0.0),
            system_ns: (self.system_ns - before.system_ns).max(0.0),
            switches: self.switches.saturating_sub(before.switches),
        }
    }
}

/// utime and stime of proc_pid_stat(5); the name before may have spaces and brackets.
fn ticks(stat: &str) -> Option<[u64; 2]> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    Some([fields.next()?.parse().ok()?, fields.next()?.parse().ok()?])
}

fn switches(status: &str) -> u64 {
    let of = |line: &str| line.split_once("voluntary_ctxt_switches:")?.1.trim().parse::<u64>().ok();
    status.lines().filter_map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_those_of_the_kernel() {
        let stat = "7 (a b) c) S 1 1 1 0 -1 0 10 0 0 0 100 20 3 4 20 0 1 0 5555 9 9";
        assert_eq!((ticks(stat), ticks("7 (a")), (Some([100, 20]), None));
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t5\n";
        assert_eq!(switches(status), 12);
        let own = ServiceUse::read(std::iter::once(std::process::id()));
        assert_eq!(own.since(own), ServiceUse::default());
    }
}
