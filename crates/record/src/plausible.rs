//! What another end can report: other figures reach no record.

use std::ops::RangeInclusive;

use crate::Host;

type Limits = RangeInclusive<u64>;

/// Bytes of memory: from less than Linux needs up to twice the largest machine that runs one Linux
/// (64 TiB).
pub const MEMORY: Limits = 1 << 20..=128 << 40;
/// CPUs or threads: a kernel can be built for 8192 CPUs at most.
pub const CPUS: Limits = 1..=8192;
/// Counters since the start of a process or machine: up to 36 years in nanoseconds, and small
/// enough that sums do not overflow.
pub const TOTAL: Limits = 0..=1 << 60;
/// Counters of one visit; sums over visits do not overflow.
pub const VISIT: Limits = 0..=1 << 53;
/// Bytes of the name of a TCP congestion control: TCP_CA_NAME_MAX of Linux, without its NUL.
pub const CONGESTION: Limits = 1..=15;

/// The name of the first figure that cannot be.
pub fn implausible(figures: &[(&'static str, u64, Limits)]) -> Option<&'static str> {
    figures.iter().find(|(_, value, limits)| !limits.contains(value)).map(|(name, ..)| *name)
}

impl Host {
    /// The name of the first fact of another machine that cannot be.
    pub fn implausible(&self) -> Option<&'static str> {
        let Self { cpu, memory, .. } = self;
        let known =
            |name, value: Option<u64>, limits: &Limits| Some((name, value?, limits.clone()));
        let figures = [
            known("memory", memory.total_bytes, &MEMORY),
            known("available memory", memory.available_bytes, &(0..=*MEMORY.end())),
            known("CPUs", Some(cpu.logical.into()), &(0..=*CPUS.end())),
            known("cores", cpu.cores.map(u64::from), &CPUS),
            known("sockets", cpu.sockets.map(u64::from), &CPUS),
        ];
        let figures: Vec<_> = figures.into_iter().flatten().collect();
        implausible(&figures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_that_cannot_be_are_named() {
        let host = |change: fn(&mut Host)| {
            let mut host = Host::default();
            host.cpu.logical = 1;
            change(&mut host);
            host.implausible()
        };
        for (change, found) in [
            ((|_| {}) as fn(&mut Host), None),
            (|host| host.memory.total_bytes = Some(128 << 40), None),
            (|host| host.memory.total_bytes = Some((128 << 40) + 1), Some("memory")),
            (|host| host.memory.total_bytes = Some(0), Some("memory")),
            (|host| host.memory.available_bytes = Some(u64::MAX), Some("available memory")),
            (|host| host.cpu.logical = 8192, None),
            (|host| host.cpu.logical = 8193, Some("CPUs")),
            (|host| host.cpu.logical = 0, None),
            (|host| host.cpu.cores = Some(0), Some("cores")),
            (|host| host.cpu.sockets = Some(9000), Some("sockets")),
        ] {
            assert_eq!(host(change), found);
        }
    }
}
