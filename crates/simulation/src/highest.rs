//! The highest rate within limits: how often its interval contains the true one, by a search over a
//! simulated server with one queue.

use fathom_analysis::load::{
    LEVEL, Search, SearchWindow, Seen, WINDOWS, constant_service_waits_beyond,
};

use crate::chance::ChanceRate;
use crate::experiment::Experiment;
use crate::section::{Section, marked_below, percent};
use crate::{Source, Trials};

/// The time of service.
const SERVICE_S: f64 = 0.005;
/// By how much the level may be missed.
const WITHIN: f64 = 0.02;

#[derive(Clone, Copy, PartialEq)]
enum HighestService {
    Constant,
    Exponential,
}

/// A server, and the limit of a quantile of its response times.
#[derive(Clone, Copy)]
struct HighestWorld {
    name: &'static str,
    service: HighestService,
    q: f64,
    limit_s: f64,
}

const fn world(name: &'static str, service: HighestService, q: f64, limit_s: f64) -> HighestWorld {
    HighestWorld { name, service, q, limit_s }
}

const WORLDS: [HighestWorld; 4] = [
    world("M/D/1, p99 < 8 service times", HighestService::Constant, 0.99, 0.04),
    world("M/D/1, p90 < 4 service times", HighestService::Constant, 0.9, 0.02),
    world("M/M/1, p99 < 15 service times", HighestService::Exponential, 0.99, 0.075),
    world("M/M/1, p99.9 < 15 service times", HighestService::Exponential, 0.999, 0.075),
];

/// Responses of a window at the true rate.
const RESPONSES: [f64; 4] = [1_000.0, 3_000.0, 10_000.0, 30_000.0];

impl HighestWorld {
    /// The share of the response times beyond the limit.
    fn beyond(&self, rate: f64) -> f64 {
        match self.service {
            HighestService::Exponential => (-(1.0 / SERVICE_S - rate) * self.limit_s).exp(),
            HighestService::Constant => {
                let services = self.limit_s / SERVICE_S - 1.0;
                constant_service_waits_beyond(rate * SERVICE_S, services)
            }
        }
    }

    /// The rate at which that is what the quantile allows.
    fn highest(&self) -> f64 {
        let [mut low, mut high] = [0.0, 1.0 / SERVICE_S];
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            let ends = if self.beyond(middle) > 1.0 - self.q { &mut high } else { &mut low };
            *ends = middle;
        }
        low
    }

    /// A window of an open loop with random arrivals, after a warm-up of a quarter of it. The rate
    /// is sustained if what waits at the end goes down to what it was in the first half, in as long
    /// as the window lasts.
    fn window(&self, rate: f64, window_s: f64, source: &mut Source) -> SearchWindow {
        let (begin_s, middle_s, end_s) = (window_s / 4.0, window_s * 0.75, window_s * 1.25);
        let (mut at_s, mut wait_s, mut usual_s) = (0.0, 0.0_f64, 0.0_f64);
        let (mut beyond, mut of) = (0, 0);
        let is_drained = loop {
            let apart_s = -source.uniform().ln() / rate;
            at_s += apart_s;
            wait_s = (wait_s - apart_s).max(0.0);
            if at_s < middle_s {
                usual_s = usual_s.max(wait_s);
            } else if at_s > end_s && (wait_s <= usual_s || at_s > end_s + window_s) {
                break wait_s <= usual_s;
            }
            wait_s += match self.service {
                HighestService::Constant => SERVICE_S,
                HighestService::Exponential => -source.uniform().ln() * SERVICE_S,
            };
            if (begin_s..end_s).contains(&at_s) {
                of += 1;
                beyond += u64::from(wait_s > self.limit_s);
            }
        };
        let share = Seen::Share { beyond, of, allowed: 1.0 - self.q };
        SearchWindow { rate, seen: vec![share, Seen::Holds(is_drained)] }
    }

    fn search(&self, window_s: f64, source: &mut Source) -> Search {
        // The throughput of clients without think time.
        let mut search = Search::around(1.0 / SERVICE_S);
        while let Some(rate) = search.next_rate() {
            search.add(self.window(rate, window_s, source));
        }
        search
    }
}

#[derive(Default)]
struct HighestFigure {
    kept: ChanceRate,
    found: ChanceRate,
    halves: Vec<f64>,
    windows: usize,
}

impl HighestFigure {
    fn count(&mut self, world: &HighestWorld, responses: f64, source: &mut Source) {
        let truth = world.highest();
        let search = world.search(responses / truth, source);
        self.windows += search.windows().len();
        let interval = search.highest().and_then(|found| found.interval);
        self.found.count(interval.is_some());
        let Some([low, high]) = interval else { return };
        self.kept.count(low <= truth && truth <= high);
        self.halves.push((high - low) / 2.0 / truth);
    }

    fn half(&self) -> f64 {
        fathom_analysis::statistics::median(&self.halves).unwrap_or(f64::NAN)
    }
}

const WORDS: &str = "\
How often the 95 % interval of the highest rate of an open loop (`fathom load --find-max`) contains
the true one, in per cent, and in brackets its half-width in per cent of the rate (median). The
server has one queue; the limit is of a quantile of its response times. The columns are the
responses of a window at the true rate. *None*: without an interval, as a window has fewer than
twenty responses beyond the limit. Each search has at most 20 windows. **Bold**: below the level by
more than 2 points and chance.";

pub(crate) fn section(trials: Trials) -> Section {
    let mut section = Section::new("The highest rate within limits", WORDS);
    Experiment {
        rows: &WORLDS,
        columns: &RESPONSES,
        name: |world, responses| format!("highest {} {responses}", world.name),
        trial: |world, responses, source, figure: &mut HighestFigure| {
            figure.count(world, *responses, source);
        },
        check: |section, world, responses, figure| {
            let what = format!("highest rate, {}, {responses} responses", world.name);
            let is_long = (1.0 - world.q) * responses >= 20.0;
            section.at_least(figure.kept, LEVEL - WITHIN, &what);
            let found = if is_long { 0.99 } else { 0.0 };
            section.at_least(figure.found, found, &format!("found, {what}"));
            section.require(figure.windows <= figure.found.of as usize * WINDOWS, &what);
        },
        head: "server and limit",
        title: |world| world.name.to_owned(),
        heads: f64::to_string,
        cells: |_, _, figure| match figure.found.share() {
            0.5.. => {
                let kept = marked_below(figure.kept, LEVEL - WITHIN);
                format!("{kept} ({})", percent(figure.half()))
            }
            _ => "none".to_owned(),
        },
    }
    .run(&mut section, trials);
    section
}
