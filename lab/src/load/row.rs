//! What was expected of a trial and what was found.

use fathom_analysis::load::mean_value_analysis;
use fathom_lab::limited::{LimitedFound, LimitedNumber};
use fathom_record::State;
use serde::{Deserialize, Serialize};

use super::trial::{RANDOM, Trial, TrialExpected};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum LoadOutcome {
    Right,
    Undetermined,
    WrongName,
    WrongRate,
    WrongKnee,
    /// A saturation below the knee, or steps of a limited load generator.
    WrongClaim,
    /// A response time or a rate that is far from the theory.
    OffTheory,
}

/// A number beside that of a theory.
#[derive(Clone, Debug)]
pub(super) struct LoadCompared {
    pub(super) what: String,
    pub(super) expected: f64,
    pub(super) found: f64,
}

impl LoadCompared {
    /// Of times in seconds, in milliseconds.
    pub(super) fn ms(what: &str, expected_s: f64, found_s: f64) -> Self {
        let what = format!("{what}, ms");
        Self { what, expected: 1e3 * expected_s, found: 1e3 * found_s }
    }

    fn deviation(&self) -> f64 {
        self.found / self.expected - 1.0
    }
}

fathom_record::words!(
    LoadOutcome.words,
    Right = "right",
    Undetermined = "undetermined",
    WrongName = "WRONG NAME",
    WrongRate = "WRONG RATE",
    WrongKnee = "WRONG KNEE",
    WrongClaim = "WRONG CLAIM",
    OffTheory = "OFF THEORY"
);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct LabRow {
    pub(super) outcome: LoadOutcome,
    cells: [String; 9],
}

pub(super) const HEAD: [&str; 10] = [
    "limit",
    "load",
    "expected",
    "requests/s",
    "found",
    "requests/s found",
    "knee",
    "clients for 95 %",
    "evidence",
    "",
];

/// The limits of a number of clients for 95 %: constant service, and exact mean-value analysis of
/// random service, ± 1.
fn clients_95(rate: f64, think_s: f64) -> [f64; 2] {
    let knee = 1.0 + think_s * rate;
    let reaches =
        |clients: &u32| mean_value_analysis(&[1.0 / rate], think_s, *clients) >= 0.95 * rate;
    let random = (1..1000).find(reaches).map_or(f64::INFINITY, f64::from);
    [0.95 * knee - 1.0, random + 1.0]
}

impl LabRow {
    pub(super) fn from_trial(trial: &Trial, rate: Option<f64>, found: &LimitedFound) -> Self {
        let expected = match trial.expected {
            TrialExpected::Limit(_) | TrialExpected::Knee(_) => trial.limit.name().to_owned(),
            TrialExpected::Another => format!("not {}", trial.limit.name()),
            TrialExpected::Nothing => "not saturated".to_owned(),
        };
        let number = |number: Option<LimitedNumber>| {
            number.map_or_else(
                || "-".to_owned(),
                |it| match it.interval {
                    Some(interval) => format!(
                        "{} ({}–{})",
                        digits(it.value),
                        digits(interval.low),
                        digits(interval.high)
                    ),
                    None => digits(it.value),
                },
            )
        };
        let compared = match (found.saturation, rate) {
            (Some(found), Some(rate)) => format!(", {:+.1} %", 100.0 * (found.value / rate - 1.0)),
            _ => String::new(),
        };
        let is_knee = matches!(trial.expected, TrialExpected::Knee(_));
        let limits = rate.filter(|_| is_knee).map(|rate| clients_95(rate, trial.think_s));
        let knee = rate.map(|rate| 1.0 + trial.think_s * rate);
        let knee = knee.map_or_else(String::new, |knee| format!("{} expected, ", digits(knee)));
        let limits_words = limits
            .map_or_else(String::new, |[low, high]| format!("{low:.1} to {high:.1} expected, "));
        Self {
            outcome: outcome(trial, rate, limits, found),
            cells: [
                trial.limit.words(),
                format!(
                    "{} files of {} B: {}",
                    trial.files.count, trial.files.bytes, trial.options
                ),
                expected,
                rate.map_or_else(|| "-".to_owned(), digits),
                found.name.clone(),
                number(found.saturation) + &compared,
                knee + &number(found.knee),
                limits_words + &number(found.clients_95),
                evidence(found),
            ],
        }
    }

    /// A load whose numbers a theory gives, each within this share.
    pub(super) fn of_theory(
        limit: &str,
        options: &str,
        rate: f64,
        compared: &[LoadCompared],
        within: f64,
    ) -> Self {
        let is_near = compared.iter().all(|one| one.deviation().abs() <= within);
        let words = |of: fn(&LoadCompared) -> String| {
            let all = compared.iter().map(|one| format!("{} {}", one.what, of(one)));
            all.collect::<Vec<_>>().join("; ")
        };
        let found =
            words(|one| format!("{}, {:+.1} %", digits(one.found), 100.0 * one.deviation()));
        let none = || "-".to_owned();
        Self {
            outcome: if is_near { LoadOutcome::Right } else { LoadOutcome::OffTheory },
            cells: [
                limit.to_owned(),
                options.to_owned(),
                words(|one| digits(one.expected)),
                digits(rate),
                found,
                none(),
                none(),
                none(),
                none(),
            ],
        }
    }

    pub(super) fn cells(&self) -> [String; 10] {
        let mut cells = self.cells.iter().cloned().chain([self.outcome.words().to_owned()]);
        std::array::from_fn(|_| cells.next().unwrap_or_default())
    }
}

fn evidence(found: &LimitedFound) -> String {
    let mut parts: Vec<String> = found
        .utilisations
        .iter()
        .map(|(name, share)| format!("{name} {:.0} %", 100.0 * share))
        .collect();
    let invalid: Vec<String> = found
        .steps
        .iter()
        .filter(|step| step.2 == State::Invalid)
        .map(|step| step.0.to_string())
        .collect();
    if !invalid.is_empty() {
        parts.push(format!("invalid with {} clients", invalid.join(", ")));
    }
    parts.extend(found.proof.clone());
    // Two records may have the same reason.
    for why in &found.why {
        if !parts.contains(why) {
            parts.push(why.clone());
        }
    }
    parts.join("; ")
}

fn outcome(
    trial: &Trial,
    rate: Option<f64>,
    limits: Option<[f64; 2]>,
    found: &LimitedFound,
) -> LoadOutcome {
    let name = trial.limit.name();
    // A load that ended early has no name.
    let is_undetermined = ["undetermined", "-"].contains(&found.name.as_str());
    let (tolerance, is_named) = match trial.expected {
        TrialExpected::Another => {
            return if found.name == name { LoadOutcome::WrongName } else { LoadOutcome::Right };
        }
        TrialExpected::Nothing => {
            return match (found.saturation, is_undetermined) {
                (Some(_), _) => LoadOutcome::WrongClaim,
                (None, true) => LoadOutcome::Right,
                (None, false) => LoadOutcome::WrongName,
            };
        }
        TrialExpected::Limit(tolerance) => (tolerance, found.name == name),
        TrialExpected::Knee(tolerance) => (tolerance, is_undetermined || found.name == name),
    };
    // Short windows of random runs: the interval must include what is expected.
    let is_off = |found: LimitedNumber, rate: f64| {
        let interval = found.interval.filter(|_| trial.part == RANDOM);
        let [low, high] = interval.map_or([found.value; 2], |it| [it.low, it.high]);
        low > rate * (1.0 + tolerance) || high < rate * (1.0 - tolerance)
    };
    let is_valid = found.steps.last().is_some_and(|step| step.2 != State::Invalid);
    match (found.saturation, rate) {
        _ if is_undetermined && limits.is_none() => LoadOutcome::Undetermined,
        _ if !is_named => LoadOutcome::WrongName,
        _ if name == "client" && is_valid => LoadOutcome::WrongClaim,
        (Some(found), Some(rate)) if is_off(found, rate) => LoadOutcome::WrongRate,
        // A busy CPU has a name before throughput is level.
        (None, Some(_)) if name != "server-cpu" => LoadOutcome::Undetermined,
        _ => match (limits, found.clients_95) {
            (Some([low, high]), Some(found)) if !(low..=high).contains(&found.value) => {
                LoadOutcome::WrongKnee
            }
            _ => LoadOutcome::Right,
        },
    }
}

/// Three or four significant digits.
fn digits(value: f64) -> String {
    match value {
        it if it >= 1000.0 => format!("{it:.0}"),
        it if it >= 100.0 => format!("{it:.1}"),
        it if it >= 10.0 => format!("{it:.2}"),
        it => format!("{it:.3}"),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use fathom_lab::limited::{ImposedLimit, LimitedFiles, LimitedServer};
    use fathom_record::{Basis, Interval};

    use super::*;

    /// A row with an outcome.
    pub(in crate::load) fn row(outcome: LoadOutcome) -> LabRow {
        let found = found("disk", Some(50.0));
        LabRow {
            outcome,
            ..LabRow::from_trial(&trial(TrialExpected::Limit(0.05)), Some(50.0), &found)
        }
    }

    /// A disk of 50 requests/s.
    fn trial(expected: TrialExpected) -> Trial {
        let files = LimitedFiles { count: 10, bytes: 1_000_000, are_cold: true };
        let (part, options) = ("disk", String::new());
        let (server, limit) = (LimitedServer::Fathom, ImposedLimit::Disk(50e6));
        Trial { part, server, limit, files, think_s: 0.0, options, expected }
    }

    fn found(name: &str, saturation: Option<f64>) -> LimitedFound {
        let number = |value| LimitedNumber { value, interval: None };
        LimitedFound {
            name: name.to_owned(),
            saturation: saturation.map(number),
            steps: vec![(8, saturation, State::Valid)],
            ..LimitedFound::default()
        }
    }

    #[test]
    fn wrong_answers_are_not_right() {
        let of =
            |expected, found: &LimitedFound| outcome(&trial(expected), Some(50.0), None, found);
        let limit = TrialExpected::Limit(0.05);
        assert_eq!(of(limit, &found("disk", Some(51.0))), LoadOutcome::Right);
        assert_eq!(of(limit, &found("disk", Some(53.0))), LoadOutcome::WrongRate);
        assert_eq!(of(limit, &found("network", Some(50.0))), LoadOutcome::WrongName);
        assert_eq!(of(limit, &found("undetermined", Some(50.0))), LoadOutcome::Undetermined);
        assert_eq!(of(limit, &found("disk", None)), LoadOutcome::Undetermined);
        assert_eq!(of(TrialExpected::Nothing, &found("undetermined", None)), LoadOutcome::Right);
        assert_eq!(
            of(TrialExpected::Nothing, &found("undetermined", Some(9.0))),
            LoadOutcome::WrongClaim
        );
        assert_eq!(of(TrialExpected::Nothing, &found("disk", None)), LoadOutcome::WrongName);
        assert_eq!(of(TrialExpected::Another, &found("disk", Some(50.0))), LoadOutcome::WrongName);
        assert_eq!(of(TrialExpected::Another, &found("client", None)), LoadOutcome::Right);
    }

    #[test]
    fn numbers_far_from_a_theory_are_not_right() {
        let of = |found| {
            let compared =
                [LoadCompared::ms("mean", 0.01, 0.0101), LoadCompared::ms("p90", 0.02, found)];
            LabRow::of_theory("a section", "--rate 9", 9.0, &compared, 0.1)
        };
        assert_eq!(of(0.0219).outcome, LoadOutcome::Right);
        assert_eq!(of(0.0221).outcome, LoadOutcome::OffTheory);
        assert_eq!(of(0.0219).cells[4], "mean, ms 10.10, +1.0 %; p90, ms 21.90, +9.5 %");
    }

    #[test]
    fn interval_of_a_random_run_includes_the_rate() {
        let mut trial = trial(TrialExpected::Limit(0.02));
        let mut wide = found("disk", Some(55.0));
        let interval = Interval::new([50.5, 60.0], 0.95, Basis::WithinRun);
        wide.saturation = Some(LimitedNumber { value: 55.0, interval: Some(interval) });
        assert_eq!(outcome(&trial, Some(50.0), None, &wide), LoadOutcome::WrongRate);
        trial.part = RANDOM;
        assert_eq!(outcome(&trial, Some(50.0), None, &wide), LoadOutcome::Right);
        assert_eq!(outcome(&trial, Some(45.0), None, &wide), LoadOutcome::WrongRate);
    }

    #[test]
    fn limited_generator_has_invalid_steps() {
        let limit = ImposedLimit::Client(0.2);
        let trial = Trial { limit, ..trial(TrialExpected::Limit(1.0)) };
        let mut client = found("client", None);
        assert_eq!(outcome(&trial, None, None, &client), LoadOutcome::WrongClaim);
        client.steps[0].2 = State::Invalid;
        assert_eq!(outcome(&trial, None, None, &client), LoadOutcome::Right);
    }

    #[test]
    fn clients_for_95_percent_are_bounded_by_theory() {
        // 167 ms per request and 1 s of think time: a knee of 6.99.
        let [low, high] = clients_95(1.0 / 0.167, 1.0);
        assert!((low - (0.95 * 6.988 - 1.0)).abs() < 1e-3, "{low}");
        let before = mean_value_analysis(&[0.167], 1.0, high as u32 - 2) * 0.167;
        let reached = mean_value_analysis(&[0.167], 1.0, high as u32 - 1) * 0.167;
        assert!(before < 0.95 && reached >= 0.95, "{high}");
    }
}
