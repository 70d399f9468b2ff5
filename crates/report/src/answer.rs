//! The answer that a page begins with: a verdict in words; then what to ignore, what is unusual,
//! and what to do next. All of it is from the records.

use fathom_analysis::evidence::{NOISY_MAX, shown_agreement};
use fathom_record::command::RATIO_METRIC;
use fathom_record::quantity::percent;
use fathom_record::{
    Agreement, Better, Class, Document, Record, Run, State, Stratum, causes, shell_word,
};
use serde::Serialize;

use crate::by_hand;
use crate::case::counted;
use crate::closing::{progress, run_verdict};
use crate::core_state::{DISTURBANCES, busy, core_state, left_out};
use crate::counts::{agreements, cause_words};
use crate::distinct::{distinct, grouped};
use crate::findings::{self, beside_typical, furthest_outside, furthest_worse, sentence, short};
use crate::opening::labelled;
use crate::paint::{BAD, CARE, PLAIN, paint_lines};
use crate::remarks::meaning;
use crate::remedy;
use crate::tiles::Tile;
use crate::wrap::{capitalised, glued, wrapped};

/// Results named at most in each kind of what is unusual.
const NAMED: usize = 3;
/// Bad results named in the verdict.
const WORST_NAMED: usize = 2;
/// Remedies named at most.
const REMEDIES: usize = 3;
/// What to do next, as named on a terminal.
const NEXT: usize = 3;
const DOCTOR: &str = "`fathom doctor`: what disturbs this machine now";

/// The answer of a run.
#[derive(Serialize)]
pub(crate) struct Answer {
    mood: Mood,
    /// Sentences, each a line of its own.
    pub(crate) verdict: Vec<String>,
    /// The one of them on what is bad.
    #[serde(skip)]
    pub(crate) bad: Option<String>,
    ignore: Vec<AnswerItem>,
    unusual: Vec<AnswerItem>,
    /// What was compared if nothing is unusual.
    usual: String,
    next: Vec<AnswerItem>,
}

/// Whether the verdict needs attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Mood {
    Good,
    Care,
    Bad,
}

/// A line of a list.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
struct AnswerItem {
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    /// The word by which the table shows the results that it counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    show: Option<&'static str>,
}

impl AnswerItem {
    fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
}

impl Answer {
    pub(crate) fn from_document(document: &Document, tiles: &[Tile]) -> Self {
        let (unusual, signs) = unusual(document, tiles);
        let procedure = document.run.procedure.as_ref().map(|_| by_hand::answer(document));
        let by_hand::ByHandAnswer { sentences, next: own, doubt } = procedure.unwrap_or_default();
        let (mut mood, mut verdict) = verdict(document, &signs, (sentences.is_empty(), doubt));
        // An answer that asks for more is not the last word, nor is one that lacks a number.
        let lacks = |it: &Record| document.run.procedure.is_some() && !it.verdict.shows_number();
        if mood == Mood::Good && (!own.is_empty() || document.records.iter().any(lacks)) {
            mood = Mood::Care;
        }
        let bad = (signs.bad > 0).then(|| signs.sentence()).filter(|it| verdict.contains(it));
        verdict.splice(0..0, sentences);
        let mut next: Vec<AnswerItem> = own.iter().map(AnswerItem::new).collect();
        let of_run = self::next(document, &signs);
        next.extend(of_run.into_iter().filter(|it| own.iter().all(|own| *own != it.text)));
        let usual = usual(&document.records, tiles);
        Self { mood, verdict, bad, ignore: ignore(document), unusual, usual, next }
    }

    /// As a terminal begins with it: the sentences, and what to do next.
    pub(crate) fn lines(&self, width: usize) -> String {
        let style = match self.mood {
            Mood::Good => PLAIN,
            Mood::Care => CARE,
            Mood::Bad => BAD,
        };
        let sentences = self.verdict.iter().map(|it| wrapped(it, width, "", "  "));
        paint_lines(style, &sentences.collect::<String>()) + &self.next_lines(width)
    }

    /// What to do next, a line each.
    pub(crate) fn next_lines(&self, width: usize) -> String {
        let next = self.next.iter().take(NEXT).enumerate();
        let line = |(at, item): (usize, &AnswerItem)| {
            labelled(if at == 0 { "next" } else { "" }, &item.text, width)
        };
        next.map(line).collect()
    }
}

/// The results that are unusual, and say something of the machine.
#[derive(Default)]
struct Signs<'r> {
    /// The one that is furthest from its prediction.
    furthest: Option<&'r Record>,
    is_beside_typical: bool,
    /// How many are worse than they should be: than predicted, than on such machines, than earlier.
    bad: usize,
    /// The worst of them.
    worst: Vec<String>,
    groups: Vec<&'r str>,
    /// How many others are outside their prediction.
    others: usize,
}

impl Signs<'_> {
    /// `Bad at memory: memory.latency.dram 149.4 ns, worse than all 49; 1 more.`, or that some
    /// results are unusual; empty if nothing is.
    fn sentence(&self) -> String {
        let more = self.bad.saturating_sub(self.worst.len());
        match (self.bad, self.others) {
            (0, 0) => String::new(),
            (0, others) => {
                format!(
                    "Unusual: {} outside the prediction, none worse.",
                    counted(others, "result")
                )
            }
            _ => {
                let more = if more == 0 { String::new() } else { format!("; {more} more") };
                format!("Bad at {}: {}{more}.", self.groups.join(", "), self.worst.join("; "))
            }
        }
    }
}

/// The verdict on a run; `is_alone` if it has no other answer. `doubt`: what is, by that answer.
fn verdict(
    document: &Document,
    signs: &Signs<'_>,
    (is_alone, doubt): (bool, Option<String>),
) -> (Mood, Vec<String>) {
    let Document { records, run, .. } = document;
    let count = |is: fn(&Record) -> bool| records.iter().filter(|record| is(record)).count();
    let all = records.len();
    let numbers = count(|record| record.verdict.shows_number());
    let noisy = count(|record| record.verdict.state == State::Noisy);
    let valid = count(|record| record.verdict.state == State::Valid);
    let mut verdict: Vec<String> = progress(document).into_iter().collect();
    let is_whole = verdict.is_empty();
    if matches!(run.verdict.state, State::Invalid | State::Failed) {
        verdict.extend(run_verdict(document));
        return (Mood::Bad, verdict);
    }
    if all == 0 {
        // Or a run that has just begun.
        verdict.extend(is_whole.then(|| "Nothing was measured.".to_owned()));
        return (Mood::Care, verdict);
    }
    if numbers == 0 {
        verdict.push(without_numbers(records));
        return (Mood::Bad, verdict);
    }
    let busy = busy(document).filter(|_| run.procedure.is_none());
    let mostly_noisy = noisy as f64 > NOISY_MAX * numbers as f64;
    let (mut mood, sentences) = match signs.sentence() {
        _ if busy.is_some() || mostly_noisy => (Mood::Care, Vec::new()),
        unusual => judged(document, signs, unusual),
    };
    let of = counted(all, "result");
    verdict.extend(did_not_fit(run).filter(|_| is_whole));
    if let Some(how) = &busy {
        verdict.extend([format!("Measured on a {how}."), of_busy(document, valid)]);
    }
    // A procedure has an answer of its own.
    let is_said = is_alone || mood != Mood::Good;
    verdict.extend(sentences.into_iter().filter(|_| is_said));
    let share = percent(noisy as f64 / all.max(1) as f64);
    let core = run.reference.filter(|_| busy.is_none() && run.procedure.is_none());
    let core = core.map_or(String::new(), |it| capitalised(&core_state(&it, false)) + "; ");
    match noisy {
        0 if is_alone => {
            let one = if valid == 1 { "is" } else { "are" };
            verdict.push(format!("{core}{valid} of {of} {one} valid."));
        }
        0 => {}
        // Said of the busy machine.
        _ if noisy == all && busy.is_some() => {}
        _ if mostly_noisy && doubt.is_some() => {
            mood = Mood::Care;
            verdict.extend(doubt);
        }
        _ if mostly_noisy && busy.is_none() => {
            mood = Mood::Care;
            let which = match all {
                1 => "The result is noisy".to_owned(),
                _ => format!("{noisy} of {of} noisy ({share})"),
            };
            verdict.push(format!("{core}{which}: {}.", of_noisy(records)));
        }
        _ => {
            let then = match has_ratio(records) {
                true => "compare commands by their ratios".to_owned(),
                false => format!("ignore {}", noisiest(records)),
            };
            verdict.push(format!("{core}{noisy} of {of} noisy ({share}): {then}."));
        }
    }
    if run.verdict.state == State::Noisy {
        let why: Vec<&str> = run.verdict.reasons.iter().map(|it| it.text.as_str()).collect();
        verdict.push(sentence(format!("The run is noisy: {}", why.join("; "))));
    }
    (if is_whole { mood } else { Mood::Care }, verdict)
}

/// What the numbers of a busy machine say, of which so many are valid.
fn of_busy(document: &Document, valid: usize) -> String {
    let all = document.records.len();
    match findings::judged(document).count() {
        0 => format!(
            "No number shows what the machine itself can do; {valid} of {} {} valid beside this \
             load: compare runs beside the same load only.",
            counted(all, "result"),
            if all == 1 { "is" } else { "are" }
        ),
        count => {
            format!("{count} of {} show what the machine can do.", counted(valid, "valid result"))
        }
    }
}

/// `those: memory.bandwidth 13, file.read.throughput 9, 24 results of 5 other metrics`.
/// What can be concluded if most numbers are noisy.
fn of_noisy(records: &[Record]) -> &'static str {
    match has_ratio(records) {
        true => "times differ from run to run, the ratios are of pairs and have intervals",
        false => "measure again before you conclude anything",
    }
}

/// Whether commands were run in turn: what disturbs both alike is not in their ratio.
fn has_ratio(records: &[Record]) -> bool {
    let is = |record: &Record| record.metric.as_str() == RATIO_METRIC;
    records.iter().any(|record| is(record) && record.verdict.shows_number())
}

fn noisiest(records: &[Record]) -> String {
    let metrics = noisy_by_metric(records);
    match metrics.as_slice() {
        [(_, cases)] if cases.len() == 1 => return format!("it, {}", cases[0].name()),
        [(one, _)] => return format!("those, all of {one}"),
        _ => {}
    }
    format!("those: {}", by_metric(&metrics, NAMED))
}

/// `memory.bandwidth 13, os.pipe.rtt, 24 results of 5 other metrics`: the first ones of these with
/// their counts.
pub(crate) fn by_metric(metrics: &[(&str, Vec<&Record>)], most: usize) -> String {
    let (named, others) = metrics.split_at(metrics.len().min(most));
    let name = |(metric, cases): &(&str, Vec<&Record>)| match cases.len() {
        1 => (*metric).to_owned(),
        several => glued(&format!("{metric} {several}")),
    };
    let mut parts: Vec<String> = named.iter().map(name).collect();
    let rest: usize = others.iter().map(|(_, cases)| cases.len()).sum();
    parts.extend((rest > 0).then(|| {
        format!("{} of {}", counted(rest, "result"), counted(others.len(), "other metric"))
    }));
    parts.join(", ")
}

/// The noisy results by metric, those with most first.
pub(crate) fn noisy_by_metric(records: &[Record]) -> Vec<(&str, Vec<&Record>)> {
    let noisy = records.iter().filter(|record| record.verdict.state == State::Noisy);
    let mut metrics = grouped(noisy.map(|record| (record.metric.as_str(), record)));
    metrics.sort_by_key(|(_, cases)| std::cmp::Reverse(cases.len()));
    metrics
}

fn did_not_fit(run: &Run) -> Option<String> {
    let metrics = counted(run.left_out.len(), "metric");
    (!run.left_out.is_empty()).then(|| format!("Cases of {metrics} did not fit into the time."))
}

/// Why no result has a number.
fn without_numbers(records: &[Record]) -> String {
    let why = records.iter().filter_map(|record| record.verdict.reasons.first());
    let why: Vec<&str> = distinct(why.map(|reason| reason.text.as_str()));
    match why.as_slice() {
        [only] => sentence(format!("No result has a number: {only}")),
        [first, rest @ ..] => sentence(format!(
            "No result has a number: {first}; and {}",
            counted(rest.len(), "other reason")
        )),
        [] => "No result has a number.".to_owned(),
    }
}

/// What predictions and published machines say; `unusual`: what does not fit them.
fn judged(document: &Document, signs: &Signs<'_>, unusual: String) -> (Mood, Vec<String>) {
    let Document { records, run, .. } = document;
    let [within, outside, open] = agreements(records, Class::Value);
    let [met, violated, inconclusive] = agreements(records, Class::Bound);
    let values = within + outside + open;
    let bounds = met + violated + inconclusive;
    let mut checks = Vec::new();
    if values > 0 {
        checks.push(format!("{within} of {} within", counted(values, "predicted value")));
    }
    if bounds > 0 {
        checks.push(format!("{met} of {} met", counted(bounds, "bound")));
    }
    // The rest are not wrong, if that is not said.
    let (open_ended, undecided) = (without_interval(records), open + inconclusive);
    checks.extend(match undecided {
        0 => None,
        _ if open_ended == undecided => {
            Some(format!("{} no interval to judge by", have(open_ended)))
        }
        _ => Some(format!("{undecided} inconclusive")),
    });
    let failed = outside + violated;
    checks.extend((failed > 0).then(|| format!("{failed} outside")));
    let is_battery = run.procedure.is_none() && run.asked.is_empty();
    // Most of the values of a group: a bound that is met says that it is not bad.
    let mut good = groups(findings::judged(document));
    good.retain(|name| {
        let own = records.iter().filter(|it| group(it) == *name);
        let [within, outside, open] = agreements(own, Class::Value);
        within > outside + open && !signs.groups.contains(name)
    });
    let (mood, start) = match values + bounds {
        0 if unusual.is_empty() => return (Mood::Good, Vec::new()),
        0 => return (Mood::Care, vec![unusual]),
        _ if 2 * (open + inconclusive) > values + bounds => {
            (Mood::Care, "The predictions are inconclusive".to_owned())
        }
        _ if signs.bad == 0 && is_battery => {
            (Mood::Good, "No sign that something slows this machine".to_owned())
        }
        _ if is_battery && !good.is_empty() => {
            (Mood::Care, format!("Good at {}, as predicted", good.join(", ")))
        }
        // Of one subject.
        _ if unusual.is_empty() => (Mood::Good, "As predicted".to_owned()),
        _ => (Mood::Care, "Predictions".to_owned()),
    };
    let mood = if unusual.is_empty() { mood } else { Mood::Care };
    let predicted = format!("{start}: {}.", checks.join(", "));
    (mood, [unusual, predicted].into_iter().filter(|it| !it.is_empty()).collect())
}

/// `memory` of `memory.latency`.
fn group(record: &Record) -> &str {
    record.metric.as_str().split('.').next().unwrap_or_default()
}

fn groups<'r>(records: impl Iterator<Item = &'r Record>) -> Vec<&'r str> {
    distinct(records.map(group))
}

fn have(count: usize) -> String {
    if count == 1 { "1 has".to_owned() } else { format!("{count} have") }
}

/// Results whose prediction is inconclusive because they have no interval.
fn without_interval(records: &[Record]) -> usize {
    let lacks = |it: &&Record| it.summary.as_ref().is_some_and(|it| it.interval.is_none());
    let open = records.iter().filter(|it| shown_agreement(it) == Some(Agreement::Inconclusive));
    open.filter(|it| it.verdict.shows_number()).filter(lacks).count()
}

/// What was compared where nothing unusual was found.
fn usual(records: &[Record], tiles: &[Tile]) -> String {
    let shown = || records.iter().filter(|it| it.verdict.shows_number());
    let count = |is: fn(Agreement) -> bool| {
        shown().filter(|it| shown_agreement(it).is_some_and(is)).count()
    };
    let [hold, predicted] = [count(Agreement::holds), count(|_| true)];
    let typical = records.iter().filter(|it| it.typical.is_some()).count();
    let earlier = tiles.iter().filter(|tile| tile.has_history()).count();
    let of = [
        (predicted, format!("{hold} of {} within or met", counted(predicted, "prediction"))),
        (typical, format!("{typical} compared with typical machines")),
        (earlier, format!("{earlier} compared with earlier runs")),
    ];
    let of: Vec<String> =
        of.into_iter().filter(|(count, _)| *count > 0).map(|(_, text)| text).collect();
    let start = if 2 * hold < predicted { "Inconclusive" } else { "Nothing" };
    match of.join(", ") {
        none if none.is_empty() => {
            "No prediction, typical range or earlier run to compare with.".to_owned()
        }
        of => format!("{start}: {of}."),
    }
}

/// Results that say little, by state and cause.
fn ignore(document: &Document) -> Vec<AnswerItem> {
    let Document { records, run, .. } = document;
    let mut items = Vec::new();
    for state in [State::Noisy, State::Invalid, State::Unavailable, State::Failed] {
        items.extend(causes(records, state).into_iter().map(|(cause, count)| AnswerItem {
            text: format!("{count} {}: {}", state.word(), cause_words(cause)),
            detail: None,
            show: Some(state.word()),
        }));
    }
    if let Some(reference) = run.reference.filter(|it| it.state != Some(Stratum::ToItself)) {
        items.push(AnswerItem::new(core_state(&reference, false)));
    }
    items.extend(left_out(run).map(AnswerItem::new));
    if run.verdict.state == State::Noisy {
        let why: Vec<&str> = run.verdict.reasons.iter().map(|it| it.text.as_str()).collect();
        let text = "small differences from other runs";
        items.push(AnswerItem { detail: Some(why.join("; ")), ..AnswerItem::new(text) });
    }
    items
}

/// Results outside their predictions, worse than typical, and changed since earlier runs.
fn unusual<'r>(document: &'r Document, tiles: &[Tile]) -> (Vec<AnswerItem>, Signs<'r>) {
    let (far, outside) = furthest_outside(document, NAMED);
    let (rare, worse) = furthest_worse(&document.records, NAMED);
    let mut items = Vec::new();
    for record in &far {
        let detail = meaning(record).map(str::to_owned);
        items.push(AnswerItem { detail, ..AnswerItem::new(short(record).unwrap_or_default()) });
    }
    let more = |all: usize, named: usize, what: &'static str| {
        let text = format!("{} more {what}", all - named);
        (all > named).then(|| AnswerItem { show: Some("outside"), ..AnswerItem::new(text) })
    };
    items.extend(more(outside, far.len(), "outside the prediction"));
    items.extend(rare.iter().filter_map(|it| beside_typical(it)).map(AnswerItem::new));
    let rest = worse - rare.len();
    items.extend((rest > 0).then(|| AnswerItem::new(format!("{rest} more worse than typical"))));
    let changes: Vec<(String, Option<bool>)> = tiles.iter().filter_map(Tile::change).collect();
    let is_worse = |(_, worse): &&(String, Option<bool>)| *worse == Some(true);
    let changed: Vec<String> = changes.iter().filter(is_worse).map(|it| it.0.clone()).collect();
    items.extend(changes.into_iter().map(|(text, _)| AnswerItem::new(text)));
    let slow: Vec<&Record> = findings::judged(document).filter(|it| is_slow(it)).collect();
    let all_rare = furthest_worse(&document.records, usize::MAX).0;
    // What is slow, and worse than on such machines, is one result.
    let twice = all_rare.iter().filter(|it| slow.iter().any(|slow| std::ptr::eq(*slow, **it)));
    let bad = slow.len() + worse + changed.len() - twice.count();
    let mut worst: Vec<String> = rare.iter().filter_map(|it| beside_typical(it)).collect();
    let is_named = |it: &&Record| rare.iter().any(|rare| std::ptr::eq(*rare, *it));
    let slow_only = far.iter().copied().filter(|it| is_slow(it) && !is_named(it));
    worst.extend(slow_only.filter_map(short));
    worst.extend(changed);
    worst.truncate(WORST_NAMED);
    let others = outside - slow.len();
    let signs = Signs {
        furthest: far.first().copied(),
        is_beside_typical: worse > 0,
        bad,
        worst,
        groups: groups(all_rare.into_iter().chain(slow)),
        others,
    };
    (items, signs)
}

/// Whether a number is on the worse side of its prediction.
fn is_slow(record: &Record) -> bool {
    let fails = shown_agreement(record).is_some_and(Agreement::fails);
    let limits = record.prediction.as_ref().map(|it| (it.low, it.high)).filter(|_| fails);
    let (Some((low, high)), Some(summary)) = (limits, &record.summary) else { return false };
    match record.better {
        Better::Lower => high.is_some_and(|high| summary.median > high),
        Better::Higher => low.is_some_and(|low| summary.median < low),
        Better::Neither => false,
    }
}

/// Remedies of what is noisy or missing, and the commands that show more.
fn next(document: &Document, signs: &Signs<'_>) -> Vec<AnswerItem> {
    let Document { records, run, .. } = document;
    let mut items: Vec<AnswerItem> = Vec::new();
    let mut add = |text: String| {
        if items.iter().all(|item| item.text != text) {
            items.push(AnswerItem::new(text));
        }
    };
    if busy(document).is_some() {
        add(DOCTOR.to_owned());
    }
    if let Some(furthest) = signs.furthest {
        add(format!("`fathom explain {}`: each term of its prediction", furthest.metric));
    }
    if signs.is_beside_typical {
        add("`fathom compare --typical`: all results beside such machines".to_owned());
    }
    let mut is_disturbed = run.verdict.state == State::Noisy;
    let mut remedies = Vec::new();
    for state in [State::Noisy, State::Invalid, State::Failed, State::Unavailable] {
        let of_state = || records.iter().filter(|record| record.verdict.state == state);
        for (cause, count) in causes(records, state) {
            is_disturbed |= DISTURBANCES.contains(&cause);
            let reasons = of_state().filter_map(|record| record.verdict.reasons.first());
            let words = remedy::first(reasons.filter(|reason| reason.cause == cause));
            remedies.extend(words.map(|words| (count, words)));
        }
    }
    remedies.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let whole = run.verdict.reasons.iter().filter_map(|it| it.remedy.as_ref()).map(remedy::words);
    if is_disturbed {
        add(DOCTOR.to_owned());
    }
    let remedies = whole.chain(remedies.into_iter().map(|(_, words)| words));
    remedies.take(REMEDIES).for_each(&mut add);
    if run.procedure.is_none() {
        let run = match run.asked.as_slice() {
            [] => "`fathom run`, then `fathom compare`".to_owned(),
            [one] => {
                let again = format!("`fathom run {}`", shell_word(one));
                format!("{again}, then `fathom compare latest~1 latest`")
            }
            _ => "the same command again, then `fathom compare latest~1 latest`".to_owned(),
        };
        add(format!("after a change: {run}"));
    } else if let (Some(name), 1..) = (&run.procedure, without_interval(records)) {
        let least = by_hand::VALUES_MIN;
        add(format!("{least} values give an interval: more passes (`fathom {name} --help`)"));
    }
    items
}

#[cfg(test)]
mod tests;
