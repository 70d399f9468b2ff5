//! The two estimates of a case on a core that is slow in some of its visits (METHOD 23a to 23c),
//! with the visits selected by the rule of the program, and by rules that it does not use.

use fathom_analysis::clean::{Conditions, Loop, clean_visits, reference};
use fathom_analysis::judge::machine_wander;
use fathom_analysis::statistics::{median, median_interval};
use fathom_analysis::strata::Strata;
use fathom_record::{Estimate, NotSelected, Sample, Stratum, Summary};

use crate::chance::Rate;
use crate::coverage::level;
use crate::parallel::each;
use crate::section::{Section, cells, kept, percent};
use crate::worlds::{ROUNDS, TRUTH};
use crate::{Source, Trials};

/// Shares of visits at full speed.
const CLEAN: [f64; 5] = [0.2, 0.35, 0.46, 0.6, 0.9];
/// Correlations of the state of the core from visit to visit.
const CORRELATIONS: [f64; 4] = [0.0, 0.3, 0.6, 0.8];
/// Visits per estimate, and the limit of all visits as a multiple of it.
const WANTED: [usize; 2] = [5, 12];
const VISITS_PER_PROCESS: usize = 4;
/// The reference loop at full speed.
const FULL: Loop = Loop { sibling_ns: 9_000.0, frequency_ns: 8_000.0 };
/// Relative deviations of the frequency, of processes, of rounds and of loops.
const FREQUENCY: f64 = 0.01;
const PROCESS: f64 = 0.03;
const ROUND: f64 = 0.01;
const LOOP: f64 = 0.002;
/// Share of visits in which the state of the core changes.
const STATE_CHANGES: f64 = 0.1;
/// Loops per calibration of the reference, visits of a run, and visits for the true value of the
/// unfiltered estimate.
const CALIBRATION: usize = 300;
const RUN_VISITS: usize = 200;
const TRUTH_VISITS: usize = 100_000;

/// A Markov chain over visits with two states, clean and slow.
struct Core {
    clean: f64,
    correlation: f64,
    is_clean: bool,
}

impl Core {
    fn new(clean: f64, correlation: f64, source: &mut Source) -> Self {
        Self { clean, correlation, is_clean: source.uniform() < clean }
    }

    fn next(&mut self, source: &mut Source) -> bool {
        if source.uniform() >= self.correlation {
            self.is_clean = source.uniform() < self.clean;
        }
        self.is_clean
    }

    fn visit(&mut self, source: &mut Source, process: usize) -> Sample {
        let is_clean = self.next(source);
        visit(source, process, is_clean)
    }

    fn visits(&mut self, source: &mut Source, count: usize) -> Vec<Sample> {
        (0..count).map(|process| self.visit(source, process)).collect()
    }

    /// The calibrated reference of a CPU with the same share of clean loops.
    fn reference(&self, source: &mut Source) -> Option<Loop> {
        let mut one = || {
            let slow = if source.uniform() < self.clean { 1.0 } else { slowness(source) };
            let frequency = 1.0 + FREQUENCY * source.normal();
            loop_times(source, slow, frequency)
        };
        reference(&(0..CALIBRATION).map(|_| one()).collect::<Vec<Loop>>())
    }

    /// Whether a run is flagged as autocorrelated.
    fn is_flagged(&mut self, source: &mut Source) -> bool {
        let mut one = |at: usize| {
            let slow = if self.next(source) { 1.0 } else { slowness(source) };
            let frequency = 1.0 + FREQUENCY * source.normal();
            (at as u64 * 100_000_000, loop_times(source, slow, frequency).sibling_ns)
        };
        machine_wander(&(0..RUN_VISITS).map(&mut one).collect::<Vec<(u64, f64)>>()).is_some()
    }
}

/// The slowdown beside a busy sibling.
fn slowness(source: &mut Source) -> f64 {
    1.15 + 0.75 * source.uniform()
}

fn loop_times(source: &mut Source, slow: f64, frequency: f64) -> Loop {
    let noise = 1.0 + LOOP * source.normal();
    Loop {
        sibling_ns: FULL.sibling_ns * frequency * slow * noise,
        frequency_ns: FULL.frequency_ns * frequency,
    }
}

/// A visit to a core that is clean or slow at the start of the visit.
fn visit(source: &mut Source, process: usize, is_clean: bool) -> Sample {
    let slow = slowness(source);
    let change =
        if source.uniform() < STATE_CHANGES { ROUNDS as f64 * source.uniform() } else { f64::MAX };
    let slowdown = |round: usize| if is_clean == ((round as f64) < change) { 1.0 } else { slow };
    let frequency = 1.0 + FREQUENCY * source.normal();
    let level = TRUTH * (PROCESS * source.normal()).exp() * frequency;
    let values = (0..ROUNDS).map(|round| level * slowdown(round) * (ROUND * source.normal()).exp());
    let values = values.collect();
    let at = |round: usize| loop_times(source, slowdown(round.min(ROUNDS - 1)), frequency);
    with_loops(process, values, &(0..=ROUNDS).map(at).collect::<Vec<Loop>>())
}

fn with_loops(process: usize, values: Vec<f64>, loops: &[Loop]) -> Sample {
    Sample {
        process: process as u32,
        values,
        values_per_round: 1,
        reference_ns: loops.iter().map(|one| one.sibling_ns).collect(),
        frequency_ns: loops.iter().map(|one| one.frequency_ns).collect(),
        ..Sample::default()
    }
}

/// The samples of a case, and the number of visits, including those without rounds.
type Visits = (Vec<Sample>, usize);

/// The rule of the program: the first `wanted` visits, then more until enough are clean. The later
/// visits measure only if they start at full speed.
fn by_rule(
    source: &mut Source,
    core: &mut Core,
    wanted: usize,
    reference: &Loop,
    measure: impl Fn(&mut Source, usize, bool) -> Sample,
) -> Visits {
    let is_clean = |it: &Sample| !clean_visits(&[Conditions::of(it)], reference).is_empty();
    let mut samples: Vec<Sample> = Vec::new();
    let mut tried = 0;
    while tried < wanted
        || (tried < VISITS_PER_PROCESS * wanted
            && samples.iter().filter(|it| is_clean(it)).count() < wanted)
    {
        let state = core.next(source);
        if state || tried < wanted {
            samples.push(measure(source, tried, state));
        }
        tried += 1;
    }
    (samples, tried)
}

fn summary((samples, tried): &Visits, wanted: usize, reference: &Loop) -> Option<Summary> {
    let (wanted, tried, stratum) = (wanted as u32, *tried as u32, Ok(Stratum::FullSpeed));
    Strata::of(samples, stratum, (wanted, wanted), tried, Some(reference)).summarise()
}

fn median_of(sample: &Sample) -> f64 {
    median(&sample.values).unwrap_or(f64::NAN)
}

/// The median over visits in all states of the core.
fn truth_as_found(clean: f64, trials: Trials) -> f64 {
    let mut source = Source::named(trials.seed, &format!("strata truth {clean}"));
    let mut core = Core::new(clean, 0.0, &mut source);
    let medians = (0..TRUTH_VISITS).map(|at| median_of(&core.visit(&mut source, at)));
    median(&medians.collect::<Vec<f64>>()).unwrap_or(f64::NAN)
}

#[derive(Default)]
struct Intervals {
    kept: Rate,
    half_widths: Vec<f64>,
}

impl Intervals {
    fn note(&mut self, limits: Option<[f64; 2]>, truth: f64) {
        let Some([low, high]) = limits else { return };
        self.kept.count(low <= truth && truth <= high);
        self.half_widths.push((high - low) / (high + low));
    }

    fn note_estimate(&mut self, estimate: Option<&Estimate>, truth: f64) {
        self.note(estimate.and_then(|it| it.interval).map(|it| it.limits()), truth);
    }

    fn half_width(&self) -> String {
        median(&self.half_widths).map_or("–".to_owned(), percent)
    }
}

#[derive(Default)]
struct Figure {
    reported: Rate,
    full_speed: Intervals,
    as_found: Intervals,
    flagged: Rate,
}

impl Figure {
    fn of(clean: f64, correlation: f64, wanted: usize, truth: f64, trials: Trials) -> Self {
        let name = format!("strata {clean} {correlation} {wanted}");
        let mut source = Source::named(trials.seed, &name);
        let mut figure = Self::default();
        for _ in 0..trials.runs {
            let source = &mut source;
            let mut core = Core::new(clean, correlation, source);
            let Some(reference) = core.reference(source) else { continue };
            let visits = by_rule(source, &mut core, wanted, &reference, visit);
            let Some(summary) = summary(&visits, wanted, &reference) else { continue };
            figure.reported.count(summary.full_speed.is_some());
            figure.full_speed.note_estimate(summary.full_speed.as_ref(), TRUTH);
            figure.as_found.note_estimate(summary.as_found.as_ref(), truth);
            figure.flagged.count(core.is_flagged(source));
        }
        figure
    }
}

const WORDS: &str = "\
A core is at full speed in some share of the visits, else beside a busy sibling and 1.15 to 1.9
times slower. The state of the core has a *correlation* from visit to visit. Visits follow the rule
of the program (METHOD 23b): 5 or 10 unfiltered, then more until as many are clean, at most four
times as many. *Reported* is how often there is an estimate at full speed, *kept* how often its
interval contains the truth, *±* half the width; *flagged* is how often a run of 200 such visits is
marked as autocorrelated. In one visit in ten the state changes within the visit. All in per cent.";

const STRATA: &str = "\
Full speed keeps its level wherever it is reported, also with autocorrelated visits. Unfiltered
keeps it with independent visits. With autocorrelation, five or ten visits in a row show too few
states of the core, and the run is flagged. A run of fewer than 30 visits, such as of one metric, is
never flagged.";

pub(crate) fn section(trials: Trials) -> Section {
    let mut section = Section::new("Full speed and unfiltered", WORDS);
    let truths = each(&CLEAN, |clean| truth_as_found(*clean, trials));
    let rows: Vec<(f64, f64, f64)> = CLEAN
        .into_iter()
        .zip(truths)
        .flat_map(|(clean, truth)| CORRELATIONS.map(|correlation| (clean, correlation, truth)))
        .collect();
    let items: Vec<_> = rows.iter().flat_map(|row| WANTED.map(|wanted| (*row, wanted))).collect();
    let figures = each(&items, |((clean, correlation, truth), wanted)| {
        Figure::of(*clean, *correlation, *wanted, *truth, trials)
    });
    for (((clean, correlation, _), wanted), figure) in items.iter().zip(&figures) {
        let what = format!("{wanted} visits, {} % clean, r = {correlation}", percent(*clean));
        check_guarantees(&mut section, figure, (*clean, *correlation, *wanted), &what);
    }
    let mut header = cells(["clean", "r"]);
    for wanted in WANTED {
        let stated = percent(level(wanted));
        header.push(format!("{wanted} visits: reported"));
        header.extend([format!("full speed, {stated} stated: kept"), "±".to_owned()]);
        header.extend(["unfiltered: kept", "±"].map(str::to_owned));
    }
    header.push("flagged".to_owned());
    section.grid(&header, &rows, &figures, |(clean, correlation, _), figures| {
        let mut row = vec![format!("{:.0}", 100.0 * clean), format!("{correlation}")];
        for (figure, wanted) in figures.iter().zip(WANTED) {
            row.push(percent(figure.reported.share()));
            for of in [&figure.full_speed, &figure.as_found] {
                row.extend([kept(of.kept, level(wanted)), of.half_width()]);
            }
        }
        row.push(percent(figures[0].flagged.share()));
        row
    });
    section.paragraph(STRATA);
    unused_rules(&mut section, trials);
    never_selected(&mut section, trials);
    section
}

fn check_guarantees(
    section: &mut Section,
    figure: &Figure,
    (clean, correlation, wanted): (f64, f64, usize),
    what: &str,
) {
    let stated = level(wanted);
    section.at_least(figure.full_speed.kept, stated - 0.02, &format!("full speed, {what}"));
    let found = figure.as_found.kept;
    if correlation == 0.0 {
        section.at_least(found, stated - 0.01, &format!("unfiltered, {what}"));
        section.at_most(figure.flagged, 0.01, &format!("flag, {what}"));
    }
    if correlation >= 0.6 && (0.35..0.65).contains(&clean) {
        // The page states that the level is not kept.
        section.at_most(found, stated - 0.1, &format!("unfiltered, {what}"));
        section.at_least(figure.flagged, 0.95, &format!("flag, {what}"));
    }
}

struct Rule {
    name: &'static str,
    /// The estimate for which the rule is used.
    stratum: Stratum,
    visits: fn(&mut Source, &mut Core, &Loop) -> Vec<Sample>,
}

/// Rules that the program does not use. The last two favour undisturbed visits.
const UNUSED_RULES: [Rule; 5] = [
    Rule {
        name: "five as they come",
        stratum: Stratum::FullSpeed,
        visits: |source, core, _| core.visits(source, 5),
    },
    Rule {
        name: "until five agree within 2 %",
        stratum: Stratum::FullSpeed,
        visits: until_five_agree,
    },
    Rule {
        name: "the five smallest of eleven",
        stratum: Stratum::FullSpeed,
        visits: |source, core, _| {
            let mut visits = sorted(core.visits(source, 11));
            visits.truncate(5);
            visits
        },
    },
    Rule {
        name: "stopped at the fifth clean one",
        stratum: Stratum::AsFound,
        visits: |source, core, reference| {
            let (mut visits, mut clean) = (Vec::new(), 0);
            while clean < 5 {
                visits.push(core.visit(source, visits.len()));
                let conditions = visits.last().map(Conditions::of);
                clean += clean_visits(conditions.as_slice(), reference).len();
            }
            visits
        },
    },
    Rule {
        name: "ten, of which five are the extra visits of the first five",
        stratum: Stratum::AsFound,
        visits: |source, core, reference| {
            let (mut visits, tried) = by_rule(source, core, 5, reference, visit);
            visits.extend((tried..tried + 10).map(|process| core.visit(source, process)));
            visits.truncate(10);
            visits
        },
    },
];

fn sorted(mut visits: Vec<Sample>) -> Vec<Sample> {
    visits.sort_by(|a, b| median_of(a).total_cmp(&median_of(b)));
    visits
}

fn until_five_agree(source: &mut Source, core: &mut Core, _: &Loop) -> Vec<Sample> {
    let mut visits = core.visits(source, 5);
    loop {
        visits = sorted(visits);
        let apart = |five: &&[Sample]| median_of(&five[4]) / median_of(&five[0]);
        let nearest = visits.windows(5).min_by(|a, b| apart(a).total_cmp(&apart(b)));
        match nearest.filter(|five| apart(five) < 1.02 || visits.len() == 20) {
            Some(five) => return five.to_vec(),
            None => visits.push(core.visit(source, visits.len())),
        }
    }
}

const RULES: &str = "\
Rules that the program does not use, with 46 % of the visits undisturbed at their start, without
correlation and with 0.6: how often the interval of their visits contains the truth of the
estimate, half its width, and the share of their visits that is *clean* in two thirds of the
rounds. Rules that stop at values, or select by them, miss full speed. Rules that stop at clean
visits favour them.";

fn unused_rules(section: &mut Section, trials: Trials) {
    const SHARE: f64 = 0.46;
    section.paragraph(RULES);
    let truth = truth_as_found(SHARE, trials);
    let items: Vec<(&Rule, f64)> = UNUSED_RULES
        .iter()
        .flat_map(|rule| [0.0, 0.6].map(|correlation| (rule, correlation)))
        .collect();
    let figures = each(&items, |(rule, correlation)| {
        let mut source = Source::named(trials.seed, &format!("{} {correlation}", rule.name));
        let (mut intervals, mut clean) = (Intervals::default(), 0.0);
        for _ in 0..trials.runs {
            let source = &mut source;
            let mut core = Core::new(SHARE, *correlation, source);
            let Some(reference) = core.reference(source) else { continue };
            let visits = (rule.visits)(source, &mut core, &reference);
            let conditions: Vec<Conditions> = visits.iter().map(Conditions::of).collect();
            clean += clean_visits(&conditions, &reference).len() as f64 / visits.len() as f64;
            let medians: Vec<f64> = visits.iter().map(median_of).collect();
            let limits = median_interval(&medians).map(|(limits, _)| limits);
            let is_found = rule.stratum == Stratum::AsFound;
            intervals.note(limits, if is_found { truth } else { TRUTH });
        }
        (intervals, clean / f64::from(trials.runs))
    });
    // Without selection, the share of undisturbed visits is unbiased.
    let unbiased = figures[0].1;
    let mut rows = Vec::new();
    for (of_rule, rule) in figures.chunks(2).zip(&UNUSED_RULES) {
        let mut row = cells([rule.name, rule.stratum.words()]);
        for (intervals, clean) in of_rule {
            row.extend([percent(intervals.kept.share()), intervals.half_width(), percent(*clean)]);
        }
        match rule.stratum {
            Stratum::AsFound => section.require(of_rule[0].1 > unbiased + 0.02, rule.name),
            _ => section.at_most(of_rule[1].0.kept, level(5) - 0.05, rule.name),
        }
        rows.push(row);
    }
    let header = ["rule", "estimate", "r = 0: kept", "±", "clean", "r = 0.6: kept", "±", "clean"];
    section.table(&cells(header), &rows);
}

const NEVER_SELECTED: &str = "\
Why visits of some operations are never selected (METHOD 23c). A long operation varies in length,
and is interrupted more often the longer it is: selecting those without an interruption favours the
short ones. An operation that slows the reference loop leaves no undisturbed visit, which the
program reports.";

fn never_selected(section: &mut Section, trials: Trials) {
    section.paragraph(NEVER_SELECTED);
    let mut rows = Vec::new();
    for (name, stratum) in [
        ("long operation, the undisturbed ones kept", Ok(Stratum::FullSpeed)),
        ("long operation, unfiltered", Err(NotSelected::LongOperation)),
    ] {
        let (medians, rate) = long_operations(stratum, trials);
        let typical = median(&medians).unwrap_or(f64::NAN) / TRUTH;
        match stratum {
            Ok(_) => section.at_most(rate, 0.90, name),
            Err(_) => section.at_least(rate, level(5), name),
        }
        rows.push(vec![name.to_owned(), format!("{typical:.2}"), percent(rate.share())]);
    }
    section.table(&cells(["estimate", "median, for a truth of 1.00", "kept"]), &rows);
    let (reported, recognised) = own_sibling(trials);
    section.require(reported.hits == 0, "work that slows the loop is never at full speed");
    section.at_least(recognised, 0.95, "work that slows the loop is recognised");
    section.paragraph(&format!(
        "Of an operation that slows the reference loop, with 46 % of the visits undisturbed: \
         full speed is reported\nin {} % of the runs, and *the work itself slows the reference \
         loop* in {} %.",
        percent(reported.share()),
        percent(recognised.share())
    ));
}

/// The medians of a long operation of varying length, and the coverage of their intervals.
fn long_operations(stratum: Result<Stratum, NotSelected>, trials: Trials) -> (Vec<f64>, Rate) {
    let mut source = Source::named(trials.seed, &format!("long {}", stratum.is_ok()));
    let (mut medians, mut rate) = (Vec::new(), Rate::default());
    for _ in 0..trials.runs {
        let mut one = |process| {
            let length = (0.5 * source.normal()).exp();
            let is_disturbed = source.uniform() > (-length).exp();
            let sample = with_loops(process, vec![TRUTH * length], &[FULL; 2]);
            Sample { disturbed: is_disturbed.then_some(0).into_iter().collect(), ..sample }
        };
        let samples: Vec<Sample> = (0..20).map(&mut one).collect();
        let strata = Strata::of(&samples, stratum, (5, 5), 20, Some(&FULL));
        let Some(summary) = strata.summarise() else { continue };
        if stratum.is_ok() && summary.full_speed.is_none() {
            continue;
        }
        medians.push(summary.median);
        rate.count(summary.limits().is_some_and(|[low, high]| low <= TRUTH && TRUTH <= high));
    }
    (medians, rate)
}

/// An operation that slows the reference loop: how often full speed is reported, and how often the
/// cause is recognised.
fn own_sibling(trials: Trials) -> (Rate, Rate) {
    let mut source = Source::named(trials.seed, "own sibling");
    let (mut reported, mut recognised) = (Rate::default(), Rate::default());
    let own = |source: &mut Source, process: usize, is_clean: bool| {
        let slow = slowness(source);
        let mut loops = [loop_times(source, slow, 1.0); ROUNDS + 1];
        if is_clean {
            loops[0] = FULL;
        }
        with_loops(process, vec![slow * TRUTH; ROUNDS], &loops)
    };
    for _ in 0..trials.runs {
        let mut core = Core::new(0.46, 0.3, &mut source);
        let Some(reference) = core.reference(&mut source) else { continue };
        let visits = by_rule(&mut source, &mut core, 5, &reference, own);
        let Some(summary) = summary(&visits, 5, &reference) else { continue };
        reported.count(summary.full_speed.is_some());
        recognised.count(summary.not_selected == Some(NotSelected::SlowsItself));
    }
    (reported, recognised)
}
