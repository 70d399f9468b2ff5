//! Random arrivals at a section in which each request is alone: the theory of one queue with
//! constant service (M/D/1), for response times and for the highest rate within a limit.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result};
use fathom_analysis::load::constant_service_waits_beyond;
use fathom_lab::limited::{ImposedLimit, LabLimited, LimitedFiles, LimitedFound, LimitedServer};
use fathom_record::{Document, FactValue, Record};

use super::row::{LabRow, LoadCompared};

/// What `fathom serve` is given; the service time is measured first.
const SECTION: ImposedLimit = ImposedLimit::Serial(4e-3);
const FILES: LimitedFiles = LimitedFiles { count: 1, bytes: 1 << 10, are_cold: false };
const ALONE: &str = "--clients 1,8 --time 15s";
/// Of the section.
const UTILISATIONS: [f64; 2] = [0.5, 0.8];
const TIME: &str = "300s";
const WITHIN: f64 = 0.1;
const LIMIT_S: f64 = 0.05;
const SEARCH: &str = "--find-max --arrivals poisson --slo p99<50ms --time 60s";
const SEARCH_WITHIN: f64 = 0.05;

/// The section, and a request alone.
struct TheoryKnown {
    section_s: f64,
    alone_s: f64,
}

impl TheoryKnown {
    /// From one client, and from as many as saturate the section.
    fn from_document(document: &Document) -> Result<Self> {
        let saturated = LimitedFound::from_document(document)
            .saturation
            .context("the section is not saturated")?;
        let alone = response_times(document, "clients", 1).context("no step of one client")?;
        Ok(Self { section_s: 1.0 / saturated.value, alone_s: mean_s(alone)? })
    }

    fn mean_s(&self, rate: f64) -> f64 {
        let load = rate * self.section_s;
        self.alone_s + load / 2.0 / (1.0 - load) * self.section_s
    }

    fn words(&self) -> String {
        let [section, alone] = [self.section_s, self.alone_s].map(|seconds| 1e3 * seconds);
        format!("serial section of {section:.3} ms, a request alone {alone:.3} ms")
    }

    /// The response time that this share of the requests exceeds.
    fn exceeded_s(&self, rate: f64, share: f64) -> f64 {
        let beyond = |services| constant_service_waits_beyond(rate * self.section_s, services);
        self.alone_s + self.section_s * bisect([0.0, 16.0], |services| beyond(services) > share)
    }

    /// The rate at which one in a hundred takes longer than the limit.
    fn highest(&self) -> f64 {
        let ends = [0.01, 0.99].map(|load| load / self.section_s);
        bisect(ends, |rate| self.exceeded_s(rate, 0.01) < LIMIT_S)
    }
}

/// Where a condition ends that holds below.
fn bisect([mut low, mut high]: [f64; 2], holds: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..50 {
        let middle = (low + high) / 2.0;
        *(if holds(middle) { &mut low } else { &mut high }) = middle;
    }
    low
}

/// All loads, each of which must end within the time that the lab waits for one.
pub(super) fn measure(program: &Path, stop: &AtomicBool) -> Result<Vec<LabRow>> {
    let folder = tempfile::tempdir_in("/var/tmp").context("create a folder")?;
    let place = (program, folder.path(), "theory");
    let limited = LabLimited::start_as(LimitedServer::Fathom, place, SECTION, FILES)?;
    let known = TheoryKnown::from_document(&limited.measure(ALONE, stop)?)?;
    let mut rows = Vec::new();
    for load in UTILISATIONS {
        let rate = (load / known.section_s).round();
        let options = format!("--rate {rate} --time {TIME}");
        let document = limited.measure(&options, stop)?;
        let found = response_times(&document, "rate", rate as i64).context("no response times")?;
        let compared = [
            LoadCompared::ms("mean", known.mean_s(rate), mean_s(found)?),
            LoadCompared::ms("p90", known.exceeded_s(rate, 0.1), quantile_s(found, 0.9)?),
        ];
        rows.push(LabRow::of_theory(&known.words(), &options, rate, &compared, WITHIN));
    }
    let document = limited.measure(SEARCH, stop)?;
    let is_answer = |record: &&Record| {
        record.metric.as_str() == "load.max_rate" && record.verdict.shows_number()
    };
    let answer = document.records.iter().find(is_answer).context("no highest rate")?;
    let highest = answer.summary.as_ref().context("no highest rate")?;
    let ends = highest.interval.map(|it| format!(" ({:.1} to {:.1})", it.low, it.high));
    let compared = LoadCompared {
        what: "highest rate".to_owned() + &ends.unwrap_or_default(),
        expected: known.highest(),
        found: highest.median,
    };
    rows.push(LabRow::of_theory(
        &known.words(),
        SEARCH,
        highest.median,
        &[compared],
        SEARCH_WITHIN,
    ));
    Ok(rows)
}

fn response_times<'d>(document: &'d Document, name: &str, value: i64) -> Option<&'d Record> {
    document.records.iter().find(|record| {
        record.metric.as_str() == "load.response_time"
            && record.params.integer(name) == Some(value)
            && !record.params.0.contains_key("from")
            && record.verdict.shows_number()
    })
}

fn mean_s(record: &Record) -> Result<f64> {
    let mean = record.facts.iter().find(|fact| fact.name == "mean").map(|fact| &fact.value);
    match mean {
        Some(FactValue::Quantity { value, .. }) => Ok(value / 1e9),
        _ => anyhow::bail!("no mean response time"),
    }
}

fn quantile_s(record: &Record, q: f64) -> Result<f64> {
    let all = record.summary.iter().flat_map(|summary| &summary.quantiles);
    let found = all.filter(|one| (one.q - q).abs() < 1e-9).map(|one| one.value / 1e9).next();
    found.context("a quantile has too few responses")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn theory_of_a_section_agrees_with_hand_calculation() {
        let known = TheoryKnown { section_s: 4e-3, alone_s: 4.1e-3 };
        // ρ ÷ 2 ÷ (1 − ρ): half a service at 50 %, two at 80 %.
        assert!((known.mean_s(125.0) - 6.1e-3).abs() < 1e-12);
        assert!((known.mean_s(200.0) - 12.1e-3).abs() < 1e-12);
        // Half of the requests wait at 50 %.
        assert!((known.exceeded_s(125.0, 0.4999) - 4.1e-3).abs() < 1e-5);
        let highest = known.highest();
        assert!((known.exceeded_s(highest, 0.01) - LIMIT_S).abs() < 1e-5, "{highest}");
    }
}
