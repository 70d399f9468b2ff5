//! The highest rate that is sustained within limits of the user, by windows at rates that the
//! windows before them chose.

use std::sync::atomic::Ordering::Relaxed;

use fathom_analysis::load::{
    ALLOWED, DUE_MIN, Highest, LEVEL, LoadCondition, MeasuredStep, OpenLimit, Search, SearchWindow,
    Seen, WINDOWS, limit_of_window, measure_for,
};
use fathom_metric::{Ending, Event, Measured, ProcedureError, Recorder};
use fathom_record::load_facts::{self, of_window};
use fathom_record::{Basis, Cause, Fact, Interval, Params, Reason, Remedy, State, Unit, Verdict};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

use crate::engine::{End, ScheduleRate, Timing, Workload};
use crate::metrics;
use crate::options::{LoadOptions, LoadVariant};
use crate::records;
use crate::run::{LoadRun, duration, whole_time};
use crate::step::Step;

/// Closed-loop clients whose throughput is the first guess.
const CLIENTS: u32 = 32;
/// Windows in which the generator was the limit, before the search gives up: one may be by chance.
const LATE_MAX: usize = 5;

/// How long a search takes at most, without warm-up and backlogs.
pub fn planned_ns(load: &LoadOptions) -> u64 {
    (1 + WINDOWS as u64) * load.window_ns()
}

/// Of a rate at which the generator was the limit, the next one at least.
const BELOW_LATE: f64 = 0.7;

/// A window of a search.
struct Tried {
    rate: f64,
    step: MeasuredStep,
    /// Why the limits did not hold; `Err` if it says nothing of them, as the generator was the
    /// limit.
    beyond: Result<Option<String>, String>,
}

impl Tried {
    fn new(rate: f64, step: MeasuredStep, conditions: &[LoadCondition]) -> Self {
        let beyond = match limit_of_window(&step) {
            Some((OpenLimit::Generator, why)) => Err(why),
            Some((OpenLimit::Server, why)) => Ok(Some(format!("not sustained, {why}"))),
            None => Ok(beyond(&step, conditions)),
        };
        Self { rate, step, beyond }
    }

    /// What it shows of the limits: the first one is that the rate is sustained.
    fn window(&self, conditions: &[LoadCondition]) -> Option<SearchWindow> {
        let step = &self.step;
        let is_sustained = self.beyond.is_ok() && step.all.completed > 0 && step.undrained == 0;
        let lost = [step.counts.failed(), step.counts.in_flight];
        let seen = conditions.iter().map(|one| one.seen(&step.all.times, lost, step.throughput()));
        let seen = std::iter::once(Seen::Holds(is_sustained)).chain(seen).collect();
        self.beyond.is_ok().then_some(SearchWindow { rate: self.rate, seen })
    }

    fn facts(&self, number: usize) -> Vec<Fact> {
        let (step, name) = (&self.step, |what: &str| of_window(number, what));
        let words = match &self.beyond {
            Ok(None) => load_facts::WITHIN.to_owned(),
            Ok(Some(why)) => why.clone(),
            Err(why) => format!("not judged: {why}"),
        };
        let count = |what, count: u64| Fact::quantity(&name(what), count as f64, Unit::Ratio);
        let ns =
            |what, ns: Option<f64>| ns.map(|ns| Fact::quantity(&name(what), ns, Unit::Nanoseconds));
        let tails = step.tails().map(|(q, what)| ns(what, step.all.times.quantile(q)));
        let max = ns("max", (step.all.completed > 0).then(|| step.all.times.max()));
        let times = [ns("p50", step.all.times.quantile(0.5))].into_iter().chain(tails).chain([max]);
        let first = [
            Fact::quantity(&name(load_facts::RATE), self.rate, Unit::PerSecond),
            Fact::text(&name(load_facts::RESULT), words),
            count(load_facts::RESPONSES, step.all.completed),
            count(load_facts::ERRORS, step.counts.failed()),
            count("without a response", step.counts.in_flight),
        ];
        first.into_iter().chain(times.flatten()).collect()
    }
}

/// The windows so far.
struct FindFound<'f> {
    conditions: &'f [LoadCondition],
    search: Search,
    tried: Vec<Tried>,
    /// At a lower rate a window says nothing.
    least: f64,
}

impl<'f> FindFound<'f> {
    fn around(guess: f64, conditions: &'f [LoadCondition], window_ns: u64) -> Self {
        let least = DUE_MIN as f64 / (window_ns as f64 / 1e9);
        Self { conditions, search: Search::around(guess.max(least)), tried: Vec::new(), least }
    }

    fn late(&self) -> impl Iterator<Item = &String> {
        self.tried.iter().filter_map(|tried| tried.beyond.as_ref().err())
    }

    /// The rate of the next window; `None` at the end.
    fn next_rate(&self) -> Option<f64> {
        let goes_on = self.tried.len() < WINDOWS && self.late().count() < LATE_MAX;
        let next = self.search.next_rate().filter(|_| goes_on)?;
        let next = next.min(self.below_late(next));
        (next >= self.least).then(|| rounded(next))
    }

    /// A lower rate in place of one at which the generator was the limit: the same window again
    /// would say as little.
    fn below_late(&self, next: f64) -> f64 {
        let late = self.tried.iter().filter(|tried| tried.beyond.is_err());
        let least = late.map(|tried| tried.rate).fold(f64::INFINITY, f64::min);
        if rounded(next) < least {
            return next;
        }
        let most = self.held().filter(|rate| *rate < least).fold(0.0, f64::max);
        (most * least).sqrt().max(BELOW_LATE * least)
    }

    fn add(&mut self, rate: f64, step: MeasuredStep) {
        let tried = Tried::new(rate, step, self.conditions);
        tried.window(self.conditions).into_iter().for_each(|window| self.search.add(window));
        self.tried.push(tried);
    }

    fn held(&self) -> impl Iterator<Item = f64> {
        let windows = self.search.windows().iter();
        windows.filter(|window| window.holds()).map(|window| window.rate)
    }
}

/// Searches, and records the answer.
pub fn find(
    run: &mut LoadRun<'_>,
    case: LoadVariant,
    conditions: &[LoadCondition],
    recorder: &mut dyn Recorder,
) -> Result<Ending, ProcedureError> {
    let clients = CLIENTS.min(run.load.in_flight());
    let Some(closed) = window(run, case, (clients, None), 1, recorder)? else {
        return Ok(Ending::Stopped);
    };
    let few = too_few(run.load, closed.throughput(), conditions);
    few.iter().for_each(|text| recorder.event(Event::Warning(text)));
    let mut random = Xoshiro256PlusPlus::seed_from_u64(run.load.seed);
    let load = run.load;
    let mut found = FindFound::around(closed.throughput(), conditions, load.window_ns());
    let shared = records::RecordContext::from_load(load, &run.target, case, None);
    let params = params(shared.common(), load, conditions);
    let mut end = Ok(true);
    while let Some(per_second) = found.next_rate() {
        let rate = ScheduleRate { per_second, arrivals: load.arrivals() };
        let of = (load.in_flight(), Some(rate));
        match window(run, case, of, random.next_u64(), recorder) {
            Ok(Some(step)) => found.add(per_second, step),
            other => {
                end = other.map(|_| false);
                break;
            }
        }
        let so_far = || measured(&found, load, params.clone(), false);
        recorder.draft(&mut |recorder| _ = recorder.record(so_far()));
    }
    let is_whole = matches!(end, Ok(true));
    if found.tried.is_empty() {
        recorder.event(Event::Warning("stopped before a rate was tried: no answer"));
        return end.map(|_| Ending::Stopped);
    }
    let measured = measured(&found, load, params, is_whole);
    let shows = measured.verdict.as_ref().is_some_and(Verdict::shows_number);
    recorder.record(measured);
    recorder.show();
    Ok(match end? {
        false => Ending::Stopped,
        true if shows => Ending::Done,
        true => Ending::NotFound,
    })
}

/// Whether a window has too few responses for the interval of a quantile even at this throughput,
/// and what to do.
fn too_few(load: &LoadOptions, throughput: f64, conditions: &[LoadCondition]) -> Option<String> {
    let window_s = load.window_ns() as f64 / 1e9;
    // Those of a quantile have ten beyond it.
    let needs = conditions.iter().map(|one| (ALLOWED / 10.0 * one.responses_min(), one.parts().0));
    let (needed, what) = needs.max_by(|a, b| a.0.total_cmp(&b.0))?;
    let expected = throughput * window_s;
    (expected > 0.0 && expected < needed).then(|| {
        format!(
            "--time {}: at most about {expected:.0} responses are to be expected in a window of \
             {}; {what} needs {needed:.0} for an interval: --time {}",
            duration(load.time.as_secs_f64()),
            duration(window_s),
            whole_time(load.time.as_secs_f64() * needed / expected)
        )
    })
}

/// In three figures: what is printed can be asked for.
fn rounded(rate: f64) -> f64 {
    let unit = 10_f64.powf(rate.log10().floor() - 2.0);
    let rounded = (rate / unit).round() * unit;
    // A hundredth and less has no exact sum of powers.
    if unit >= 1.0 { rounded.round() } else { (rounded / unit).round() / (1.0 / unit).round() }
}

/// The first condition that does not hold in a window.
fn beyond(step: &MeasuredStep, conditions: &[LoadCondition]) -> Option<String> {
    if step.all.completed == 0 {
        return Some("no response".to_owned());
    }
    let broken = conditions.iter().find_map(|one| {
        let value = one.broken_by(&step.all.times, step.failed_share(), step.throughput())?;
        Some(format!("{} {value}", one.parts().0))
    });
    broken.or_else(|| {
        let lost = [step.counts.failed(), step.counts.in_flight];
        let seen = |one: &&LoadCondition| one.seen(&step.all.times, lost, step.throughput());
        let one = conditions.iter().find(|one| !seen(one).holds())?;
        Some(format!("not {}: {} without a response", one.text(), step.counts.in_flight))
    })
}

/// One window: of an open loop, or of closed-loop clients. `None` after a stop.
fn window(
    run: &mut LoadRun<'_>,
    case: LoadVariant,
    (clients, rate): (u32, Option<ScheduleRate>),
    seed: u64,
    recorder: &mut dyn Recorder,
) -> Result<Option<MeasuredStep>, ProcedureError> {
    let mut step = match rate {
        Some(rate) => Step::open_loop(rate, clients),
        None => Step::new(clients),
    };
    run.set_cache(&mut step)?;
    let work = run.load.workload(&run.target, case, clients, seed);
    let work = Workload { rate, ..work };
    let timing = Timing::with_window(run.load.window_ns(), None);
    let what = rate.map_or("throughput".to_owned(), |it| crate::rates::words(it.per_second));
    let outcome = run.window(&work, timing, &what, recorder)?;
    match outcome.end {
        End::Complete => {
            step.add(&outcome);
            Ok(Some(step.measured))
        }
        End::Dead(fault) => {
            Err(ProcedureError::failed(format!("{}: {}", run.load.target, fault.end_words())))
        }
        End::Stopped => {
            debug_assert!(recorder.stop().now().load(Relaxed));
            Ok(None)
        }
    }
}

/// The conditions are parameters: another condition is another case.
fn params(common: Params, load: &LoadOptions, conditions: &[LoadCondition]) -> Params {
    let mut params = common.and("arrivals", load.arrivals().word());
    params.0.remove("think_s");
    conditions.iter().fold(params, |params, one| {
        let (name, value) = one.parts();
        params.and(name, value)
    })
}

/// `is_whole`: whether the search came to its end.
fn measured(found: &FindFound<'_>, load: &LoadOptions, params: Params, is_whole: bool) -> Measured {
    let all: Vec<&str> = found.conditions.iter().map(LoadCondition::text).collect();
    let count = found.tried.len();
    let windows = format!("{count}, {} of them within the limits", found.held().count());
    let mut facts = vec![
        Fact::text("limits", [&["the rate is sustained"], &all[..]].concat().join(", ")),
        Fact::text("windows", windows),
    ];
    facts.extend(found.tried.iter().zip(1..).flat_map(|(tried, number)| tried.facts(number)));
    let highest = found.search.highest();
    let value = highest.map(|highest| highest.rate);
    let interval = highest.and_then(|highest| highest.interval);
    let reasons = match highest {
        None if is_whole => vec![none_holds(found, load)],
        None => Vec::new(),
        Some(highest) => doubts(found, &highest, load),
    };
    let is_late = found.late().count() >= LATE_MAX;
    let (state, mut reasons) = match found.late().last().filter(|_| is_late) {
        Some(late) => {
            let reason = Reason::new(Cause::LoadGenerator, late.clone());
            let action = "leave the generator a CPU of its own, or start it on other machines";
            let remedy = Remedy::Do { action: action.to_owned() };
            (State::Invalid, vec![reason.with_remedy(remedy)])
        }
        None if highest.is_none() => (State::Invalid, reasons),
        None => (if reasons.is_empty() { State::Valid } else { State::Noisy }, reasons),
    };
    if !is_whole {
        let text = format!("{count} of at most {WINDOWS} windows");
        reasons.insert(0, Reason::new(Cause::Interrupted, text));
    }
    let state = if is_whole || state != State::Valid { state } else { State::Noisy };
    Measured {
        metric: metrics::MAX_RATE.0.id,
        params,
        values: value.into_iter().collect(),
        headline: value.map(|value| {
            (value, interval.map(|ends| Interval::new(ends, LEVEL, Basis::WithinRun)))
        }),
        verdict: Some(Verdict { state, reasons }),
        facts,
        ..Measured::default()
    }
}

/// Why there is no answer, though the search came to its end.
fn none_holds(found: &FindFound<'_>, load: &LoadOptions) -> Reason {
    let rates = found.tried.iter().map(|tried| tried.rate);
    let lowest = rates.fold(f64::INFINITY, f64::min);
    let text = format!("no rate holds, from {lowest} requests/s on");
    if lowest / 2.0 > found.least {
        return Reason::new(Cause::NotAsAsked, text);
    }
    let text = format!("{text}; of lower rates a window has fewer than {DUE_MIN} requests");
    Reason::new(Cause::NotAsAsked, text).with_remedy(measure_for(4.0 * load.time.as_secs_f64()))
}

/// Why the answer may not be what it should.
fn doubts(found: &FindFound<'_>, highest: &Highest, load: &LoadOptions) -> Vec<Reason> {
    let contended = found.tried.iter().filter(|tried| tried.step.contention().is_some()).count();
    let contended = (contended > 0).then(|| {
        let text = format!(
            "in {contended} of {} windows an end waited for a CPU that others used",
            found.tried.len()
        );
        Reason::new(Cause::Contention, text).with_remedy(Remedy::QuietCpu)
    });
    let few = highest.interval.is_none().then(|| match highest.longer {
        longer if longer > 1.0 => {
            let text = "no interval: the windows have too few responses, a limit needs twenty \
                        beyond it in each";
            Reason::new(Cause::TooShort, text)
                .with_remedy(measure_for(load.time.as_secs_f64() * longer))
        }
        _ => Reason::new(Cause::TooShort, "no interval: too few windows near the answer"),
    });
    contended.into_iter().chain(few).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use fathom_analysis::load::{MeasuredSweep, SweepPoint, conditions};

    use super::*;
    use crate::fixture::{assert_golden, words};

    #[test]
    fn rates_of_windows_have_three_figures() {
        let rates = [0.123_45, 1.0, 48.26, 999.6, 12_345.0, 1e6].map(rounded);
        assert_eq!(rates, [0.123, 1.0, 48.3, 1_000.0, 12_300.0, 1e6]);
    }

    /// A window of so many responses. At 400/s one in a hundred takes 80 ms, and twice as many at
    /// 414/s.
    fn step(rate: f64, responses: u64) -> MeasuredStep {
        let beyond = (responses as f64 / 100.0 * (rate / 400.0).powi(20)).round() as u64;
        let beyond = beyond.min(responses);
        let slow = (0..beyond).map(|at| 8e7 + at as f64);
        let times = (beyond..responses).map(|_| 5e6).chain(slow).collect();
        let mut step = MeasuredStep::new(1000);
        (step.all.times, step.all.completed, step.sweeps) = (times, responses, 1);
        step.counts.window_ns = 2_000_000_000;
        step
    }

    #[test]
    fn rate_of_a_late_generator_is_not_tried_again() {
        let conditions = conditions("p99<50ms").expect("conditions");
        let mut found = FindFound::around(1_000.0, &conditions, 2_000_000_000);
        let add = |found: &mut FindFound<'_>, rate, beyond| {
            let tried = Tried { rate, step: step(300.0, 1_000), beyond };
            tried.window(&conditions).into_iter().for_each(|window| found.search.add(window));
            found.tried.push(tried);
        };
        assert_eq!(found.next_rate(), Some(1_000.0));
        add(&mut found, 1_000.0, Err("late".to_owned()));
        assert_eq!(found.next_rate(), Some(700.0));
        assert_eq!(found.below_late(999.6), 700.0, "the same in three figures");
        add(&mut found, 700.0, Ok(None));
        let between = found.next_rate().expect("goes on");
        assert!(700.0 < between && between < 1_000.0, "{between}");
        for rate in [950.0, 900.0, 850.0, 800.0] {
            add(&mut found, rate, Err("late".to_owned()));
        }
        assert_eq!(found.next_rate(), None);
    }

    /// A window of a few requests that all fail is chance, one of none is no window at all.
    #[test]
    fn search_ends_where_a_window_has_too_few_requests() {
        let conditions = conditions("p99<50ms").expect("conditions");
        let mut found = FindFound::around(20.0, &conditions, 2_000_000_000);
        let mut rates = Vec::new();
        while let Some(rate) = found.next_rate() {
            found.add(rate, MeasuredStep::new(1));
            rates.push(rate);
        }
        assert!(rates.len() > 1 && rates.iter().all(|rate| *rate >= 4.0), "{rates:?}");
        let load = LoadOptions::parse_from(["load", "http://a/", "--find-max", "-z", "6s"]);
        let [whole, cut] = [true, false].map(|is_whole| {
            let verdict = measured(&found, &load, Params::one("to", "far"), is_whole).verdict;
            verdict.expect("a verdict").reasons
        });
        assert!(whole[0].text.contains("fewer than 8 requests"), "{whole:?}");
        let causes: Vec<Cause> = cut.iter().map(|reason| reason.cause).collect();
        assert_eq!(causes, [Cause::Interrupted], "a part of a search does not say that none holds");
    }

    #[test]
    fn answer_has_all_windows_and_what_makes_it_doubtful() {
        let conditions = conditions("p99<50ms, errors<0.1%").expect("conditions");
        let load =
            LoadOptions::parse_from(["load", "http://a/", "--find-max", "--slo", "p99<50ms"]);
        let of = |most: usize, make: fn(f64) -> MeasuredStep| {
            let mut found = FindFound::around(500.0, &conditions, 2_000_000_000);
            while let Some(rate) = found.next_rate().filter(|_| found.tried.len() < most) {
                found.add(rate, make(rate));
            }
            let is_whole = found.next_rate().is_none();
            let text = words(&measured(&found, &load, Params::one("to", "far"), is_whole));
            let number = |line: &str| {
                let rest = line.trim_start().strip_prefix("window ")?;
                rest.split(',').next()?.parse::<usize>().ok()
            };
            let windows = text.lines().filter(|line| line.contains("result: ")).count();
            assert_eq!(windows, found.tried.len(), "each has its facts");
            // Of the first two only: all are alike.
            let shown = text.lines().filter(|line| number(line).is_none_or(|number| number < 3));
            shown.map(|line| format!("{line}\n")).collect::<String>()
        };
        let contended = |rate| {
            let point = SweepPoint { throughput: rate, response_s: 0.005 };
            let (server, others) = (None, Some(1.5));
            let sweep = MeasuredSweep {
                point,
                received_s: 0.0,
                server,
                client_share: 0.5,
                client_waiting: 0.4,
                others,
            };
            let mut step = step(rate, 2_000);
            step.by_sweep = vec![sweep];
            step
        };
        let late = |rate| {
            let mut step = step(rate, 2_000);
            (step.all.completed, step.of_quota) = (1, 0.95);
            step
        };
        let waiting = |rate| {
            let mut step = step(rate, 2_000);
            step.is_open = true;
            (step.undrained, step.waiting) = (1, 35);
            step
        };
        let text = [
            of(WINDOWS, |rate| step(rate, 2_000)),
            of(7, |rate| step(rate, 2_000)),
            of(WINDOWS, contended),
            of(WINDOWS, late),
            of(4, waiting),
            of(WINDOWS, |rate| step(rate, 200)),
        ];
        assert_golden("max_rate.txt", &text.join("\n"));
        let params = params(Params::one("think_s", 0), &load, &conditions);
        assert_eq!(params.to_string(), "{arrivals=poisson,errors=0.1%,p99=50ms}");
    }

    #[test]
    fn too_few_responses_of_a_window_are_foreseen() {
        let conditions = conditions("p90<9ms,p99<50ms,errors<1%").expect("conditions");
        let load = LoadOptions::parse_from(["load", "http://a/", "--find-max", "-z", "6s"]);
        let text = "--time 6 s: at most about 400 responses are to be expected in a window of 2 s; \
                    p99 needs 2000 for an interval: --time 30s";
        assert_eq!(too_few(&load, 200.0, &conditions).as_deref(), Some(text));
        assert_eq!(too_few(&load, 1_001.0, &conditions), None);
        assert_eq!(too_few(&load, 1.0, &conditions[2..]), None);
    }

    #[test]
    fn request_without_a_response_is_beyond_a_quantile() {
        let conditions = conditions("p99<50ms").expect("conditions");
        let tried = |in_flight| {
            let mut step = step(100.0, 1_000);
            step.counts.in_flight = in_flight;
            let tried = Tried::new(100.0, step, &conditions);
            (tried.window(&conditions).map(|it| it.holds()), tried.beyond.expect("judged"))
        };
        assert_eq!(tried(10), (Some(true), None));
        let why = "not p99<50ms: 11 without a response".to_owned();
        assert_eq!(tried(11), (Some(false), Some(why)));
        let none = Tried::new(100.0, MeasuredStep::new(1), &conditions);
        assert_eq!(none.window(&conditions).map(|it| it.holds()), Some(false));
    }
}
