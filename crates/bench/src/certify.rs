//! The certificate of a gate (`--certify`): how often it fails an unchanged command on this
//! machine, and how often it finds a planted loss, by rounds of the command beside itself.

use fathom_analysis::compare::{ComparisonAnswer, gate_answer};
use fathom_analysis::statistics::median_interval;
use fathom_metric::{Measured, OwnMetric};
use fathom_record::command::{self as facts, CERTIFICATE_METRIC};
use fathom_record::quantity::percent;
use fathom_record::{Better, Cause, Counters, Fact, Params, Record, State, Unit, Verdict};

use crate::case::Case;
use crate::request::BenchSettings;

/// Rounds, each as one bench with a gate.
pub(crate) const ROUNDS: usize = 20;
/// Shares of the time of the command that are added to it, each as a case of its own behind the
/// command and its double.
pub(crate) const PLANTED: [f64; 4] = [0.01, 0.02, 0.05, 0.1];
/// Limits, and the planted share that each has to find: the least of twice the limit, or nearly.
const LIMITS: [(f64, usize); 5] = [(0.005, 0), (0.01, 1), (0.02, 2), (0.03, 2), (0.05, 3)];

/// What a gate at a limit answered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CertificateRow {
    pub(crate) limit: f64,
    planted: f64,
    rounds: usize,
    false_alarms: usize,
    undecided: usize,
    found: usize,
}

impl CertificateRow {
    /// Whether it fails and misses at most one round in 20, and passes four of five.
    fn is_gateable(&self) -> bool {
        let Self { rounds, false_alarms, undecided, found, .. } = *self;
        rounds > 0
            && 20 * false_alarms <= rounds
            && 20 * found >= 19 * rounds
            && 5 * undecided <= rounds
    }

    fn text(&self) -> String {
        let Self { planted, rounds, false_alarms, undecided, found, .. } = self;
        let undecided = match undecided {
            0 => String::new(),
            some => format!(" ({some} undecided)"),
        };
        let planted = percent(*planted);
        format!(
            "{false_alarms} of {rounds} false{undecided}, {found} of {rounds} found ({planted})"
        )
    }
}

/// Of each limit, by the times of each case in the order of blocks: the command, its double, and
/// it with each of [`PLANTED`].
pub(crate) fn rows(times: &[Vec<f64>], runs_of_round: usize) -> Vec<CertificateRow> {
    let [base, others @ ..] = times else { return Vec::new() };
    let answers = |of: &Vec<f64>, limit: f64| -> Vec<ComparisonAnswer> {
        let ratios: Vec<f64> = base.iter().zip(of).map(|(base, one)| one / base).collect();
        let intervals = ratios.chunks_exact(runs_of_round.max(1)).map(median_interval);
        let answer = |interval: Option<([f64; 2], f64)>| match interval {
            Some((interval, _)) => gate_answer(interval.map(|end| end - 1.0), limit),
            None => ComparisonAnswer::Undecided,
        };
        intervals.map(answer).collect()
    };
    let count = |all: &[ComparisonAnswer], wanted| all.iter().filter(|one| **one == wanted).count();
    let row = |(limit, planted): (f64, usize)| {
        let (equal, slower) = (others.first()?, others.get(1 + planted)?);
        let [equal, slower] = [answers(equal, limit), answers(slower, limit)];
        Some(CertificateRow {
            limit,
            planted: PLANTED[planted],
            rounds: equal.len().min(slower.len()),
            false_alarms: count(&equal, ComparisonAnswer::Fail),
            undecided: count(&equal, ComparisonAnswer::Undecided),
            found: count(&slower, ComparisonAnswer::Fail),
        })
    };
    LIMITS.into_iter().filter_map(row).collect()
}

/// The least limit from which on all can be gated.
fn least_limit(rows: &[CertificateRow]) -> Option<f64> {
    let from_the_top = rows.iter().rev().take_while(|row| row.is_gateable());
    from_the_top.last().map(|row| row.limit)
}

pub(crate) fn record(case: &Case, rows: &[CertificateRow], settings: String) -> Measured {
    let least = least_limit(rows);
    let about = [Fact::text(facts::COMMAND, &case.text), Fact::text(facts::SETTINGS, settings)];
    let answers = rows.iter().map(|row| Fact::text(&percent(row.limit), row.text()));
    Measured {
        own: Some(OwnMetric {
            id: CERTIFICATE_METRIC.to_owned(),
            title: "smallest detectable loss".to_owned(),
            unit: Unit::Ratio,
            better: Better::Lower,
            expects: Counters::NONE,
            noise_limit: 1.0,
        }),
        params: Params::one("of", case.name.as_str()),
        values: Vec::from_iter(least),
        text: least.is_none().then(|| "none up to 5 %".to_owned()),
        verdict: least.is_none().then(|| {
            Verdict::because(State::Unavailable, Cause::Spread, "runs vary too much for 5 %")
        }),
        facts: about.into_iter().chain(answers).collect(),
        ..Measured::default()
    }
}

/// The warning for a gate below the certificate of its command.
pub(crate) fn warning(
    known: &[Record],
    cases: &[Case],
    settings: &BenchSettings,
) -> Option<String> {
    let limit = settings.fail_on?;
    let is_of = |record: &&Record| {
        let has_name = |case: &Case| record.params.text("of") == Some(&case.name);
        let has_text = |case: &Case| record.text_of(facts::COMMAND) == Some(&case.text);
        record.metric.as_str() == CERTIFICATE_METRIC
            && cases.iter().any(|case| has_name(case) || has_text(case))
    };
    let certificate = known.iter().rfind(is_of)?;
    let least = certificate.shown_summary().map(|summary| summary.median);
    if least.is_some_and(|least| least <= limit) {
        return None;
    }
    let from = least
        .map_or("no loss up to 5 %".to_owned(), |it| format!("losses from {} on", percent(it)));
    let answer = certificate.text_of(&percent(limit)).map(|it| format!(": {it}"));
    Some(format!(
        "--fail-on {}: below what is detectable here; the certificate of the command has \
         {from}{}",
        percent(limit),
        answer.unwrap_or_default()
    ))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::child::ChildProgram;

    /// Times of all cases that differ by `spread` from run to run, as a saw.
    fn times(rounds: usize, runs: usize, spread: f64, planted: f64) -> Vec<Vec<f64>> {
        let mut state = 1_u64;
        let mut saw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 11) as f64 / (1_u64 << 53) as f64 - 0.5
        };
        let shares = [0.0, 0.0].into_iter().chain(PLANTED.map(|share| share * planted));
        let of_one = |share: f64, saw: &mut dyn FnMut() -> f64| {
            (0..rounds * runs).map(|_| (1.0 + share) * (1.0 + spread * saw())).collect()
        };
        shares.map(|share| of_one(share, &mut saw)).collect()
    }

    fn counts(rows: &[CertificateRow]) -> Vec<(usize, usize, bool)> {
        rows.iter().map(|row| (row.false_alarms, row.found, row.is_gateable())).collect()
    }

    #[test]
    fn narrow_times_can_be_gated_and_wide_ones_cannot() {
        let all = rows(&times(20, 9, 0.002, 1.0), 9);
        assert_eq!(counts(&all), [(0, 20, true); 5]);
        assert_eq!(all[3].text(), "0 of 20 false, 20 of 20 found (5.0 %)");
        let wide = counts(&rows(&times(20, 9, 0.5, 1.0), 9));
        assert!(wide.iter().all(|(_, _, is_gateable)| !is_gateable), "{wide:?}");
        let blind = counts(&rows(&times(20, 9, 0.002, 0.0), 9));
        assert_eq!(blind, [(0, 0, false); 5], "nothing planted is found");
        assert!(rows(&times(0, 9, 0.0, 1.0), 9).iter().all(|row| !row.is_gateable()));
    }

    #[test]
    fn false_alarms_and_undecided_rounds_forbid_a_limit() {
        let row = |false_alarms, undecided, found| {
            let (limit, planted, rounds) = (0.03, 0.05, 20);
            CertificateRow { limit, planted, rounds, false_alarms, undecided, found }.is_gateable()
        };
        assert!(row(0, 0, 20) && row(1, 4, 19));
        assert!(!row(2, 0, 20) && !row(0, 5, 20) && !row(0, 0, 18));
    }
    #[test]
    fn all_limits_above_the_least_can_be_gated() {
        let row = |limit, found| {
            let (planted, rounds, false_alarms, undecided) = (0.05, 20, 0, 0);
            CertificateRow { limit, planted, rounds, false_alarms, undecided, found }
        };
        let least = |found: [usize; 3]| {
            let limits = [0.01, 0.02, 0.03].into_iter().zip(found);
            least_limit(&limits.map(|(limit, found)| row(limit, found)).collect::<Vec<_>>())
        };
        assert_eq!(least([20, 20, 20]), Some(0.01));
        assert_eq!(least([20, 0, 20]), Some(0.03), "by chance");
        assert_eq!(least([20, 20, 0]), None);
    }

    #[test]
    fn gates_below_the_certificate_of_their_command_are_warned() {
        let case = Case {
            command: 0,
            name: "x".to_owned(),
            is_named: true,
            folder: None,
            params: Params::none(),
            text: "true".to_owned(),
            program: ChildProgram::new(Path::new("/bin/true"), &[]).expect("a program"),
            exit: vec![0],
            output: None,
            hooks: [const { None }; 4],
        };
        let of = |name: &str, least| {
            let record = Record::fixture(CERTIFICATE_METRIC, Unit::Ratio).measured([least; 3]);
            record.of_case(&Params::one("of", name))
        };
        let warned = |known: &[Record], fail_on| {
            let settings = BenchSettings { fail_on, ..BenchSettings::default() };
            warning(known, std::slice::from_ref(&case), &settings)
        };
        let known = [of("x", 0.02)];
        let text = warned(&known, Some(0.01)).expect("a warning");
        assert!(text.contains("--fail-on 1.0 %") && text.contains("from 2.0 % on"), "{text}");
        assert_eq!(warned(&known, Some(0.02)), None);
        assert_eq!(warned(&known, None), None);
        assert_eq!(warned(&[of("y", 0.02)], Some(0.01)), None, "another command");
    }
}
