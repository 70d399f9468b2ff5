//! What another end can report: other figures reach no record.

use std::io::{self, Write};
use std::ops::RangeInclusive;

use serde::Serialize as _;
use serde_json::ser::Formatter;

use crate::{Host, Interval, Record, Sample, Summary};

type PlausibleLimits = RangeInclusive<u64>;

/// Bytes of memory: from less than Linux needs up to twice the largest machine that runs one Linux
/// (64 TiB).
pub const MEMORY: PlausibleLimits = 1 << 20..=128 << 40;
/// CPUs or threads: a kernel can be built for 8192 CPUs at most.
pub const CPUS: PlausibleLimits = 1..=8192;
/// Counters since the start of a process or machine: up to 36 years in nanoseconds, and small
/// enough that sums do not overflow.
pub const TOTAL: PlausibleLimits = 0..=1 << 60;
/// Counters of one visit; sums over visits do not overflow.
pub const VISIT: PlausibleLimits = 0..=1 << 53;
/// A number of a measurement, in any base unit: the square of a larger one would overflow.
pub const MAGNITUDE_MAX: f64 = 1e100;
/// Bytes of the name of a TCP congestion control: TCP_CA_NAME_MAX of Linux, without its NUL.
pub const CONGESTION: PlausibleLimits = 1..=15;

/// The name of the first figure that cannot be.
pub fn implausible(figures: &[(&'static str, u64, PlausibleLimits)]) -> Option<&'static str> {
    figures.iter().find(|(_, value, limits)| !limits.contains(value)).map(|(name, ..)| *name)
}

impl Host {
    /// The name of the first fact of another machine that cannot be.
    pub fn implausible(&self) -> Option<&'static str> {
        let Self { cpu, memory, .. } = self;
        let known = |name, value: Option<u64>, limits: &PlausibleLimits| {
            Some((name, value?, limits.clone()))
        };
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

impl Record {
    /// The name of the first number of this record that cannot be.
    pub fn implausible(&self) -> Option<&'static str> {
        let of_samples = || self.samples.iter().flatten().find_map(Sample::implausible);
        let is_ragged = self.series.iter().any(|it| it.times_ns.len() != it.values.len());
        let of_summary = self.summary.as_ref().and_then(Summary::implausible);
        let of_shape = of_summary.or(is_ragged.then_some("length of a series")).or_else(of_samples);
        of_shape.or_else(|| (!self.has_numbers_in_range()).then_some("number"))
    }

    /// Whether every number, wherever it stands, is one that can be reckoned with.
    fn has_numbers_in_range(&self) -> bool {
        self.serialize(&mut serde_json::Serializer::with_formatter(io::sink(), InRange)).is_ok()
    }
}

impl Summary {
    fn implausible(&self) -> Option<&'static str> {
        let estimates = self.in_state.iter().chain(&self.as_found);
        let intervals = estimates.map(|it| it.interval).chain([self.interval]).flatten();
        let shares = self.modes.iter().chain(&self.clusters).map(|it| it.share);
        let mut shares = shares.chain(self.quantiles.iter().map(|it| it.q));
        let is_share = |it: f64| (0.0..=1.0).contains(&it);
        let has_level = |it: Interval| is_share(it.level);
        let found = [
            ("level of an interval", !intervals.clone().all(has_level)),
            ("share", !shares.all(is_share)),
            ("count of values", !VISIT.contains(&self.n)),
        ];
        found.iter().find_map(|(name, is_wrong)| is_wrong.then_some(*name))
    }
}

impl Sample {
    fn implausible(&self) -> Option<&'static str> {
        let is_of_value = |at: &u32| (*at as usize) < self.values.len();
        (!self.disturbed.iter().all(is_of_value)).then_some("index of a disturbed value")
    }
}

/// Fails at the first number with a fraction that is out of range. Counters are whole numbers, of
/// which any can be reckoned with.
struct InRange;

impl Formatter for InRange {
    fn write_f64<W: ?Sized + Write>(&mut self, _: &mut W, number: f64) -> io::Result<()> {
        let is_in_range = number.abs() <= MAGNITUDE_MAX;
        is_in_range.then_some(()).ok_or_else(|| io::ErrorKind::InvalidData.into())
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
