//! Conditions on the steps of a load, such as `p99>50ms`: for the exit status of a test.

use fathom_record::quantity::{percent, quantity};
use fathom_record::{Cause, Histogram, Record, State, Summary, Unit, load_facts};

use super::search::Seen;
use super::tail::share_limits;
use crate::limits::{LimitAnswer, LimitJudged, UserLimit};

/// What a condition is about.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Of {
    /// A quantile of the response times; the median is an own one.
    Quantile(f64, &'static str),
    Mean,
    Max,
    Errors,
    Throughput,
}

const NAMES: [(&str, Of); 9] = [
    ("p50", Of::Quantile(0.5, "p50")),
    ("median", Of::Quantile(0.5, "p50")),
    ("p90", Of::Quantile(0.9, "p90")),
    ("p99.9", Of::Quantile(0.999, "p99.9")),
    ("p99", Of::Quantile(0.99, "p99")),
    ("mean", Of::Mean),
    ("max", Of::Max),
    ("errors", Of::Errors),
    ("throughput", Of::Throughput),
];

/// Of an interval; the upper one may be open.
type ConditionEnds = (f64, Option<f64>);

/// A condition with its text.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadCondition {
    of: Of,
    /// Whether it is met above the value, else below.
    is_above: bool,
    value: f64,
    text: String,
}

/// Conditions separated by commas.
///
/// # Errors
/// The first one that is none.
pub fn conditions(text: &str) -> Result<Vec<LoadCondition>, String> {
    text.split(',').map(|part| LoadCondition::parse(part.trim())).collect()
}

/// Limits of good responses, separated by commas: times and errors below, throughput above.
///
/// # Errors
/// The first one that is none.
pub fn objectives(text: &str) -> Result<Vec<LoadCondition>, String> {
    let all = conditions(text)?;
    match all.iter().find(|one| one.is_above != (one.of == Of::Throughput)) {
        Some(one) => Err(format!(
            "`{}`: limits of good responses are times and errors below, such as p99<50ms and \
             errors<0.1%, and throughput above",
            one.text
        )),
        None => Ok(all),
    }
}

impl LoadCondition {
    fn parse(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}`: expected a condition such as p99>50ms, errors>0.1% or throughput<500, \
                 of p50, p90, p99, p99.9, mean, max, errors or throughput"
            )
        };
        let at = text.find(['<', '>']).ok_or_else(wrong)?;
        let (name, limit) = (text[..at].trim(), text[at + 1..].trim());
        let (_, of) = NAMES.iter().find(|(known, _)| *known == name).ok_or_else(wrong)?;
        let end = limit.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(limit.len());
        let (number, unit) = (&limit[..end], limit[end..].trim());
        let factor = match (of, unit) {
            (Of::Errors, "%") => 0.01,
            (Of::Errors | Of::Throughput, "") | (Of::Throughput, "/s") => 1.0,
            (Of::Quantile(..) | Of::Mean | Of::Max, unit) => match unit {
                "ns" => 1.0,
                "us" | "µs" | "μs" => 1e3,
                "ms" => 1e6,
                "s" => 1e9,
                "" if number.parse::<f64>().is_ok() => {
                    let known = &text[..=at];
                    return Err(format!(
                        "`{text}`: a time needs a unit, such as {known}{number}ms"
                    ));
                }
                _ => return Err(wrong()),
            },
            _ => return Err(wrong()),
        };
        let value = number.parse::<f64>().map_err(|_| wrong())? * factor;
        if *of == Of::Errors && value > 1.0 {
            return Err(wrong());
        }
        Ok(Self { of: *of, is_above: &text[at..=at] == ">", value, text: text.to_owned() })
    }

    /// The name of what the condition is about, and its value as written: `p99`, `50ms`.
    #[must_use]
    pub fn parts(&self) -> (&str, &str) {
        let at = self.text.find(['<', '>']).unwrap_or(0);
        (self.text[..at].trim(), self.text[at + 1..].trim())
    }

    /// The responses that it needs: ten beyond a quantile.
    #[must_use]
    pub fn responses_min(&self) -> f64 {
        match self.of {
            // Less a rounding error.
            Of::Quantile(q, _) => 10.0 / (1.0 - q) * (1.0 - 1e-9),
            _ => 0.0,
        }
    }

    /// The condition that it is broken: `p99>50ms` of `p99<50ms`.
    #[must_use]
    pub fn broken(&self) -> Self {
        let [from, to] = if self.is_above { ['>', '<'] } else { ['<', '>'] };
        let text = self.text.replace(from, &to.to_string());
        Self { is_above: !self.is_above, text, ..self.clone() }
    }

    /// As it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The value of what it is about, unless it holds: of these response times, this share of
    /// errors and this throughput.
    #[must_use]
    pub fn broken_by(&self, times: &Histogram, errors: f64, throughput: f64) -> Option<String> {
        let value = match self.of {
            Of::Quantile(q, _) => times.quantile(q)?,
            Of::Mean => times.mean(),
            Of::Max => times.max(),
            Of::Errors => errors,
            Of::Throughput => throughput,
        };
        let holds = if self.is_above { value >= self.value } else { value <= self.value };
        (!holds).then(|| Self::words(self.unit(), value))
    }

    /// What a window shows of it: of these response times, of requests that failed and that had no
    /// response, and of this throughput.
    #[must_use]
    pub fn seen(&self, times: &Histogram, [failed, unanswered]: [u64; 2], throughput: f64) -> Seen {
        let of = times.len();
        match self.of {
            Of::Quantile(q, _) => {
                let beyond = times.timings().into_iter().filter(|(ns, _)| *ns > self.value);
                let beyond: u64 = beyond.map(|(_, count)| count).sum();
                Seen::Share { beyond: beyond + unanswered, of: of + unanswered, allowed: 1.0 - q }
            }
            Of::Errors if 0.0 < self.value && self.value < 1.0 => {
                Seen::Share { beyond: failed, of: of + failed, allowed: self.value }
            }
            Of::Mean | Of::Max | Of::Errors | Of::Throughput => {
                let errors = failed as f64 / (of + failed).max(1) as f64;
                Seen::Holds(self.broken_by(times, errors, throughput).is_none())
            }
        }
    }

    fn unit(&self) -> Unit {
        match self.of {
            Of::Quantile(..) | Of::Mean | Of::Max => Unit::Nanoseconds,
            Of::Errors => Unit::Ratio,
            Of::Throughput => Unit::PerSecond,
        }
    }

    /// As it is printed: `61.2 ms`, `0.04 %`, `480 requests/s`.
    #[must_use]
    pub fn words(unit: Unit, value: f64) -> String {
        match unit {
            Unit::Ratio => percent(value),
            Unit::PerSecond => format!("{} requests/s", fathom_record::quantity::bare(value)),
            unit => quantity(value, unit),
        }
    }

    /// The answer for all steps of a load, that is the one of the worst: *kept* if no step meets
    /// the condition.
    #[must_use]
    pub fn judge(&self, records: &[Record]) -> LimitJudged {
        let is_step = |record: &&Record| record.metric.as_str() == "load.throughput";
        let all = records.iter().filter(is_step).map(|step| self.judge_step(step, records));
        let sign = if self.is_above { 1.0 } else { -1.0 };
        let bad = |it: &LimitJudged| sign * it.value.unwrap_or(f64::NAN);
        let worst = all.min_by(|a, b| {
            let by_value = bad(b).partial_cmp(&bad(a)).unwrap_or(std::cmp::Ordering::Equal);
            a.answer.cmp(&b.answer).then(by_value)
        });
        worst.unwrap_or_else(|| self.judged(None, None, "", "no step was measured"))
    }

    fn judge_step(&self, step: &Record, records: &[Record]) -> LimitJudged {
        let at = match (step.params.0.get("rate"), step.params.0.get("clients")) {
            (Some(rate), _) => format!("{rate} requests/s"),
            (None, Some(clients)) if clients.to_string() == "1" => "1 client".to_owned(),
            (None, Some(clients)) => format!("{clients} clients"),
            (None, None) => String::new(),
        };
        let times = || {
            let is_own = |one: &&Record| {
                one.metric.as_str() == "load.response_time" && one.params == step.params
            };
            let record = records.iter().find(is_own)?;
            Some((record, record.shown_summary()?))
        };
        let shown = |limits: Option<[f64; 2]>| limits.map(|[low, high]| (low, Some(high)));
        let found: Option<(f64, Option<ConditionEnds>)> = match self.of {
            Of::Throughput => step.shown_summary().map(|one| (one.median, shown(one.limits()))),
            Of::Errors => {
                let all = step.quantity_of(load_facts::REQUESTS).filter(|all| *all > 0.0);
                step.quantity_of(load_facts::ERRORS).zip(all).map(|(errors, all)| {
                    let share = errors / all;
                    (share, shown(Some(share_limits(share, all))))
                })
            }
            Of::Max => times().map(|(_, one)| (one.max, shown(Some([one.max, one.max])))),
            Of::Mean => {
                times().map(|(record, one)| (one.mean, limits_of(record, load_facts::MEAN)))
            }
            Of::Quantile(0.5, _) => times().map(|(_, one)| (one.median, shown(one.limits()))),
            Of::Quantile(q, name) => {
                times().and_then(|(record, one)| Some((quantile(one, q)?, limits_of(record, name))))
            }
        };
        let reason = step.verdict.reasons.first();
        let without = || {
            let why = reason.map_or("", |reason| reason.text.as_str());
            format!("no {}: {why}", self.parts().0)
        };
        match found {
            Some((value, limits)) => self.judged(Some(value), limits, &at, ""),
            // Response times behind a queue that grows have no upper limit.
            None if self.unit() == Unit::Nanoseconds && self.is_above && is_too_slow(step) => {
                LimitJudged {
                    answer: LimitAnswer::NotKept,
                    ..self.judged(None, None, &at, &without())
                }
            }
            None if step.verdict.shows_number() => {
                self.judged(None, None, &at, "too few responses: measure longer")
            }
            None => self.judged(None, None, &at, &without()),
        }
    }

    fn judged(
        &self,
        value: Option<f64>,
        limits: Option<ConditionEnds>,
        at: &str,
        why: &str,
    ) -> LimitJudged {
        let (low, high) = limits.map_or((f64::NEG_INFINITY, f64::INFINITY), |(low, high)| {
            (low, high.unwrap_or(f64::INFINITY))
        });
        let (is_kept, is_met) = match self.is_above {
            true => (high <= self.value, low > self.value),
            false => (low >= self.value, high < self.value),
        };
        let answer = match (is_kept, is_met) {
            (true, _) => LimitAnswer::Kept,
            (_, true) => LimitAnswer::NotKept,
            _ => LimitAnswer::Undecided,
        };
        let why = match (answer, why, limits) {
            (_, why, _) if !why.is_empty() => Some(why.to_owned()),
            (LimitAnswer::Undecided, _, None) => {
                Some("without an interval: measure longer".to_owned())
            }
            (LimitAnswer::Undecided, ..) => Some("the limit is within the interval".to_owned()),
            _ => None,
        };
        let limit = match self.is_above {
            true => UserLimit { low: None, high: Some(self.value) },
            false => UserLimit { low: Some(self.value), high: None },
        };
        let interval = limits.and_then(|(low, high)| Some([low, high?]));
        let (unit, written) = (self.unit(), self.text.clone());
        LimitJudged { name: at.to_owned(), unit, limit, written, value, interval, answer, why }
    }
}

fn quantile(summary: &Summary, q: f64) -> Option<f64> {
    summary.quantiles.iter().find(|it| it.q == q).map(|it| it.value)
}

/// The interval in the facts of a record; its upper limit may be open.
fn limits_of(record: &Record, name: &str) -> Option<ConditionEnds> {
    let [low, high] = load_facts::ends_of(name).map(|name| record.quantity_of(&name));
    Some((low?, high))
}

/// Whether the server or the network was slower than the rate of an open loop.
fn is_too_slow(step: &Record) -> bool {
    let is_cause = |cause| step.verdict.reasons.first().is_some_and(|it| it.cause == cause);
    step.params.0.contains_key("rate")
        && step.verdict.state == State::Invalid
        && is_cause(Cause::NotAsAsked)
}

#[cfg(test)]
mod tests {
    use fathom_record::summary::Quantile;
    use fathom_record::{Basis, Better, Fact, Interval, MetricId, Params, Reason, Verdict};

    use super::*;

    fn step(rate: i64, p99: [f64; 3], errors: f64) -> Vec<Record> {
        let params = Params::one("rate", rate).and("arrivals", "poisson");
        let record = |id: &str, unit, median: f64| {
            let metric = MetricId::new(id);
            let mut record = Record::new(metric, params.clone(), "", unit, Better::Neither);
            let ends = [0.9 * median, 1.1 * median];
            let interval = Some(Interval::new(ends, 0.95, Basis::WithinRun));
            let (mean, max) = (median, 1e9);
            record.summary = Some(Summary { median, mean, max, interval, ..Summary::default() });
            record
        };
        let mut throughput = record("load.throughput", Unit::PerSecond, rate as f64);
        throughput.facts = vec![
            Fact::quantity("errors", errors, Unit::Ratio),
            Fact::quantity("requests", 10_000.0, Unit::Ratio),
        ];
        let mut times = record("load.response_time", Unit::Nanoseconds, 5e6);
        let value = p99[1];
        times.summary.as_mut().expect("one").quantiles = vec![Quantile { q: 0.99, value }];
        times.facts = vec![
            Fact::quantity("p99, low", p99[0], Unit::Nanoseconds),
            Fact::quantity("p99, high", p99[2], Unit::Nanoseconds),
        ];
        vec![throughput, times]
    }

    fn answer(text: &str, records: &[Record]) -> (LimitAnswer, String) {
        let judged = conditions(text).expect(text)[0].judge(records);
        (judged.answer, judged.name)
    }

    #[test]
    fn objectives_are_limits_of_good_responses() {
        assert_eq!(objectives("p99<50ms, errors<0.1%,throughput>5").map(|all| all.len()), Ok(3));
        for wrong in ["p99>50ms", "errors>0.1%", "throughput<5", "p50<1ms,max>2s"] {
            let error = objectives(wrong).expect_err(wrong);
            assert!(error.contains("limits of good responses"), "{error}");
        }
    }

    #[test]
    fn objective_is_kept_where_its_condition_is_not_met() {
        let broken = |text: &str, records: &[Record]| {
            let judged = objectives(text).expect(text)[0].broken().judge(records);
            (judged.answer, judged.written)
        };
        let slow = step(100, [61e6, 70e6, 90e6], 0.0);
        let (kept, not_kept) = (LimitAnswer::Kept, LimitAnswer::NotKept);
        assert_eq!(broken("p99<50ms", &slow), (not_kept, "p99>50ms".to_owned()));
        assert_eq!(broken("p99<99ms", &slow).0, kept);
        assert_eq!(broken("throughput>50", &slow).0, kept);
        assert_eq!(broken("throughput>500", &slow).0, not_kept);
    }

    #[test]
    fn conditions_have_their_units() {
        let of = |text: &str| conditions(text).map(|all| all[0].value);
        assert_eq!(of("p99>50ms"), Ok(50e6));
        assert_eq!(of("p99.9 > 1.5 s"), Ok(1.5e9));
        assert!(of("errors>0.1%").is_ok_and(|share| (share - 0.001).abs() < 1e-12));
        assert_eq!((of("throughput<500"), of("errors>0.5")), (Ok(500.0), Ok(0.5)));
        assert_eq!(conditions("p50>1ms, max>1s").map(|all| all.len()), Ok(2));
        for text in [
            "",
            "p99",
            "p99>ms",
            "p98>1ms",
            "errors>1ms",
            "errors>101%",
            "p99=1ms",
            "throughput<5ms",
            "p99>50ms,",
            "p99>-1ms",
            "p99>1..2ms",
        ] {
            let error = conditions(text).expect_err(text);
            assert!(error.contains("expected a condition such as p99>50ms"), "{error}");
        }
        let error = conditions("p99<50").expect_err("no unit");
        assert_eq!(error, "`p99<50`: a time needs a unit, such as p99<50ms");
    }

    #[test]
    fn worst_step_answers_by_its_whole_interval() {
        let good = step(100, [8e6, 9e6, 10e6], 0.0);
        let near = step(200, [45e6, 49e6, 55e6], 0.0);
        let slow = step(400, [61e6, 70e6, 90e6], 30.0);
        assert_eq!(answer("p99>50ms", &good), (LimitAnswer::Kept, "100 requests/s".to_owned()));
        let two = [good.clone(), near.clone()].concat();
        assert_eq!(answer("p99>50ms", &two), (LimitAnswer::Undecided, "200 requests/s".to_owned()));
        let all = [good.clone(), slow, near].concat();
        assert_eq!(answer("p99>50ms", &all), (LimitAnswer::NotKept, "400 requests/s".to_owned()));
        assert_eq!(
            answer("errors>0.1%", &all),
            (LimitAnswer::NotKept, "400 requests/s".to_owned())
        );
        // None of 10 000 failed: at most 0.04 %.
        assert_eq!(answer("errors>0.1%", &good).0, LimitAnswer::Kept);
        assert_eq!(answer("errors>0.01%", &good).0, LimitAnswer::Undecided);
        assert_eq!(answer("throughput<50", &good).0, LimitAnswer::Kept);
        assert_eq!(answer("throughput<95", &good).0, LimitAnswer::Undecided);
        assert_eq!(answer("throughput<120", &good).0, LimitAnswer::NotKept);
        assert_eq!(answer("max>1s", &good).0, LimitAnswer::Kept);
        assert_eq!(answer("mean>1ms", &good).0, LimitAnswer::Undecided, "no interval");
        assert_eq!(answer("p90>1s", &good).0, LimitAnswer::Undecided, "no such quantile");
        assert_eq!(answer("p99>50ms", &[]).0, LimitAnswer::Undecided);
        // An upper limit that is open passes nothing, and may fail.
        let mut open = step(100, [61e6, 70e6, 0.0], 0.0);
        open[1].facts.pop();
        assert_eq!(answer("p99>50ms", &open).0, LimitAnswer::NotKept);
        assert_eq!(answer("p99>70ms", &open).0, LimitAnswer::Undecided);
    }

    #[test]
    fn rate_that_the_server_does_not_sustain_fails_and_that_of_the_generator_is_undecided() {
        for (cause, expected) in [
            (Cause::NotAsAsked, LimitAnswer::NotKept),
            (Cause::LoadGenerator, LimitAnswer::Undecided),
        ] {
            let mut records = step(100, [8e6, 9e6, 10e6], 0.0);
            let reasons = vec![Reason::new(cause, "not sustained")];
            let verdict = Verdict { state: State::Invalid, reasons };
            records.iter_mut().for_each(|record| record.verdict = verdict.clone());
            assert_eq!(answer("p99>50ms", &records).0, expected);
            let judged = conditions("p99>50ms").expect("one")[0].judge(&records);
            assert_eq!(judged.why.as_deref(), Some("no p99: not sustained"));
            assert_eq!(answer("throughput<50", &records).0, LimitAnswer::Undecided);
            assert_eq!(answer("errors>0.1%", &records).0, LimitAnswer::Kept);
        }
    }

    #[test]
    fn window_shows_the_share_beyond_a_limit() {
        let times: Histogram = [1e6, 2e6, 60e6, 70e6].into_iter().collect();
        let seen = |text: &str, lost| conditions(text).expect(text)[0].seen(&times, lost, 4.0);
        let share = |beyond, of, allowed| Seen::Share { beyond, of, allowed };
        assert_eq!(seen("p50<50ms", [9, 0]), share(2, 4, 0.5));
        assert_eq!(seen("p50<50ms", [0, 3]), share(5, 7, 0.5), "without a response");
        assert_eq!(seen("errors<1%", [1, 3]), share(1, 5, 0.01));
        assert_eq!(seen("errors<0%", [0, 0]), Seen::Holds(true));
        assert_eq!(seen("max<50ms", [0, 0]), Seen::Holds(false));
        assert_eq!(seen("throughput>3", [0, 0]), Seen::Holds(true));
    }
}
