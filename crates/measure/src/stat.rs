//! CPU utilization from `/proc/stat`.

use fathom_record::condition::CpuShares;

use crate::tree::FileTree;

pub(crate) const PATH: &str = "/proc/stat";

/// Ticks of each CPU and of all CPUs since boot.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProcStat {
    /// `None` for all CPUs together.
    lines: Vec<(Option<u32>, Ticks)>,
}

#[derive(Clone, Copy, Debug)]
struct Ticks {
    all: u64,
    /// Of processes and of threads of the kernel, without interrupts.
    used: u64,
    /// Also while a process waited for a device.
    idle: u64,
    steal: Option<u64>,
}

impl ProcStat {
    pub(crate) fn read(tree: &FileTree) -> Self {
        Self::parse(&tree.text(PATH).unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let line = |line: &str| {
            let (name, rest) = line.strip_prefix("cpu")?.split_once(' ')?;
            let cpu = if name.is_empty() { None } else { Some(name.parse().ok()?) };
            // user nice system idle iowait irq softirq steal; guest time is included in user.
            let fields: Vec<u64> = rest
                .split_ascii_whitespace()
                .take(8)
                .map_while(|field| field.parse().ok())
                .collect();
            let all = fields.iter().try_fold(0_u64, |sum, field| sum.checked_add(*field))?;
            let used = fields.iter().take(3).sum();
            let idle = fields.get(3)?.checked_add(*fields.get(4)?)?;
            Some((cpu, Ticks { all, used, idle, steal: fields.get(7).copied() }))
        };
        Self { lines: text.lines().filter_map(line).collect() }
    }

    /// The shares of each CPU since an earlier reading. 0 for counters that went backwards, as
    /// `iowait` may.
    pub(crate) fn since(&self, earlier: &Self) -> Vec<CpuShares> {
        let one = |(cpu, now): &(Option<u32>, Ticks)| {
            let cpu = (*cpu)?;
            let (_, before) = earlier.lines.iter().find(|(known, _)| *known == Some(cpu))?;
            Some(now.shares(Some(cpu), before))
        };
        self.lines.iter().filter_map(one).collect()
    }

    /// The shares of all CPUs together since boot.
    pub(crate) fn since_boot(&self) -> Option<CpuShares> {
        let none = Ticks { all: 0, used: 0, idle: 0, steal: Some(0) };
        let (_, all) = self.lines.iter().find(|(cpu, _)| cpu.is_none())?;
        Some(all.shares(None, &none)).filter(|shares| shares.ticks > 0)
    }
}

/// CPU time of a machine since it was started, on all CPUs, in steps of 10 ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineTime {
    /// Of processes and of threads of the kernel, without interrupts.
    pub used_ns: u64,
    /// Also while a process waited for a device.
    pub idle_ns: u64,
}

impl MachineTime {
    /// `None` if unknown.
    pub fn now() -> Option<Self> {
        Self::from_stat(
            &ProcStat::read(&FileTree::at("/")),
            rustix::param::clock_ticks_per_second(),
        )
    }

    fn from_stat(stat: &ProcStat, ticks_per_s: u64) -> Option<Self> {
        let (_, all) = stat.lines.iter().find(|(cpu, _)| cpu.is_none())?;
        let ns = |ticks: u64| ticks.checked_mul(1_000_000_000 / ticks_per_s.max(1));
        Some(Self { used_ns: ns(all.used)?, idle_ns: ns(all.idle)? })
    }

    /// From an earlier time on; `None` if a counter went backwards.
    pub fn since(self, earlier: Self) -> Option<Self> {
        let used_ns = self.used_ns.checked_sub(earlier.used_ns)?;
        Some(Self { used_ns, idle_ns: self.idle_ns.checked_sub(earlier.idle_ns)? })
    }
}

impl Ticks {
    fn shares(&self, cpu: Option<u32>, before: &Self) -> CpuShares {
        let ticks = self.all.saturating_sub(before.all);
        let idle = self.idle.saturating_sub(before.idle);
        let share = |part: u64| part.min(ticks) as f64 / ticks.max(1) as f64;
        let steal = self.steal.zip(before.steal).map(|(now, then)| share(now.saturating_sub(then)));
        CpuShares { cpu, busy: share(ticks.saturating_sub(idle)), steal, ticks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_the_machine_is_that_of_processes_and_kernel() {
        let of = |text: &str| MachineTime::from_stat(&ProcStat::parse(text), 100);
        let all = of("cpu  100 20 3 4000 500 60 7 8 90 1\ncpu0 9 9 9 9 9\n").unwrap();
        assert_eq!(all, MachineTime { used_ns: 1_230_000_000, idle_ns: 45_000_000_000 });
        assert_eq!(of("intr 5\n"), None);
        let less = MachineTime { used_ns: 1_000_000_000, ..all };
        assert_eq!(all.since(less), Some(MachineTime { used_ns: 230_000_000, idle_ns: 0 }));
        assert_eq!(less.since(all), None);
    }

    #[test]
    fn shares_are_relative_to_elapsed_ticks() {
        let before =
            ProcStat::parse("cpu  9 9\ncpu0 100 0 0 900 0 0 0 0 0 0\ncpu1 0 0 0 10 0 0 0\n");
        let after =
            "cpu0 105 0 2 910 1 0 0 2 0 0\ncpu1 0 0 0 30 0 0 0\ncpu2 1 1 1 1 1 1 1 1\nintr 5";
        let shares = ProcStat::parse(after).since(&before);
        assert_eq!(shares.len(), 2, "a new CPU has no share: {shares:?}");
        assert_eq!((shares[0].cpu, shares[0].ticks), (Some(0), 20));
        assert_eq!((shares[0].busy, shares[0].steal), (0.45, Some(0.1)));
        assert_eq!((shares[1].busy, shares[1].steal), (0.0, None), "no column is unknown");
    }

    #[test]
    fn non_increasing_counters_show_no_disturbance() {
        let text = "cpu  5 0 0 5 0 0 0 0\ncpu0 5 0 0 5 0 0 0 0\n";
        let now = ProcStat::parse(text);
        assert_eq!(now.since(&now)[0].busy, 0.0);
        let later = ProcStat::parse("cpu0 50 0 0 50 0 0 0 0\n");
        assert_eq!(now.since(&later)[0].busy, 0.0);
        assert_eq!(now.since_boot().map(|boot| boot.busy), Some(0.5));
        assert_eq!(ProcStat::parse("cpu0 99999999999999999999 0 0 1 1").since(&now), []);
        assert_eq!(ProcStat::parse("").since_boot(), None);
    }
}
