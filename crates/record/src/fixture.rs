//! Records and documents of tests, with a default for everything that a test does not set.

use crate::{
    Basis, Better, Document, Estimate, Interval, MetricId, NoModel, NotSelected, Params,
    Prediction, Reason, Record, State, Stratum, Summary, Tool, Unit, Verdict,
};

/// A document in which every field has a value, as the store wrote it.
pub const WHOLE_DOCUMENT: &str = include_str!("../../store/tests/golden/document.json");

impl Document {
    pub fn fixture() -> Self {
        serde_json::from_str(WHOLE_DOCUMENT).expect("a document")
    }
}

impl Tool {
    pub fn fixture() -> Self {
        Self { name: "fathom".to_owned(), version: "0.1.0".to_owned(), compiler: None }
    }
}

impl Interval {
    /// The interval of the medians of five processes.
    pub fn of_processes(ends: [f64; 2]) -> Self {
        Self::new(ends, 0.9375, Basis::Processes)
    }
}

impl Record {
    /// A valid record without a result. Times are better when lower, rates when higher.
    pub fn fixture(metric: &str, unit: Unit) -> Self {
        let better = match unit {
            Unit::Nanoseconds => Better::Lower,
            Unit::BytesPerSecond | Unit::PerSecond => Better::Higher,
            Unit::Bytes | Unit::Hertz | Unit::Ratio => Better::Neither,
        };
        let record = Self::new(MetricId::new(metric), Params::none(), "", unit, better);
        Self { visit: metric.to_owned(), ..record }
    }

    #[must_use]
    pub fn of_case(self, params: &Params) -> Self {
        Self { params: params.clone(), ..self }
    }

    /// With a median and an interval.
    #[must_use]
    pub fn measured(self, [low, median, high]: [f64; 3]) -> Self {
        let interval = Some(Interval::of_processes([low, high]));
        Self { summary: Some(Summary { median, interval, ..Summary::default() }), ..self }
    }

    /// With the interval `median` ± `half_width`.
    #[must_use]
    pub fn within(self, median: f64, half_width: f64) -> Self {
        self.measured([median - half_width, median, median + half_width])
    }

    /// With the medians of `count` processes, evenly within ± `share` of `median`.
    #[must_use]
    pub fn of_processes(self, median: f64, share: f64, count: usize) -> Self {
        let place = |at: usize| (at as f64 / (count - 1) as f64 - 0.5) * 2.0 * share;
        let process_medians = (0..count).map(|at| median * (1.0 + place(at))).collect();
        Self { summary: Some(Summary { median, process_medians, ..Summary::default() }), ..self }
    }

    #[must_use]
    pub fn with_summary(mut self, change: impl FnOnce(&mut Summary)) -> Self {
        change(self.summary.as_mut().expect("a measured record"));
        self
    }

    #[must_use]
    pub fn titled(self, title: &str) -> Self {
        Self { title: title.to_owned(), ..self }
    }

    #[must_use]
    pub fn judged(self, state: State, reasons: Vec<Reason>) -> Self {
        Self { verdict: Verdict { state, reasons }, ..self }
    }

    #[must_use]
    pub fn without_model(self, why: NoModel) -> Self {
        Self { no_model: Some(why), ..self }
    }

    /// With the sum of two parts as its prediction.
    #[must_use]
    pub fn predicted(self, hardware: f64, software: f64, tolerance: f64) -> Self {
        self.claimed(Prediction::sum(hardware, software, tolerance, "hardware + software", "test"))
    }

    /// With a prediction, and its agreement with the interval.
    #[must_use]
    pub fn claimed(self, prediction: Prediction) -> Self {
        let interval = self.summary.as_ref().and_then(Summary::limits);
        let agreement = Some(prediction.agreement(interval));
        Self { agreement, prediction: Some(prediction), ..self }
    }

    /// At full speed by the first five clean of `of` visits, with this as-found median.
    #[must_use]
    pub fn selected(self, of: u32, as_found: f64) -> Self {
        self.with_summary(|summary| {
            let estimate = estimate(summary, 1.0);
            summary.as_found = Some(self::estimate(summary, as_found / summary.median));
            summary.in_state = Some(Estimate { of, ..estimate });
            summary.stratum = Stratum::ToItself;
        })
    }

    /// Unfiltered only, for this reason.
    #[must_use]
    pub fn found(self, why: NotSelected) -> Self {
        self.with_summary(|summary| {
            summary.as_found = Some(estimate(summary, 1.0));
            summary.not_selected = Some(why);
        })
    }
}

/// The estimate of a summary by five visits, scaled.
fn estimate(summary: &Summary, times: f64) -> Estimate {
    let limits = |it: Interval| it.limits().map(|end| end * times);
    Estimate {
        median: summary.median * times,
        interval: summary.interval.map(|it| Interval::of_processes(limits(it))),
        visits: 5,
        of: 5,
        process_medians: summary.process_medians.iter().map(|value| value * times).collect(),
        process_loops: vec![8_913.0; summary.process_medians.len()],
    }
}
