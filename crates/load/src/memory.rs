//! Resident memory of both ends over the run, and its growth.

use std::fs;

use fathom_measure::clock::monotonic_raw_ns;
use fathom_record::{Series, Unit};

use crate::figures::LoadTelemetry;

/// Most values of a series of memory.
const READINGS_MAX: usize = 20_000;

/// Memory of both ends, since the run began.
#[derive(Default)]
pub struct LoadMemory {
    pub begun_ns: u64,
    pub client: Resident,
    pub server: Resident,
}

impl LoadMemory {
    pub fn since_begin_ns(&self) -> u64 {
        monotonic_raw_ns().saturating_sub(self.begun_ns)
    }

    pub fn read(&mut self, server: Option<&LoadTelemetry>) {
        let at = self.since_begin_ns() as f64;
        if self.client.bytes.len() >= READINGS_MAX {
            return;
        }
        if let Some(bytes) = own_bytes() {
            self.client.add(at, bytes);
        }
        if let Some(telemetry) = server {
            self.server.add(at, telemetry.resident_bytes);
        }
    }
}

/// Values by time, in nanoseconds since the start.
#[derive(Clone, Debug, Default)]
pub struct Resident {
    pub times_ns: Vec<f64>,
    pub bytes: Vec<f64>,
}

/// Segments whose slopes give the interval.
const SEGMENTS: usize = 10;
/// Shorter segments have too few readings.
const SEGMENT_MIN_NS: f64 = 1.5e9;
/// A shorter time shows no growth.
const SPAN_MIN_NS: f64 = 5e9;
/// Buffers and histograms are allocated in the first part of a run.
const START: f64 = 1.0 / 3.0;

impl Resident {
    pub fn add(&mut self, at_ns: f64, bytes: u64) {
        self.times_ns.push(at_ns);
        self.bytes.push(bytes as f64);
    }

    pub fn series(&self, name: &str, at: Option<&str>) -> Series {
        Series {
            name: name.to_owned(),
            unit: Unit::Bytes,
            at: at.map(str::to_owned),
            times_ns: self.times_ns.clone(),
            values: self.bytes.clone(),
        }
    }

    /// Growth in bytes per second after the first third, over all of it and in each segment. `None`
    /// with too few values.
    pub fn growth(&self) -> Option<(f64, Vec<f64>)> {
        let (first, last) = (*self.times_ns.first()?, *self.times_ns.last()?);
        let start = first + START * (last - first);
        let begin = self.times_ns.partition_point(|at| *at < start);
        let (times, bytes) = (&self.times_ns[begin..], &self.bytes[begin..]);
        let span = last - *times.first()?;
        if span < SPAN_MIN_NS {
            return None;
        }
        let slope = |from: usize, to: usize| {
            (bytes[to] - bytes[from]) / (times[to] - times[from]).max(1.0) * 1e9
        };
        let end = times.len() - 1;
        // Segments of equal time: readings are closer together where a window begins.
        let at = |segment: usize| {
            let time = times[0] + span * segment as f64 / SEGMENTS as f64;
            times.partition_point(|at| *at < time).min(end)
        };
        let segments = if span < SEGMENTS as f64 * SEGMENT_MIN_NS { 0 } else { SEGMENTS };
        let slopes = (0..segments).map(|segment| slope(at(segment), at(segment + 1))).collect();
        Some((slope(0, end), slopes))
    }
}

/// Resident bytes of this process.
pub fn own_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    use fathom_analysis::load::batch_interval;

    use super::*;

    #[test]
    fn leak_is_found_and_start_up_is_not_one() {
        let of = |growth: f64| {
            let mut resident = Resident::default();
            for second in 0..90 {
                let start = if second < 20 { 0.0 } else { 5e6 };
                let bytes = 1e6 + start + growth * f64::from(second);
                resident.add(f64::from(second) * 1e9, bytes as u64);
            }
            resident.growth().expect("90 values")
        };
        let (none, segments) = of(0.0);
        assert_eq!((none, segments), (0.0, vec![0.0; 10]));
        let (leak, segments) = of(1_000.0);
        assert!((leak - 1_000.0).abs() < 1e-6, "{leak}");
        let interval = batch_interval(leak, &segments).expect("ten segments");
        assert!(interval.low > 999.0 && interval.high < 1_001.0, "{interval:?}");
    }

    #[test]
    fn few_values_have_no_growth() {
        let mut resident = Resident::default();
        assert_eq!(resident.growth(), None);
        (0..7).for_each(|at| resident.add(f64::from(at) * 1e9, 1));
        assert_eq!(resident.growth(), None, "4 s after the first third");
        (7..12).for_each(|at| resident.add(f64::from(at) * 1e9, 1));
        assert_eq!(resident.growth(), Some((0.0, Vec::new())));
        assert!(own_bytes().is_some_and(|bytes| bytes > 100_000));
    }
}
