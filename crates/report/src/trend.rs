//! Trends: the numbers of a case in the stored runs of its host, beside its row of the overview.

use fathom_analysis::history::HistorySeries;
use fathom_record::quantity::signed_percent;
use fathom_record::{MetricId, Record, Summary};

use crate::spark;
use crate::wrap::width_of;

/// The narrowest line with a column of trends.
pub const TRENDS_WIDTH: usize = 136;

/// The least range from the lowest to the highest bar, as a share of the numbers; the interval of
/// the newest number, if it is wider.
const LEAST: f64 = 0.05;

/// The series of cases up to one run; none without a store.
#[derive(Debug, Default)]
pub struct Trends(Vec<(MetricId, HistorySeries)>);

impl Trends {
    pub(crate) const NONE: Self = Self(Vec::new());

    pub fn new(series: Vec<(MetricId, HistorySeries)>) -> Self {
        Self(series)
    }

    /// `▁▁▂▁▇ +12 %`: the numbers, oldest first, and the newest lasting change; empty with fewer
    /// than two numbers.
    pub(crate) fn cell(&self, record: &Record, width: usize) -> String {
        let is_case = |(metric, series): &&(MetricId, HistorySeries)| {
            *metric == record.metric && series.params == record.params && series.far.is_none()
        };
        let Some((_, series)) = self.0.iter().find(is_case) else { return String::new() };
        let change = series
            .changes
            .last()
            .map_or(String::new(), |change| format!(" {}", signed_percent(change.ratio)));
        let values: Vec<f64> = series.points.iter().filter_map(|point| point.value).collect();
        let interval = record.shown_summary().and_then(Summary::relative_half_width);
        let least = interval.map_or(LEAST, |half| LEAST.max(2.0 * half));
        let bars = spark::trend(&values, least, width.saturating_sub(width_of(&change)));
        if bars.is_empty() { bars } else { bars + &change }
    }
}
