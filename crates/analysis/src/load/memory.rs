//! Whether the memory of an end of a load grows.

use fathom_record::Summary;

use super::whole_seconds;

/// Growth of memory that is no leak: less than this share of it per hour.
const LEAK_MIN: f64 = 0.1;
const PAGE: f64 = 4096.0;
/// From when on growth is not that of the start: buffers grow to their size while the first
/// connections are made.
const START_S: f64 = 120.0;
/// Long enough for an interval.
const INTERVAL_S: u64 = 30;

/// Slopes are in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MemoryGrowth {
    Grows {
        slope: f64,
        interval: [f64; 2],
    },
    /// At most by this slope.
    NotShown {
        most: f64,
    },
    Undecided {
        why: GrowthDoubt,
        measure_s: Option<u64>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GrowthDoubt {
    /// It grew by this slope, in a run that is hardly longer than the start.
    Start(f64),
    /// A growth of this slope is not excluded.
    NotExcluded(f64),
    NoInterval,
}

impl MemoryGrowth {
    /// From the slope of memory that is `bytes` at the end, of a run of this length.
    #[must_use]
    pub fn from_slope(slope: &Summary, bytes: f64, measured_s: Option<f64>) -> Self {
        let limit = LEAK_MIN * bytes / 3600.0;
        let undecided = |why, measure_s| Self::Undecided { why, measure_s };
        match slope.limits() {
            Some([low, _]) if low > 0.0 && measured_s.is_some_and(|it| it < START_S) => {
                undecided(GrowthDoubt::Start(slope.median), Some(2 * START_S as u64))
            }
            Some(interval @ [low, _]) if low > 0.0 => Self::Grows { slope: slope.median, interval },
            // One page in all cannot be seen.
            Some([_, high]) if high <= limit => {
                Self::NotShown { most: high.max(PAGE / measured_s.unwrap_or(f64::INFINITY)) }
            }
            // Of a longer time the slope is known better by as much.
            Some([_, high]) => {
                let needed = measured_s.map(|it| whole_seconds(it * high / limit));
                undecided(GrowthDoubt::NotExcluded(high), needed)
            }
            None => undecided(GrowthDoubt::NoInterval, Some(INTERVAL_S)),
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
        let undecided =
            |why, measure_s| MemoryGrowth::Undecided { why, measure_s: Some(measure_s) };
        let interval = [400.0, 600.0];
        assert_eq!(after(119.0, Some(interval)), undecided(GrowthDoubt::Start(500.0), 240));
        assert_eq!(after(120.0, Some(interval)), MemoryGrowth::Grows { slope: 500.0, interval });
        let not_shown = |most| MemoryGrowth::NotShown { most };
        assert_eq!(after(180.0, Some([-9.0, 600.0])), not_shown(600.0));
        assert_eq!(after(180.0, Some([0.0, 0.0])), not_shown(4096.0 / 180.0), "a page");
        let wide = undecided(GrowthDoubt::NotExcluded(4_000.0), 720);
        assert_eq!(after(180.0, Some([-9.0, 4_000.0])), wide);
        assert_eq!(after(180.0, None), undecided(GrowthDoubt::NoInterval, 30));
    }
}
