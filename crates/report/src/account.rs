//! The account of a record: how its number was measured, and how its prediction was made.

use fathom_analysis::evidence::{not_judged, shown_agreement};
use fathom_record::quantity::{at_most, percent, quantity, span_within};
use fathom_record::{
    Agreement, Cause, Class, Document, Estimate, Fact, FactValue, Input, Interval, NoModel, Origin,
    Params, Prediction, Quantile, Record, Run, Series, State, Stratum, Summary, Unit, shell_word,
};

use crate::case::{case, counted};
use crate::closing;
use crate::core_state::{basis_words, busy};
use crate::counters::RecordCounters;
use crate::distinct::grouped;
use crate::family;
use crate::layout::Layout;
use crate::model::{no_model_line, origin};
use crate::overview::cases_in_overview;
use crate::remarks::meaning;
use crate::shown::family::ShownFamily;
use crate::shown::{LIMITS_WIDTH, ShownRecord, limits, met};
use crate::table::Table;
use crate::typical;
use crate::wrap::{glued, wrapped};

/// The answer of the records of one metric: the number or their range, and whether it says what the
/// machine can do.
pub fn answer(records: &[Record], document: &Document, width: usize) -> String {
    let Document { run, .. } = document;
    let members: Vec<&Record> = records.iter().collect();
    let family = ShownFamily { members: &members, protocol: run.protocol };
    let is_bound =
        records.iter().all(|it| it.summary.as_ref().is_some_and(|it| it.bound.is_some()));
    let mut text = match records {
        [one] => {
            let shown = ShownRecord::from_record(one, run.protocol);
            let (half, word) = (shown.half(), shown.word().0);
            let beside = typical::words(one).map_or(String::new(), |it| format!("; {it}"));
            let at = one.notes.first().filter(|note| note.starts_with("at "));
            let at = at.map_or(String::new(), |at| format!(" {at}"));
            let half = if is_bound { String::new() } else { format!(" ± {half}") };
            format!("{}{half}{at}, {word}{beside}", shown.unrounded())
        }
        _ => {
            let counts = closing::counted_states(records);
            let cases: Vec<&Params> = records.iter().map(|it| &it.params).collect();
            let known = cases_in_overview(records[0].metric.as_str(), &cases);
            let known = records.iter().find(|it| known.contains(&it.params));
            let known = known.filter(|it| it.verdict.shows_number()).map_or(String::new(), |one| {
                let shown = ShownRecord::from_record(one, run.protocol);
                let half = Some(shown.half()).filter(|half| half.ends_with('%'));
                let half = half.map_or(String::new(), |half| match half.starts_with('+') {
                    true => glued(&format!(" ({half})")),
                    false => glued(&format!(" ± {half}")),
                });
                format!("{} {}{half}; all: ", case(&one.params), shown.unrounded())
            });
            format!("{known}{} in {counts}", family.number(LIMITS_WIDTH).0.trim())
        }
    };
    let reasons: Vec<String> = records.iter().filter_map(not_judged).collect();
    let groups = grouped(reasons.iter().map(|why| (why, ())));
    let say = records.len() - reasons.len();
    let busy = busy(document).filter(|_| say < records.len());
    let trust = match (say, records.len()) {
        (say, all) if busy.is_some() => {
            let metric = shell_word(records[0].metric.as_str());
            format!(
                "{say} of {all} show what this machine can do, measured on a busy machine: \
                 `fathom doctor` names what takes it, `fathom run {metric}` measures again"
            )
        }
        (_, 1) if is_bound => "an upper bound: the difference is too small to measure".to_owned(),
        (_, 1) if say == 1 => "it shows what this machine can do".to_owned(),
        (_, 1) => format!("not judged: {}", reasons[0]),
        (say, all) => {
            let mut parts = vec![format!("{say} of {all} show what this machine can do")];
            parts.extend(groups.iter().map(|(why, all)| format!("{} {why}", all.len())));
            parts.join("; ")
        }
    };
    text += &format!(". Trust: {trust}.");
    wrapped(&text, width, "  answer     ", "             ")
}

/// The accounts of the records of one metric. For curves and matrices: their rows and charts, and
/// the account of one case per kind, that is per model, verdict and cause; with [`Layout::all`], of
/// every case.
pub fn accounts(records: &[Record], document: &Document, layout: &Layout) -> String {
    let account = |record: &Record| account(record, &document.run, layout.width);
    let cases: Vec<&Params> = records.iter().map(|record| &record.params).collect();
    if layout.all || !family::has_any(&cases) {
        return records.iter().map(account).collect();
    }
    let mut table = Table::new(*layout).on(&document.host);
    let mut text = table.header() + &table.rows(records);
    text += &table.foot();
    text.push('\n');
    let mut kinds: Vec<(AccountKind<'_>, &Record)> = Vec::new();
    for record in records {
        let kind = kind(record);
        if kinds.iter().all(|(known, _)| *known != kind) {
            kinds.push((kind, record));
        }
    }
    // What needs an explanation first.
    kinds.sort_by_key(|(_, it)| {
        let fails = shown_agreement(it).is_some_and(Agreement::fails);
        (!fails, it.verdict.state == State::Valid)
    });
    kinds.truncate(KINDS);
    text += &kinds.iter().map(|(_, record)| account(record)).collect::<String>();
    let more = records.len() - kinds.len();
    if more > 0 {
        let all = glued("`--all`");
        let words = format!("{more} more cases; {all} shows all");
        text += &wrapped(&words, layout.width, "  ", "  ");
    }
    text
}

/// So many kinds of cases have an account.
const KINDS: usize = 3;

/// What cases have in common so that one account covers them.
type AccountKind<'a> = (Option<&'a str>, Option<&'a NoModel>, bool, Vec<(Cause, Option<&'a str>)>);

fn kind(record: &Record) -> AccountKind<'_> {
    let formula = record.prediction.as_ref().map(|prediction| prediction.formula.as_str());
    let none = record.no_model.as_ref();
    let differs = shown_agreement(record).is_some_and(Agreement::fails);
    // Reasons for a missing number differ by their text, causes of noise by their kind.
    let text = |text| Some(text).filter(|_| !record.verdict.shows_number());
    let reasons = record.verdict.reasons.iter();
    let reasons = reasons.map(|reason| (reason.cause, text(reason.text.as_str()))).collect();
    (formula, none, differs, reasons)
}

/// The account of one record, in indented lines.
fn account(record: &Record, run: &Run, width: usize) -> String {
    let mut text = String::new();
    let mut add = |line: String| text += &wrapped(&line, width, "    ", "      ");
    if let Some(summary) = record.shown_summary() {
        add(format!("measured {}", measured(record, summary)));
        if !summary.quantiles.is_empty() {
            add(format!("single timings: {}", quantiles(record, summary)));
        }
        if let Some(selected) = &summary.in_state {
            let visits = format!("{} of {} processes", selected.visits, selected.of);
            let numbers = estimate(record, selected);
            let basis = run.reference.filter(|_| summary.stratum.is_undisturbed());
            let basis = basis.map_or(String::new(), |it| format!(" ({})", basis_words(&it)));
            add(format!("{}{basis}: {numbers}; {visits}", summary.stratum.words()));
        }
        if let Some(found) = &summary.as_found {
            let (numbers, visits) = (estimate(record, found), found.visits);
            let visits = counted(visits as usize, "process");
            add(format!("{}: {numbers}; {visits}", Stratum::AsFound.words()));
        }
        if let Some(why) = summary.not_selected {
            add(format!("in any state of the core: {}", why.words()));
        }
    }
    for series in &record.series {
        add(format!("series: {}", of_series(series)));
    }
    for reason in &record.verdict.reasons {
        add(format!("{}: {}", record.verdict.state.word(), reason.text));
    }
    if let Some(prediction) = &record.prediction {
        add(format!("predicted {}", predicted(record, prediction)));
        add(format!("formula: {}", prediction.formula));
        if let Some(figures) = with_figures(prediction) {
            add(format!("with values: {figures}"));
        }
        for input in &prediction.inputs {
            let from = match &input.origin {
                Origin::ThisRun { metric } if *metric == input.name => "this run".to_owned(),
                other => origin(other),
            };
            add(format!("  {} = {} ({from})", input.name, figure(input)));
        }
        add(format!("source: {}", prediction.source));
        if let Some(meaning) = meaning(record) {
            add(format!("{}: {meaning}", shown_agreement(record).map_or("", Agreement::word)));
        }
    }
    if let Some(none) = &record.no_model {
        add(no_model_line(none));
    }
    if let Some(words) = typical::words(record) {
        add(format!("published machines: {words}"));
    }
    match RecordCounters::from_record(record).words() {
        moved if moved.is_empty() => {}
        moved => add(format!("counters: {moved}")),
    }
    stated(record).into_iter().for_each(&mut add);
    record.notes.iter().for_each(|note| add(note.clone()));
    for (name, count) in &record.checks {
        add(format!("check {name}: {count}"));
    }
    let label =
        if record.params.is_empty() { record.metric.to_string() } else { case(&record.params) };
    wrapped(&label, width, "  ", "    ") + &text
}

fn measured(record: &Record, summary: &Summary) -> String {
    if let Some(bound) = summary.bound {
        return at_most(bound, record.unit);
    }
    let mut text = with_interval(summary.median, summary.interval, record.unit);
    text += &format!(
        "; {} from {}; spread {} within processes, {} between",
        counted(summary.n as usize, "value"),
        counted(summary.processes as usize, "process"),
        percent(summary.spread_within),
        percent(summary.spread_between)
    );
    text
}

/// `p90 92.10 µs, p99.9 181.0 µs`.
fn quantiles(record: &Record, summary: &Summary) -> String {
    let one = |it: &Quantile| {
        // 99.9 and not 99.90000000000001.
        let percent = (it.q * 1e8).round() / 1e6;
        format!("p{percent} {}", quantity(it.value, record.unit))
    };
    summary.quantiles.iter().map(one).collect::<Vec<String>>().join(", ")
}

fn estimate(record: &Record, estimate: &Estimate) -> String {
    with_interval(estimate.median, estimate.interval, record.unit)
}

/// `12.25 ns, interval 12.00 ns to 12.50 ns (94 %)`.
fn with_interval(median: f64, interval: Option<Interval>, unit: Unit) -> String {
    let mut text = quantity(median, unit);
    if let Some([low, high]) = interval.and_then(Interval::edge) {
        return format!("between {}", span_within(low, high, unit, LIMITS_WIDTH));
    }
    if let Some(Interval { low, high, level, .. }) = interval {
        let [low, high] = [low, high].map(|end| quantity(end, unit));
        text += &format!(", interval {low} to {high} ({})", percent(level));
    }
    text
}

/// `disk reads at bench-4: 21.80 MB/s to 43.70 MB/s, 2 values over 1.000 s`.
fn of_series(series: &Series) -> String {
    let at = series.at.as_ref().map_or_else(String::new, |name| format!(" at {name}"));
    let ends = |values: &[f64]| {
        values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), one| {
            (low.min(*one), high.max(*one))
        })
    };
    let ((low, high), (from, to)) = (ends(&series.values), ends(&series.times_ns));
    if series.values.is_empty() {
        return format!("{}{at}: no values", series.name);
    }
    let [low, high] = [low, high].map(|value| quantity(value, series.unit));
    let (count, span) = (series.values.len(), quantity(to - from, Unit::Nanoseconds));
    format!("{}{at}: {low} to {high}, {count} values over {span}", series.name)
}

fn predicted(record: &Record, prediction: &Prediction) -> String {
    let limits = limits(record, prediction);
    let terms = match (prediction.documented_hardware(), prediction.software) {
        (Some(hardware), Some(software)) => {
            let [hardware, software] = [hardware, software].map(|term| quantity(term, record.unit));
            format!(" = {hardware} hardware + {software} software")
        }
        _ => String::new(),
    };
    let word = match shown_agreement(record) {
        Some(Agreement::Inconclusive) => inconclusive(record, prediction),
        Some(Agreement::Met) => format!(": {}", met(record)),
        Some(agreement) => format!(": {}", agreement.word()),
        None => String::new(),
    };
    let kind = match prediction.class() {
        Class::SelfConsistency => ", a self-consistency check",
        Class::Value | Class::Bound => "",
    };
    let uncertain = match prediction.uncertainty {
        share if share < 0.001 => String::new(),
        share => format!(" (± {} from its inputs)", percent(share)),
    };
    format!("{limits}{uncertain}{terms}{kind}{word}")
}

/// Why the comparison with the prediction is inconclusive.
fn inconclusive(record: &Record, prediction: &Prediction) -> String {
    let Some(summary) = &record.summary else { return String::new() };
    let limits = match prediction.stratum {
        Stratum::AsFound => summary.as_found().limits(),
        _ => summary.limits(),
    };
    match (limits, summary.bound) {
        (None, None) => {
            let processes = counted(summary.process_medians.len(), "process");
            format!(": inconclusive: no interval from {processes}")
        }
        (Some(interval), None) if prediction.agreement(Some(interval)).fails() => {
            ": inconclusive: a disturbance may have shifted the interval".to_owned()
        }
        (_, Some(_)) => ": inconclusive: only an upper bound is known".to_owned(),
        _ if prediction.uncertainty >= 0.001 => {
            let inputs = percent(prediction.uncertainty);
            format!(": inconclusive: with its inputs (± {inputs}) the interval crosses a limit")
        }
        _ => ": inconclusive: the interval crosses a limit".to_owned(),
    }
}

/// The formula with values in place of its inputs; `None` unless it contains all of them.
fn with_figures(prediction: &Prediction) -> Option<String> {
    let mut inputs: Vec<&Input> = prediction.inputs.iter().collect();
    // The longest name first: a name can be part of another.
    inputs.sort_by_key(|input| std::cmp::Reverse(input.name.len()));
    let mut text = prediction.formula.clone();
    for (index, input) in inputs.iter().enumerate() {
        text.contains(&input.name).then_some(())?;
        text = text.replace(&input.name, &placeholder(index));
    }
    for (index, input) in inputs.iter().enumerate() {
        text = text.replace(&placeholder(index), &figure(input));
    }
    (!inputs.is_empty()).then_some(text)
}

/// A text that no formula contains.
fn placeholder(index: usize) -> String {
    format!("\u{0}{index}\u{0}")
}

fn figure(input: &Input) -> String {
    match input.unit {
        Some(unit) => quantity(input.value, unit),
        None => plain(input.value),
    }
}

/// A value without unit, in as many digits as it needs.
fn plain(value: f64) -> String {
    let digits = if value.abs() >= 1000.0 { 0 } else { 4 };
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// What the probe stated, in one line. Without a number it is no better than the number.
fn stated(record: &Record) -> Option<String> {
    let words = |fact: &Fact| match &fact.value {
        FactValue::Text { text } | FactValue::Line { line: text } => {
            format!("{} {text}", fact.name)
        }
        FactValue::Quantity { value, unit } => format!("{} {}", fact.name, quantity(*value, *unit)),
    };
    let shown = record.verdict.shows_number() && !record.facts.is_empty();
    let all = || record.facts.iter().map(words).collect::<Vec<String>>().join("; ");
    shown.then(|| format!("stated: {}", all()))
}

#[cfg(test)]
mod tests {
    use fathom_record::{Basis, State, Verdict};

    use super::*;

    #[test]
    fn formula_is_repeated_with_its_values() {
        use fathom_record::Origin;
        let hertz = fathom_record::Unit::Hertz;
        let prediction = Prediction::sum(1.0, 0.0, 0.1, "(add + slow add) ÷ frequency", "")
            .with_input("add", 1.0, Origin::Case)
            .with_input("slow add", 7.5, Origin::Case)
            .with_quantity("frequency", 3.5e9, hertz, Origin::Case);
        assert_eq!(with_figures(&prediction).unwrap(), "(1 + 7.5) ÷ 3.500 GHz");
        assert_eq!(with_figures(&prediction.with_input("another", 1.0, Origin::Case)), None);
    }

    #[test]
    fn facts_are_stated_beside_a_shown_number_only() {
        let facts =
            vec![Fact::text("limited by", "link"), Fact::quantity("MSS", 1448.0, Unit::Bytes)];
        let mut record = Record { facts, ..Record::default() };
        assert_eq!(stated(&record).unwrap(), "stated: limited by link; MSS 1.414 KiB");
        record.verdict = Verdict::because(State::Invalid, Cause::WrongWork, "why");
        assert_eq!(stated(&record), None);
    }

    #[test]
    fn account_has_quantiles_estimates_and_series() {
        let document = Document::fixture();
        let of = |run: &Run| -> String {
            document.records.iter().map(|record| account(record, run, 200)).collect()
        };
        let text = of(&document.run);
        for line in [
            "single timings: p90 90.11 µs, p99 99.01 µs, p99.9 99.97 µs",
            "core to itself (at its highest frequency): 12.25 ns, interval 12.00 ns to 12.50 ns",
            "all processes: 13.50 ns, interval 12.10 ns to 17.00 ns (94 %); 5 processes",
            "series: disk reads at bench-4: 20.79 MiB/s to 41.68 MiB/s, 2 values over 1.000 s",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        let mut run = document.run.clone();
        run.reference.as_mut().unwrap().basis = fathom_record::ReferenceBasis::ThisRun;
        let text = of(&run);
        assert!(text.contains("core to itself (the fastest seen in this run): 12.25"));
    }

    #[test]
    fn inconclusive_agreement_names_its_reason() {
        let (unit, better) = (fathom_record::Unit::Nanoseconds, fathom_record::Better::Lower);
        let metric = fathom_record::MetricId::new("cpu.add");
        let mut record = Record::new(metric, fathom_record::Params::none(), "", unit, better);
        let prediction = Prediction::sum(10.0, 0.0, 0.1, "", "");
        let mut text = |limits: Option<[f64; 2]>| {
            let process_medians = vec![14.0; 4];
            let interval = limits.map(|ends| Interval::new(ends, 0.95, Basis::Processes));
            record.summary = Some(Summary { interval, process_medians, ..Summary::default() });
            record.agreement = Some(Agreement::Inconclusive);
            predicted(&record, &prediction)
        };
        assert!(text(None).ends_with("no interval from 4 processes"));
        assert!(text(Some([10.0, 14.0])).ends_with("crosses a limit"));
        assert!(text(Some([13.0, 14.0])).contains("a disturbance may have shifted"));
    }

    #[test]
    fn values_without_unit_keep_their_digits() {
        let texts = [130.0, 0.25, 3_594_000_000.4, 1e-9].map(plain);
        assert_eq!(texts, ["130", "0.25", "3594000000", "0"]);
    }
}
