//! Test records with a headline and an interval.

use fathom_record::{Params, Record, Unit};

/// A record with the interval `median` ± `half_width`.
pub(crate) fn record(metric: &str, params: &Params, median: f64, half_width: f64) -> Record {
    Record::fixture(metric, Unit::Nanoseconds).of_case(params).within(median, half_width)
}
