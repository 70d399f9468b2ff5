//! Whether the memory of an end of a load grows.

use fathom_record::Summary;

use super::whole_seconds;

/// Growth of memory that is no leak: less than this share of it per hour.
const LEAK_MIN: f64 = 0.1;
const PAGE: f64 = 4096.0;
/// From when on growth is not that of the start, at which buffers grow to their size: that takes up
/// to half of it.
const LONG_S: f64 = 240.0;

/// Slopes are in bytes per second; `measure_s` is the time that would decide it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MemoryGrowth {
    Grows([f64; 2]),
    /// It is at most this.
    NotShown(f64),
    /// It grew, in a run that is hardly longer than the start.
    OfStart {
        measure_s: u64,
    },
    /// A growth of this slope is not excluded.
    NotExcluded {
        slope: f64,
        measure_s: Option<u64>,
    },
    /// Too little is known of so short a time.
    TooShort {
        measure_s: u64,
    },
}

impl MemoryGrowth {
    /// From the slope of memory that is `bytes` at the end, of a run of this length.
    #[must_use]
    pub fn from_slope(slope: &Summary, bytes: f64, measured_s: Option<f64>) -> Self {
        let limit = LEAK_MIN * bytes / 3600.0;
        let Some(interval @ [low, high]) = slope.limits() else {
            return Self::TooShort { measure_s: LONG_S as u64 };
        };
        match measured_s {
            Some(..LONG_S) if low > 0.0 => Self::OfStart { measure_s: LONG_S as u64 },
            _ if low > 0.0 => Self::Grows(interval),
            // One page in all cannot be seen.
            _ if high <= limit => {
                Self::NotShown(high.max(PAGE / measured_s.unwrap_or(f64::INFINITY)))
            }
            Some(..LONG_S) => Self::TooShort { measure_s: LONG_S as u64 },
            // Of a longer time the slope is known better by as much.
            _ => {
                let measure_s = measured_s.map(|it| whole_seconds(it * high / limit));
                Self::NotExcluded { slope: high, measure_s }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use fathom_record::{Basis, Interval};

    use super::*;

    #[test]
    fn memory_grows_or_does_not_or_needs_a_longer_run() {
        // Of 36 MB, which are 1 kB/s for a tenth in an hour.
        let after = |seconds: f64, limits: Option<[f64; 2]>| {
            let interval = limits.map(|limits| Interval::new(limits, 0.95, Basis::WithinRun));
            let slope = Summary { median: 500.0, interval, ..Summary::default() };
            MemoryGrowth::from_slope(&slope, 36e6, Some(seconds))
        };
        use MemoryGrowth::{Grows, NotExcluded, NotShown, OfStart, TooShort};
        let interval = [400.0, 600.0];
        assert_eq!(after(119.0, Some(interval)), OfStart { measure_s: 240 });
        assert_eq!(after(239.0, Some(interval)), OfStart { measure_s: 240 });
        assert_eq!(after(240.0, Some(interval)), Grows(interval));
        assert_eq!(after(180.0, Some([-9.0, 600.0])), NotShown(600.0));
        assert_eq!(after(180.0, Some([0.0, 0.0])), NotShown(4096.0 / 180.0), "a page");
        let wide = NotExcluded { slope: 4_000.0, measure_s: Some(1440) };
        assert_eq!(after(360.0, Some([-9.0, 4_000.0])), wide);
        assert_eq!(after(180.0, Some([-9.0, 4_000.0])), TooShort { measure_s: 240 });
        assert_eq!(after(180.0, None), TooShort { measure_s: 240 });
    }
}
