//! The output of `fathom doctor --try`: which settings pay, and what keeps them.

use fathom_analysis::trial::TrialVerdict;
use fathom_record::quantity::{NOTHING, bare, percent, quantity_within};
use fathom_record::trial::{
    BESIDE, CHANGE, DISTURBED, FASTEST, INTERACTION, MEASURED, NEW, OLD, PERMANENT, RULE,
    TRIAL_METRIC,
};
use fathom_record::{Better, Cause, FactValue, Record, Unit};

use super::ByHandAnswer;
use super::bench::{changed, unchanged};
use super::cause_words;
use super::table::{Column, fit, rows};
use crate::core_state::DISTURBANCES;
use crate::distinct::distinct;
use crate::wrap::wrapped;

const WIDTH: usize = 9;
/// Columns that a narrow terminal lacks, the first ones first.
const OPTIONAL: [&str; 3] = ["passes", "before", "after"];

pub(super) fn is_trial(record: &Record) -> bool {
    record.metric.as_str() == TRIAL_METRIC
}

fn remedy(record: &Record) -> &str {
    record.params.text("remedy").unwrap_or_default()
}

fn is(record: &Record, fact: &str) -> bool {
    record.text_of(fact).is_some()
}

/// A sentence for each setting, and for each pair of settings that depend on each other.
pub(super) fn answer(records: &[Record]) -> ByHandAnswer {
    let mut sentences = Vec::new();
    let mut is_undecided = false;
    for name in distinct(records.iter().map(remedy)) {
        let own: Vec<&Record> = records.iter().filter(|it| remedy(it) == name).collect();
        if own.iter().all(|it| is(it, INTERACTION)) {
            sentences.extend(own.iter().filter_map(|it| interaction(it)));
            continue;
        }
        let change = own[0].text_of(CHANGE).unwrap_or_default();
        let conclusion = conclusion(&own);
        is_undecided |= own
            .iter()
            .any(|it| !is(it, BESIDE) && TrialVerdict::from_record(it) == TrialVerdict::Undecided);
        sentences.push(format!("{name} ({change}): {conclusion}."));
    }
    let cause = records.iter().flat_map(|it| &it.verdict.reasons).map(|reason| reason.cause);
    let cause = cause.into_iter().find(|cause| DISTURBANCES.contains(cause));
    sentences.extend(core(records, cause));
    let doubt =
        cause.map(|_| "A quiet machine may give another answer: measure again there.".to_owned());
    let next = is_undecided.then(|| "more measurements may decide it (`--time`)".to_owned());
    ByHandAnswer { sentences, next: next.into_iter().collect(), doubt }
}

/// What others and the core did meanwhile, on the average of all numbers.
fn core(records: &[Record], cause: Option<Cause>) -> Option<String> {
    let share = |fact: &str| {
        let all: Vec<f64> = records.iter().filter_map(|it| it.quantity_of(fact)).collect();
        (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
    };
    let how = cause.map_or(String::new(), |cause| format!(" ({})", cause_words(cause)));
    let others = match share(DISTURBED)? {
        0.0 => "No measurement disturbed".to_owned(),
        some => format!("{} of measurements disturbed{how}", percent(some)),
    };
    let fastest =
        share(FASTEST).map(|it| format!("; core in its fastest state in {}", percent(it)));
    Some(format!("{others}{}.", fastest.unwrap_or_default()))
}

/// `pays: network.tcp.bandwidth 2.10 × faster (1.90 × to 2.30 ×)`.
fn conclusion(own: &[&Record]) -> String {
    let mut wanted: Vec<&Record> = own.iter().copied().filter(|it| !is(it, BESIDE)).collect();
    // What is decided comes first.
    wanted.sort_by_key(|it| match TrialVerdict::from_record(it) {
        TrialVerdict::Pays => 0,
        TrialVerdict::Costs => 1,
        TrialVerdict::Same(_) => 2,
        TrialVerdict::Undecided => 3,
    });
    let verdicts: Vec<TrialVerdict> =
        wanted.iter().map(|it| TrialVerdict::from_record(it)).collect();
    let has = |wanted: TrialVerdict| verdicts.contains(&wanted);
    let word = match (has(TrialVerdict::Pays), has(TrialVerdict::Costs)) {
        (true, true) => "pays and costs",
        (true, false) => "pays",
        (false, true) => "costs",
        (false, false) if has(TrialVerdict::Undecided) => "undecided",
        (false, false) => "no difference",
    };
    let word = if wanted.len() == 1 && word != "pays" && word != "costs" { "" } else { word };
    let mut parts: Vec<String> = wanted.iter().map(|it| words(it, &wanted)).collect();
    let worse = own.iter().filter(|it| is(it, BESIDE));
    let worse = worse.filter(|it| TrialVerdict::from_record(it) == TrialVerdict::Costs);
    parts.extend(worse.map(|it| format!("but {}", words(it, own))));
    let parts = parts.join(", ");
    if word.is_empty() { parts } else { format!("{word}: {parts}") }
}

/// The name of a figure, with the parameters by which others of this name differ.
fn figure(record: &Record, all: &[&Record]) -> String {
    let of = record.params.text("of").unwrap_or_default();
    let is_same = |it: &&&Record| it.params.text("of") == Some(of) && remedy(it) == remedy(record);
    let mut params = record.params.clone();
    params.0.retain(|name, value| {
        all.iter().filter(is_same).any(|it| it.params.0.get(name) != Some(&*value))
    });
    if params.is_empty() { of.to_owned() } else { format!("{of}{params}") }
}

fn words(record: &Record, all: &[&Record]) -> String {
    let of = figure(record, all);
    let Some(summary) = record.shown_summary() else { return format!("{of} has no number") };
    let is_memory = matches!(
        record.fact(OLD).map(|it| &it.value),
        Some(FactValue::Quantity { unit: Unit::Bytes, .. })
    );
    let sides = match record.better {
        Better::Higher => ["lower", "higher"],
        _ if is_memory => ["less", "more"],
        _ => ["faster", "slower"],
    };
    let ratio = summary.median;
    match (TrialVerdict::from_record(record), summary.limits()) {
        (TrialVerdict::Same(within), _) => format!("{of} no difference within {}", percent(within)),
        (TrialVerdict::Undecided, Some(limits)) => {
            format!("{of} undecided ({})", unchanged(limits, sides))
        }
        (_, None) => format!("{of}: too few measurements for an interval"),
        (_, Some(limits)) => {
            let (size, span) = changed(ratio, limits);
            format!("{of} {size} {} ({span})", sides[usize::from(ratio > 1.0)])
        }
    }
}

/// What two settings do together, if that is more or less than each alone.
fn interaction(record: &Record) -> Option<String> {
    let summary = record.shown_summary()?;
    let is_known = !matches!(TrialVerdict::from_record(record), TrialVerdict::Same(_));
    let limits = summary.limits().filter(|[low, high]| is_known && (*low > 1.0 || *high < 1.0))?;
    let (one, other) = remedy(record).split_once('*')?;
    let (size, span) = changed(summary.median, limits);
    Some(format!(
        "{one} and {other} interact: with {other} the effect of {one} differs by {size} ({span})."
    ))
}

/// The numbers, then what keeps the settings that pay.
pub(super) fn group(records: &[Record], width: usize) -> String {
    let all: Vec<&Record> = records.iter().filter(|it| !is(it, INTERACTION)).collect();
    let value = |name: &str, record: &Record| match record.fact(name).map(|fact| &fact.value) {
        Some(FactValue::Quantity { value, unit }) => quantity_within(*value, *unit, WIDTH),
        _ => NOTHING.to_owned(),
    };
    let of = |head: &str, cell: &dyn Fn(&Record) -> String| {
        Column::new(head, all.iter().map(|record| cell(record)))
    };
    let mut columns = vec![
        Column::words("setting", all.iter().map(|it| remedy(it).to_owned())),
        Column::words("number", all.iter().map(|it| figure(it, &all))),
        of("before", &|record| value(OLD, record)),
        of("after", &|record| value(NEW, record)),
        of("change", &|record| {
            let ratio = record.shown_summary().map(|it| it.median);
            ratio.map_or(NOTHING.to_owned(), |ratio| format!("× {}", bare(ratio)))
        }),
        of("passes", &|record| record.shown_summary().map_or(String::new(), |it| it.n.to_string())),
        Column::words("", all.iter().map(|it| verdict(it).to_owned())),
    ];
    let left_out = fit(&mut columns, &OPTIONAL, width);
    let mut text = format!("\n{}{left_out}", rows(&columns));
    for by in distinct(all.iter().filter_map(|it| it.text_of(MEASURED))) {
        text += &wrapped(&format!("measured: {by}"), width, "", "  ");
    }
    let how = "change: the median of a ratio per pass, not the ratio of the medians in the table";
    text += &wrapped(how, width, "", "  ");
    let pays = |record: &&&Record| TrialVerdict::from_record(record) == TrialVerdict::Pays;
    let paying = all.iter().filter(|it| !is(it, BESIDE)).filter(pays);
    let lines = paying.flat_map(|record| {
        let of_fact = |fact: &fathom_record::Fact| match &fact.value {
            FactValue::Text { text } if fact.name == PERMANENT => {
                Some((remedy(record), text.clone()))
            }
            _ => None,
        };
        record.facts.iter().filter_map(of_fact).collect::<Vec<_>>()
    });
    for (name, line) in distinct(lines) {
        text += &wrapped(&format!("to keep {name}:"), width, "", "");
        text += &wrapped(&line, width, "  → ", "    ");
    }
    text
}

fn verdict(record: &Record) -> &'static str {
    match TrialVerdict::from_record(record) {
        TrialVerdict::Pays => "pays",
        TrialVerdict::Costs => "costs",
        TrialVerdict::Same(_) => "no difference",
        TrialVerdict::Undecided => "undecided",
    }
}

/// What earlier trials say of the remedy for a finding.
pub(crate) fn of_rule(records: &[Record], rule: &str) -> Option<String> {
    let is_own = |it: &&Record| it.text_of(RULE) == Some(rule) && !is(it, INTERACTION);
    let own: Vec<&Record> = records.iter().filter(is_own).collect();
    let by = own.first()?.text_of(MEASURED).filter(|by| by.starts_with('`'));
    let by = by.map_or(String::new(), |by| format!(" ({by})"));
    Some(conclusion(&own) + &by)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_record::{Fact, Params, Reason};

    #[test]
    fn answer_says_what_others_and_the_core_did() {
        let mut record = Record::fixture(TRIAL_METRIC, Unit::Ratio).measured([1.2, 1.3, 1.4]);
        record = record.with_summary(|it| it.process_medians = vec![1.3; 8]);
        record.params = Params::one("remedy", "congestion").and("of", "network.tcp.bandwidth");
        record.better = Better::Higher;
        let share = |fact, share| Fact::quantity(fact, share, Unit::Ratio);
        record.facts =
            vec![Fact::text(CHANGE, "bbr → cubic"), share(DISTURBED, 0.75), share(FASTEST, 0.5)];
        record.verdict.reasons = vec![Reason::new(Cause::Contention, "CPU contention 83 %")];
        let ByHandAnswer { sentences, doubt, .. } = answer(&[record]);
        let higher = "network.tcp.bandwidth 30 % higher (20 % to 40 %)";
        assert!(sentences[0].replace('\u{a0}', " ").contains(higher), "{sentences:?}");
        let core = "75 % of measurements disturbed (CPU contention); core in its fastest state in";
        assert!(sentences[1].replace('\u{a0}', " ").starts_with(core), "{sentences:?}");
        assert!(doubt.is_some());
    }
}
