//! The highest rate that is sustained within limits of the user, by windows at rates that the
//! windows before them chose.

use std::sync::atomic::Ordering::Relaxed;

use fathom_analysis::load::{Condition, Search};
use fathom_metric::{Ending, Measured, ProcedureError, Recorder};
use fathom_record::{Basis, Cause, Fact, Interval, Params, Reason, Remedy, State, Verdict};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

use crate::engine::{End, Outcome, Rate, Timing, Workload};
use crate::metrics;
use crate::options::{Case, Load};
use crate::records::{self, Limit};
use crate::run::{Observed, Run, whole_time};
use crate::step::{SWEEPS, Step};

/// Windows of a search, besides the closed-loop one that it begins with.
pub const WINDOWS: usize = 20;
/// It ends when the interval of the answer is this narrow, each way.
const HALF: f64 = 0.01;
/// Closed-loop clients whose throughput is the first guess.
const CLIENTS: u32 = 32;
/// Windows in which the generator was the limit, before the search gives up: one may be by chance.
const LATE_MAX: usize = 3;

/// How long a search takes at most, without warm-up and backlogs.
pub fn planned_ns(load: &Load) -> u64 {
    (1 + WINDOWS as u64) * load.window_ns()
}

/// What the windows of a search were like.
#[derive(Default)]
struct Found {
    windows: usize,
    /// Rates of the windows that held.
    held: Vec<f64>,
    /// The lowest rate that did not, and why.
    broken: Option<(f64, String)>,
    /// Why the generator was the limit in a window.
    late: Vec<String>,
    /// Windows beside other work, in which an end waited for a CPU.
    contended: usize,
    /// Windows with fewer responses than a quantile of the limits needs, and the `--time` that
    /// would have been enough for all of them, in seconds.
    few: usize,
    needed_s: f64,
}

impl Found {
    /// Counts a window that has too few responses to judge a quantile.
    fn count(&mut self, step: &Step, conditions: &[Condition], rate: f64) {
        let least = conditions.iter().map(Condition::responses_min).fold(0.0, f64::max);
        if (step.completed as f64) < least {
            self.few += 1;
            self.needed_s = self.needed_s.max(SWEEPS as f64 * least / rate);
        }
    }

    fn add(&mut self, rate: f64, broken: Option<String>) {
        match broken {
            None => self.held.push(rate),
            Some(why) if self.broken.as_ref().is_none_or(|known| rate < known.0) => {
                self.broken = Some((rate, why));
            }
            Some(_) => {}
        }
    }
}

/// Searches, and records the answer.
pub fn find(
    run: &mut Run<'_>,
    case: Case,
    conditions: &[Condition],
    recorder: &mut dyn Recorder,
) -> Result<Ending, ProcedureError> {
    let clients = CLIENTS.min(run.load.in_flight());
    let Some(closed) = window(run, case, (clients, None), 1, recorder)? else {
        return Ok(Ending::Stopped);
    };
    let mut random = Xoshiro256PlusPlus::seed_from_u64(run.load.seed);
    let mut search = Search::around(closed.throughput().max(1.0));
    let mut found = Found::default();
    while found.windows < WINDOWS && found.late.len() < LATE_MAX && !is_narrow(&search) {
        let arrivals = run.load.arrivals();
        let rate = Rate { per_second: rounded(search.median()), arrivals };
        let of = (run.load.in_flight(), Some(rate));
        let Some(step) = window(run, case, of, random.next_u64(), recorder)? else {
            return Ok(Ending::Stopped);
        };
        found.windows += 1;
        found.contended += usize::from(step.contention().is_some());
        found.count(&step, conditions, rate.per_second);
        let broken = match records::limit(&step) {
            Some((Limit::Generator, why)) => {
                found.late.push(why);
                continue;
            }
            Some((Limit::Server, why)) => Some(why),
            None => broken(&step, conditions),
        };
        search.add(rate.per_second, broken.is_none());
        found.add(rate.per_second, broken);
    }
    let load = run.load;
    let shared = records::Shared { load, target: &run.target, case, congestion: &None };
    let params = params(shared.common(), load, conditions);
    let measured = measured(&search, &found, conditions, params);
    let shows = measured.verdict.as_ref().is_some_and(Verdict::shows_number);
    recorder.record(measured);
    recorder.show();
    Ok(if shows { Ending::Done } else { Ending::NotFound })
}

/// In three figures: what is printed can be asked for.
fn rounded(rate: f64) -> f64 {
    let unit = 10_f64.powf(rate.log10().floor() - 2.0);
    let rounded = (rate / unit).round() * unit;
    // A hundredth and less has no exact sum of powers.
    if unit >= 1.0 { rounded.round() } else { (rounded / unit).round() / (1.0 / unit).round() }
}

fn is_narrow(search: &Search) -> bool {
    let [low, high] = search.interval();
    (high / low).ln() / 2.0 < HALF
}

/// The first condition that does not hold in a window.
fn broken(step: &Step, conditions: &[Condition]) -> Option<String> {
    if step.completed == 0 {
        return Some("no response".to_owned());
    }
    conditions.iter().find_map(|one| {
        let value = one.broken_by(&step.times, step.failed_share(), step.throughput())?;
        Some(format!("{} {value}", one.parts().0))
    })
}

/// One window: of an open loop, or of closed-loop clients. `None` after a stop.
fn window(
    run: &mut Run<'_>,
    case: Case,
    (clients, rate): (u32, Option<Rate>),
    seed: u64,
    recorder: &mut dyn Recorder,
) -> Result<Option<Step>, ProcedureError> {
    let mut step = match rate {
        Some(rate) => Step::at(rate, clients, run.quota),
        None => Step::within(clients, run.quota),
    };
    run.set_cache(&mut step)?;
    let work = run.load.workload(&run.target, case, clients, seed);
    let work = Workload { rate, ..work };
    let timing = Timing::of(run.load.window_ns(), None);
    let what = rate.map_or("throughput".to_owned(), |it| crate::rates::words(it.per_second));
    let Observed { outcome, telemetry, others } = run.window(&work, timing, &what, recorder)?;
    match outcome {
        Outcome { end: End::Complete, .. } => {
            step.add(&outcome, telemetry, others);
            Ok(Some(step))
        }
        Outcome { end: End::Dead(fault), .. } => {
            Err(ProcedureError::failed(format!("{}: {}", run.load.target, fault.end_words())))
        }
        _ => {
            debug_assert!(recorder.stop().now().load(Relaxed));
            Ok(None)
        }
    }
}

/// The conditions are parameters: another condition is another case.
fn params(common: Params, load: &Load, conditions: &[Condition]) -> Params {
    let mut params = common.and("arrivals", load.arrivals().word());
    params.0.remove("think_s");
    conditions.iter().fold(params, |params, one| {
        let (name, value) = one.parts();
        params.and(name, value)
    })
}

fn measured(search: &Search, found: &Found, conditions: &[Condition], params: Params) -> Measured {
    let all: Vec<&str> = conditions.iter().map(Condition::text).collect();
    let windows = format!("{}, {} of them within the limits", found.windows, found.held.len());
    let mut facts = vec![
        Fact::text("limits", [&["sustained"], &all[..]].concat().join(", ")),
        Fact::text("windows", windows),
    ];
    facts.extend(
        found.broken.as_ref().map(|(rate, why)| Fact::text("beyond", format!("{why} at {rate}/s"))),
    );
    let because = |cause, text: String| Verdict {
        state: State::Invalid,
        reasons: vec![Reason::new(cause, text)],
    };
    let most = found.held.iter().copied().reduce(f64::max);
    let verdict = match (most, found.late.last()) {
        (_, Some(late)) if found.late.len() == LATE_MAX => {
            let held = most.map_or(String::new(), |rate| format!("; {rate} requests/s held"));
            because(Cause::LoadGenerator, format!("{late}{held}"))
        }
        (None, _) => because(Cause::NotAsAsked, "no rate holds".to_owned()),
        (Some(_), _) if found.contended > 0 => {
            let text = format!(
                "in {} of {} windows an end waited for a CPU that others used",
                found.contended, found.windows
            );
            let reason = Reason::new(Cause::Contention, text).with_remedy(Remedy::QuietCpu);
            Verdict { state: State::Noisy, reasons: vec![reason] }
        }
        (Some(_), _) if found.few > 0 => {
            let text = format!(
                "{} of {} windows had fewer responses than a quantile of the limits needs, ten \
                 beyond it",
                found.few, found.windows
            );
            let action = format!("use --time {}", whole_time(found.needed_s));
            let reason = Reason::new(Cause::TooShort, text).with_remedy(Remedy::Do { action });
            Verdict { state: State::Noisy, reasons: vec![reason] }
        }
        (Some(_), _) => Verdict::default(),
    };
    let value = search.median();
    let interval = Interval::new(search.interval(), 0.95, Basis::WithinRun);
    Measured {
        metric: metrics::MAX_RATE.0.id,
        params,
        values: vec![value],
        headline: Some((value, Some(interval))),
        verdict: Some(verdict),
        facts,
        ..Measured::default()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use fathom_analysis::load::conditions;

    use super::*;
    use crate::fixture::{assert_golden, words};

    #[test]
    fn rates_of_windows_have_three_figures() {
        let rates = [0.123_45, 1.0, 48.26, 999.6, 12_345.0, 1e6].map(rounded);
        assert_eq!(rates, [0.123, 1.0, 48.3, 1_000.0, 12_300.0, 1e6]);
    }

    #[test]
    fn answer_says_what_held_and_what_did_not() {
        let conditions = conditions("p99<50ms, errors<0.1%").expect("conditions");
        let of = |holds: fn(f64) -> bool, late: usize, contended: usize, few: bool| {
            let (mut search, mut found) = (Search::around(500.0), Found::default());
            while found.windows < WINDOWS && !is_narrow(&search) {
                let rate = rounded(search.median());
                found.windows += 1;
                search.add(rate, holds(rate));
                found.add(rate, (!holds(rate)).then(|| "p99 61.20 ms".to_owned()));
            }
            found.contended = contended;
            found.late = vec!["requests were sent late".to_owned(); late];
            if few {
                found.count(&Step::new(1), &conditions, 400.0);
            }
            words(&measured(&search, &found, &conditions, Params::one("to", "far")))
        };
        let text = [
            of(|rate| rate <= 400.0, 0, 0, false),
            of(|rate| rate <= 400.0, LATE_MAX - 1, 3, false),
            of(|rate| rate <= 400.0, LATE_MAX, 0, false),
            of(|_| false, 0, 0, false),
            of(|rate| rate <= 400.0, 0, 0, true),
        ];
        assert_golden("max_rate.txt", &text.join("\n"));
        let load = Load::parse_from(["load", "http://a/", "--find-max", "--slo", "p99<50ms"]);
        let params = params(Params::one("think_s", 0), &load, &conditions);
        assert_eq!(params.to_string(), "{arrivals=poisson,errors=0.1%,p99=50ms}");
    }
}
