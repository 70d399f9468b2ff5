//! From transfers to records: times and rates of each set, effects, pages, claims, and advice.

use fathom_analysis::effects::{Contrast, Levels, effect, interaction};
use fathom_analysis::statistics::{mean as mean_of, median, median_interval};
use fathom_far::limit::{Evidence, paces, spread};
use fathom_metric::{Measured as Values, Recorder};
use fathom_paths::{Page, SendPath};
use fathom_record::{Cause, Check, Fact, Params, Prediction, Reason, Record, State, Unit, Verdict};

use crate::cell::{Cell, Factor};
use crate::claims;
use crate::metrics::{ADVICE, BANDWIDTH, CLAIM, EFFECT, OfPath, PAGE, RATE, TIME};
use crate::options::TransferOptions;
use crate::page;
use crate::run::{REPEAT_MIN, TransferMeasured, TransferRun};
use crate::sender::{SenderDone, SenderUsage};

/// Smaller interactions are not shown.
const INTERACTION_MIN: f64 = 0.05;
/// What limits a shorter transfer is not visible in the counters of its connection.
const LIMIT_BYTES_MIN: u64 = 4 << 20;

/// The cells of a set, and what its records share.
struct OfSet<'r> {
    run: &'r TransferRun,
    options: &'r TransferOptions,
    set: usize,
    cells: Vec<&'r TransferMeasured>,
}

/// Makes all records. Returns whether one has a number.
pub fn all(recorder: &mut dyn Recorder, run: &TransferRun, options: &TransferOptions) -> bool {
    let mut has_numbers = false;
    let mut advice = Vec::new();
    for set in 0..run.sets.len() {
        let of_set = OfSet::new(run, options, set);
        let times = of_set.times(recorder);
        has_numbers |= times.iter().any(|(_, record)| record.verdict.shows_number());
        recorder.show();
        let effects = of_set.effects(recorder);
        recorder.show();
        if options.published {
            of_set.claims(recorder);
            recorder.show();
        }
        if options.pages {
            of_set.pages(recorder);
            recorder.show();
        }
        advice.extend(of_set.advice(&effects));
    }
    if !advice.is_empty() && !options.published {
        record_text(recorder, &ADVICE, Params::default(), advice.join("; "), Vec::new());
        recorder.show();
    }
    has_numbers
}

/// Makes the records of the cells after a repetition.
pub fn draft(recorder: &mut dyn Recorder, run: &TransferRun, options: &TransferOptions) {
    for set in 0..run.sets.len() {
        drop(OfSet::new(run, options, set).times(recorder));
    }
}

fn record_text(
    recorder: &mut dyn Recorder,
    metric: &OfPath,
    params: Params,
    text: String,
    facts: Vec<Fact>,
) {
    let text = Some(text);
    let verdict = Some(Verdict::default());
    let metric = metric.0.id;
    recorder.record(Values { metric, params, text, facts, verdict, ..Values::default() });
}

impl<'r> OfSet<'r> {
    fn new(run: &'r TransferRun, options: &'r TransferOptions, set: usize) -> Self {
        let cells = run.cells.iter().filter(|measured| measured.cell.set == set).collect();
        Self { run, options, set, cells }
    }

    fn bytes(&self) -> u64 {
        self.run.sets[self.set].bytes()
    }

    fn with_host(&self, params: Params) -> Params {
        match &self.run.to {
            Some(to) => params.and("to", to.as_str()),
            None => params,
        }
    }

    fn params(&self, cell: &Cell) -> Params {
        let name = &self.run.sets[self.set].name;
        self.with_host(cell.params(name, self.options.published))
    }

    /// The time and rate of each cell.
    fn times(&self, recorder: &mut dyn Recorder) -> Vec<(Cell, Record)> {
        let mut all = Vec::new();
        for measured in &self.cells {
            let has_value = |block: usize| matches!(measured.done.get(block), Some(Some(_)));
            let (near, far) = self.run.disturbed_in(has_value);
            let done: Vec<&SenderDone> = measured.done.iter().flatten().collect();
            let times: Vec<f64> = done.iter().map(|one| one.ns).collect();
            let rates: Vec<f64> =
                times.iter().map(|ns| self.bytes() as f64 * 1e9 / ns.max(1.0)).collect();
            let verdict = verdict(measured);
            let bound = self.bound(&measured.cell, recorder);
            let values = |metric: &OfPath, values: Vec<f64>| Values {
                metric: metric.0.id,
                params: self.params(&measured.cell),
                values,
                in_fresh_processes: true,
                disturbance: near.clone(),
                far: far.clone(),
                verdict: verdict.clone(),
                doubts: doubts(self.run, done.len()),
                ..Values::default()
            };
            let time = recorder.record(Values {
                facts: self.facts(&measured.cell, &done, &rates),
                checks: vec![Check {
                    name: "content".to_owned(),
                    passed: done.iter().all(|one| one.wrong.is_none()),
                    detail: "XOR-32, position sum and length of each file".to_owned(),
                }],
                prediction: bound.as_ref().map(|(time, _)| time.clone()),
                ..values(&TIME, times)
            });
            recorder
                .record(Values { prediction: bound.map(|(_, rate)| rate), ..values(&RATE, rates) });
            all.push((measured.cell, time));
        }
        all
    }

    /// What TCP carries at most, for a sender that copies into the socket. The least time, and the
    /// highest rate.
    fn bound(&self, cell: &Cell, recorder: &dyn Recorder) -> Option<(Prediction, Prediction)> {
        let copies = [SendPath::Copy, SendPath::Mmap].contains(&cell.send);
        if self.run.to.is_some() || !copies || self.bytes() < LIMIT_BYTES_MIN {
            return None;
        }
        let is_like = |record: &&Record| {
            let text = |name: &str| record.params.text(name);
            record.metric.as_str() == BANDWIDTH
                && record.verdict.shows_number()
                && text("to") == Some("loopback")
                && text("direction") != Some("both")
        };
        let known = recorder.known().iter().filter(is_like);
        let rate = |record: &Record| record.summary.as_ref().map(|summary| summary.median);
        let (rate, name) = known
            .filter_map(|record| Some((rate(record)?, record.name())))
            .max_by(|(one, _), (other, _)| one.total_cmp(other))?;
        let source = "the bytes pass TCP, at both ends by a copy";
        let meaning = "TCP carried less when it was measured, such as by a congestion control that \
                       paces";
        let bytes = self.bytes() as f64;
        let least = bytes * 1e9 / rate;
        let time = Prediction::at_least(least, &format!("≥ {bytes:.0} B ÷ {name}"), source);
        let most = Prediction::at_most(rate, &format!("≤ {name}"), source);
        let with = |bound: Prediction| bound.with_result(&name, rate, Unit::BytesPerSecond);
        Some((with(time).if_below(meaning), with(most).if_above(meaning)))
    }

    fn facts(&self, cell: &Cell, done: &[&SenderDone], rates: &[f64]) -> Vec<Fact> {
        let middle = |of: &dyn Fn(&SenderDone) -> f64| {
            let values: Vec<f64> = done.iter().map(|one| of(one)).collect();
            median(&values)
        };
        let per_gb = |usage: SenderUsage| usage.cpu_ns as f64 * 1e9 / self.bytes() as f64;
        let mut facts = Vec::new();
        let mut add = |name: &str, value: Option<f64>, unit| {
            facts.extend(value.map(|value| Fact::quantity(name, value, unit)));
        };
        // Of the median time, beside which it stands.
        let rate = middle(&|one| one.ns).map(|ns| self.bytes() as f64 * 1e9 / ns.max(1.0));
        add("rate", rate, Unit::BytesPerSecond);
        add("send CPU/GB", middle(&|one| per_gb(one.near)), Unit::Nanoseconds);
        add("receive CPU/GB", middle(&|one| per_gb(one.far)), Unit::Nanoseconds);
        add("send faults", middle(&|one| one.near.faults as f64), Unit::Ratio);
        add("receive faults", middle(&|one| one.far.faults as f64), Unit::Ratio);
        if self.options.published
            && let Some((mean, sd)) = published(&self.params(&cell.as_published()))
        {
            add("published", Some(mean), Unit::Nanoseconds);
            add("published sd", sd, Unit::Nanoseconds);
            let times: Vec<f64> = done.iter().map(|one| one.ns).collect();
            let here = mean_of(&times).filter(|_| !self.run.is_emulated);
            add("÷ published", here.map(|here| here / mean), Unit::Ratio);
        }
        if cell.send == SendPath::Zerocopy {
            let share = |one: &SenderDone| {
                one.zero_copy.map_or(f64::NAN, |[sent, zero, _]| zero as f64 / sent.max(1) as f64)
            };
            let share = middle(&share).filter(|share| share.is_finite());
            add("without a copy", share, Unit::Ratio);
        }
        let [send, receive] = self.run.cpus();
        facts.push(Fact::text("CPUs", format!("send {send}, receive {receive}")));
        let files = self.run.sets[self.set].describe();
        facts.push(Fact::text("files", files));
        if let Some(first) = done.first().filter(|one| !one.congestion.is_empty()) {
            facts.push(Fact::text("congestion", first.congestion.clone()));
        }
        if cell.persistent && self.bytes() >= LIMIT_BYTES_MIN && !done.is_empty() {
            facts.push(Fact::text("limited by", self.limit(done, rates)));
        }
        facts
    }

    /// What limits the transfer, by the medians over the repetitions.
    fn limit(&self, done: &[&SenderDone], rates: &[f64]) -> String {
        let evidence = |one: &SenderDone| {
            let senders: Vec<_> = one.tcp.into_iter().collect();
            Evidence::of_senders(&senders)
        };
        let middle = |of: &dyn Fn(&SenderDone) -> f64| {
            let values: Vec<f64> = done.iter().map(|one| of(one)).collect();
            median(&values).unwrap_or_default()
        };
        let share = |usage: fn(&SenderDone) -> SenderUsage| {
            middle(&|one| usage(one).cpu_ns as f64 / one.ns.max(1.0))
        };
        let all = Evidence {
            cpu: [share(|one| one.near), share(|one| one.far)],
            one_cpu: self.run.shares_cpu,
            window: middle(&|one| evidence(one).window),
            buffer: middle(&|one| evidence(one).buffer),
            paces: done.first().is_some_and(|one| paces(&one.congestion)),
            is_here: self.run.to.is_none(),
            spread: spread(rates),
        };
        all.limit().text().to_owned()
    }

    fn levels(&self) -> Vec<Levels> {
        self.cells.iter().map(|measured| measured.cell.levels()).collect()
    }

    /// The ratio of a contrast in each repetition that has all of its cells.
    fn ratios(&self, contrast: &Contrast, numbers: Option<&[usize]>) -> Vec<f64> {
        let all = self.ratios_of_blocks(contrast, numbers);
        all.into_iter().map(|(_, ratio)| ratio).collect()
    }

    /// The same with the number of each repetition.
    fn ratios_of_blocks(
        &self,
        contrast: &Contrast,
        numbers: Option<&[usize]>,
    ) -> Vec<(usize, f64)> {
        let repeats = self.cells.iter().map(|measured| measured.done.len()).max().unwrap_or(0);
        let all: Vec<usize> = (0..self.cells.len()).collect();
        let numbers = numbers.unwrap_or(&all);
        let time = |number: &usize, repeat: usize| {
            let done = self.cells[*number].done.get(repeat)?.as_ref()?;
            done.wrong.is_none().then_some(done.ns)
        };
        let ratio = |repeat: usize| {
            let times: Vec<Option<f64>> =
                numbers.iter().map(|number| time(number, repeat)).collect();
            Some((repeat, contrast.ratio(&times)?))
        };
        (0..repeats).filter_map(ratio).collect()
    }

    /// The effect of each level against the first cell's, and the interactions that matter.
    fn effects(&self, recorder: &mut dyn Recorder) -> Vec<Record> {
        let levels = self.levels();
        let Some(reference) = levels.first().cloned() else { return Vec::new() };
        let name = &self.run.sets[self.set].name;
        let mut records = Vec::new();
        let mut others: Vec<(usize, [u32; 2])> = Vec::new();
        for place in 0..Factor::ALL.len() {
            let mut found: Vec<u32> = Vec::new();
            for level in levels.iter().map(|cell| cell[place]) {
                if level != reference[place] && !found.contains(&level) {
                    found.push(level);
                }
            }
            others.extend(found.into_iter().map(|level| (place, [reference[place], level])));
        }
        for (place, [from, to]) in &others {
            let factor = Factor::ALL[*place];
            // A pair without such a size would be a comparison of equals.
            let has = |cell: &Cell| factor.size().is_none_or(|size| cell.has(size));
            let numbers = (0..levels.len()).filter(|number| has(&self.cells[*number].cell));
            let numbers: Vec<usize> = numbers.collect();
            let of: Vec<Levels> = numbers.iter().map(|number| levels[*number].clone()).collect();
            let Some(contrast) = effect(&of, *place, [*from, *to]) else { continue };
            let params = Params::one("set", name.as_str())
                .and("factor", factor.name())
                .and("from", factor.level_name(*from).as_str())
                .and("level", factor.level_name(*to).as_str());
            let ratios = self.ratios_of_blocks(&contrast, Some(&numbers));
            let facts = vec![Fact::quantity("pairs", contrast.terms as f64, Unit::Ratio)];
            records.extend(self.effect(recorder, params, ratios, facts));
        }
        for (first, one) in others.iter().enumerate() {
            for other in others[first + 1..].iter().filter(|other| other.0 != one.0) {
                let Some(contrast) = interaction(&levels, *one, *other) else { continue };
                let values = self.ratios(&contrast, None);
                let Some(([low, high], _)) = median_interval(&values) else { continue };
                let middle = median(&values).unwrap_or(1.0);
                if (low <= 1.0 && high >= 1.0) || (middle - 1.0).abs() < INTERACTION_MIN {
                    continue;
                }
                let [factor, with] = [Factor::ALL[one.0], Factor::ALL[other.0]];
                let there = with.level_name(other.1[1]);
                let params = Params::one("set", name.as_str())
                    .and("factor", factor.name())
                    .and("from", factor.level_name(one.1[0]).as_str())
                    .and("level", factor.level_name(one.1[1]).as_str())
                    .and("with", format!("{}-{there}", with.name()).as_str());
                let at = |level: u32| {
                    let is = |number: &usize| levels[*number][other.0] == level;
                    let numbers: Vec<usize> = (0..levels.len()).filter(is).collect();
                    let of = numbers.iter().map(|number| levels[*number].clone());
                    let simple = effect(&of.collect::<Vec<Levels>>(), one.0, one.1)?;
                    median(&self.ratios(&simple, Some(&numbers)))
                };
                let facts = [("at reference", other.1[0]), ("there", other.1[1])];
                let fact = |(place, level)| {
                    Some(Fact::quantity(&format!("effect {place}"), at(level)?, Unit::Ratio))
                };
                let facts = facts.into_iter().filter_map(fact).collect();
                let ratios = self.ratios_of_blocks(&contrast, None);
                records.extend(self.effect(recorder, params, ratios, facts));
            }
        }
        records
    }

    fn effect(
        &self,
        recorder: &mut dyn Recorder,
        params: Params,
        ratios: Vec<(usize, f64)>,
        facts: Vec<Fact>,
    ) -> Option<Record> {
        if ratios.is_empty() {
            return None;
        }
        let (blocks, values): (Vec<usize>, Vec<f64>) = ratios.into_iter().unzip();
        let (disturbance, far) = self.run.disturbed_in(|block| blocks.contains(&block));
        Some(recorder.record(Values {
            metric: EFFECT.0.id,
            params: self.with_host(params),
            doubts: doubts(self.run, values.len()),
            values,
            in_fresh_processes: true,
            disturbance,
            far,
            facts,
            ..Values::default()
        }))
    }

    fn claims(&self, recorder: &mut dyn Recorder) {
        let name = &self.run.sets[self.set].name;
        let cells = self.cells.iter().map(|measured| measured.cell.as_published());
        let cells: Vec<Cell> = cells.collect();
        for claim in claims::ALL.iter().filter(|claim| claim.set == name) {
            let Some((contrast, numbers)) = claim.contrast(&cells) else { continue };
            let ratios = self.ratios(&contrast, Some(&numbers));
            let (Some(middle), Some((interval, _))) = (median(&ratios), median_interval(&ratios))
            else {
                continue;
            };
            let text = format!(
                "{}: time × {middle:.2} ({:.2} to {:.2}), published × {:.2}",
                claim.word(interval),
                interval[0],
                interval[1],
                claim.published
            );
            let params = Params::one("set", name.as_str()).and("claim", claim.text);
            let of_emulator = if self.run.is_emulated { "emulated, not comparable: " } else { "" };
            record_text(recorder, &CLAIM, params, format!("{of_emulator}{text}"), Vec::new());
        }
    }

    /// The page behind the first mapping of each end.
    fn pages(&self, recorder: &mut dyn Recorder) {
        let name = &self.run.sets[self.set].name;
        for (end, of) in [
            ("send", (|done: &SenderDone| done.near.page) as fn(&SenderDone) -> Option<Page>),
            ("receive", |done: &SenderDone| done.far.page),
        ] {
            let found = self.cells.iter().find_map(|measured| {
                let page = measured.done.iter().flatten().find_map(of)?;
                Some((measured.cell, page))
            });
            let Some((cell, page)) = found else { continue };
            let path = if end == "send" { cell.send.name() } else { cell.receive.name() };
            let params = Params::one("set", name.as_str()).and("end", end).and("path", path);
            let facts = vec![
                Fact::text("entry", page::entry(page)),
                Fact::text("legend", page::legend(page)),
            ];
            record_text(recorder, &PAGE, self.with_host(params), page::words(page), facts);
        }
    }

    /// What to use for this set, with its evidence. The fastest is chosen by every second
    /// repetition, and its ratio is that of the others: one of many is fastest by chance, too.
    fn advice(&self, effects: &[Record]) -> Option<String> {
        let name = &self.run.sets[self.set].name;
        let middle = |number: usize| {
            let half = self.cells[number].done.iter().step_by(2).flatten();
            median(&half.map(|one| one.ns).collect::<Vec<f64>>()).filter(|ns| *ns > 0.0)
        };
        middle(0)?;
        let timed = (0..self.cells.len()).filter_map(|number| Some((number, middle(number)?)));
        let (best, _) = timed.min_by(|(_, one), (_, other)| one.total_cmp(other))?;
        let first = words(&self.cells[0].cell, None);
        // How many times as fast, in each other repetition.
        let ratios = between(best, 0).map_or(Vec::new(), |ratio| self.ratios(&ratio, None));
        let ratios: Vec<f64> = ratios.into_iter().skip(1).step_by(2).collect();
        let fastest = median(&ratios).zip(median_interval(&ratios));
        let needed = 2 * REPEAT_MIN as usize;
        if self.cells[0].done.len() < needed {
            return Some(format!("{name}: inconclusive below {needed} repetitions"));
        }
        let mut parts = vec![match fastest {
            Some((ratio, ([low, high], _))) if low > 1.0 => format!(
                "{name}: {} is {ratio:.2} × as fast as {first} ({low:.2} to {high:.2})",
                words(&self.cells[best].cell, Some(&self.cells[0].cell))
            ),
            _ => format!("{name}: nothing is clearly faster than {first}"),
        }];
        // The two settings that matter most; answers are an extra, not a setting to choose.
        let size = |record: &&Record| {
            let median = record.summary.as_ref().map_or(1.0, |summary| summary.median);
            median.ln().abs()
        };
        let is_setting = |record: &&Record| {
            let factor = record.params.text("factor").unwrap_or("");
            let limits = record.summary.as_ref().and_then(|summary| summary.limits());
            !["send", "receive", "ack"].contains(&factor)
                && record.params.text("with").is_none()
                && record.verdict.shows_number()
                && limits.is_some_and(|[low, high]| low > 1.0 || high < 1.0)
        };
        let mut settings: Vec<&Record> = effects.iter().filter(is_setting).collect();
        settings.sort_by(|one, other| size(other).total_cmp(&size(one)));
        for record in settings.into_iter().take(2) {
            let summary = record.summary.as_ref()?;
            let [low, high] = summary.limits()?;
            let text = |name: &str| record.params.text(name).unwrap_or("").to_owned();
            let word = if summary.median > 1.0 { "avoid" } else { "use" };
            let factor = text("factor");
            let factor = Factor::ALL.into_iter().find(|one| one.name() == factor)?;
            parts.push(format!(
                "{word} {}: {:.2} × the time of {} ({low:.2} to {high:.2})",
                factor.words(&text("level")),
                summary.median,
                factor.words(&text("from")),
            ));
        }
        Some(parts.join(", "))
    }
}

/// The time of the second cell ÷ the time of the first; `None` of one cell.
fn between(below: usize, above: usize) -> Option<Contrast> {
    if below == above {
        return None;
    }
    let mut levels: Vec<Levels> = vec![vec![2]; below.max(above) + 1];
    (levels[below], levels[above]) = (vec![0], vec![1]);
    effect(&levels, 0, [0, 1])
}

/// Paths and, beside another cell, the settings that differ.
fn words(cell: &Cell, beside: Option<&Cell>) -> String {
    let mut words = format!("{} to {}", cell.send, cell.receive);
    let Some(other) = beside else { return words };
    let levels = cell.levels().into_iter().zip(other.levels());
    for (factor, (level, usual)) in Factor::ALL.iter().zip(levels).skip(2) {
        if level != usual {
            words += &format!(", {}", factor.words(&factor.level_name(level)));
        }
    }
    words
}

/// The published mean of a cell, and its standard deviation.
fn published(params: &Params) -> Option<(f64, Option<f64>)> {
    let study = fathom_analysis::reference::find("2020-transfer")?;
    let metric = fathom_record::MetricId::new(TIME.0.id);
    let found = study.record.iter().find(|one| one.is_like(&metric, params))?;
    let mean = found.measured.number()?;
    Some((mean, found.sd_percent.map(|percent| percent / 100.0 * mean)))
}

/// Other than by the values.
fn verdict(measured: &TransferMeasured) -> Option<Verdict> {
    let wrong = measured.done.iter().flatten().find_map(|done| done.wrong.clone());
    let invalid = wrong.map(|why| Verdict::because(State::Invalid, Cause::WrongWork, why));
    let is_empty = measured.done.iter().all(Option::is_none);
    let failed = measured.failed.clone().filter(|_| is_empty);
    invalid.or(failed.map(|failure| match failure.is_missing {
        true => Verdict::because(State::Unavailable, Cause::Missing, failure.why),
        false => Verdict::because(State::Failed, Cause::WrongWork, failure.why),
    }))
}

fn doubts(run: &TransferRun, repeats: usize) -> Vec<Reason> {
    let mut doubts = Vec::new();
    if repeats < REPEAT_MIN as usize {
        let text = format!("{repeats} repetitions; an interval needs {REPEAT_MIN}");
        doubts.push(Reason::new(Cause::TooShort, text));
    }
    if run.shares_cpu {
        doubts.push(Reason::new(Cause::NotAsAsked, "both ends share one CPU"));
    }
    doubts
}
