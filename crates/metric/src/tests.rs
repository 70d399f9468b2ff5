//! Test records with a headline and an interval.

use fathom_record::{Basis, Better, Interval, MetricId, Params, Record, Summary, Unit};

/// A record with the interval `median` ± `half_width`.
pub(crate) fn record(metric: &str, params: &Params, median: f64, half_width: f64) -> Record {
    let ends = [median - half_width, median + half_width];
    let interval = Some(Interval::new(ends, 0.95, Basis::Processes));
    let summary = Some(Summary { median, interval, ..Summary::default() });
    let (metric, params) = (MetricId::new(metric), params.clone());
    Record { summary, ..Record::new(metric, params, "", Unit::Nanoseconds, Better::Lower) }
}
