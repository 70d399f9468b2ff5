//! The answer that a page begins with: a verdict in words; then what to ignore, what is unusual,
//! and what to do next. All of it is from the records.

use fathom_record::quantity::percent;
use fathom_record::{Agreement, Cause, Class, Document, Record, State, Stratum, causes};
use serde::Serialize;

use crate::by_hand;
use crate::case::counted;
use crate::closing::{progress, run_verdict};
use crate::core_state::{core_state, left_out};
use crate::counts::{agreements, cause_words};
use crate::findings::{beside_typical, furthest_outside, furthest_worse, short};
use crate::remarks::meaning;
use crate::remedy;
use crate::tiles::Tile;

/// Results named at most in each kind of what is unusual.
const NAMED: usize = 3;
/// Remedies named at most.
const REMEDIES: usize = 3;
/// With more noisy results than this share nothing is concluded from the others.
const NOISY_MAX: f64 = 0.5;
/// Disturbances of the machine, which the doctor looks for.
const DISTURBANCES: [Cause; 11] = [
    Cause::Throttled,
    Cause::Steal,
    Cause::Contention,
    Cause::NotRunning,
    Cause::Interrupts,
    Cause::Migration,
    Cause::MajorFaults,
    Cause::SlowCore,
    Cause::SlowMemory,
    Cause::SlowDevice,
    Cause::MachineDrift,
];

/// The answer of a run.
#[derive(Serialize)]
pub(crate) struct Answer {
    mood: Mood,
    /// Sentences, each a line of its own.
    verdict: Vec<String>,
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
        let (unusual, signs) = unusual(&document.records, tiles);
        let procedure = document.run.procedure.as_ref().map(|_| by_hand::answer(document));
        let by_hand::ByHandAnswer { sentences, next: own } = procedure.unwrap_or_default();
        let (mut mood, mut verdict) = verdict(document, &signs, sentences.is_empty());
        // An answer that asks for more is not the last word, nor is one that lacks a number.
        let lacks = |it: &Record| document.run.procedure.is_some() && !it.verdict.shows_number();
        if mood == Mood::Good && (!own.is_empty() || document.records.iter().any(lacks)) {
            mood = Mood::Care;
        }
        verdict.splice(0..0, sentences);
        let mut next: Vec<AnswerItem> = own.into_iter().map(AnswerItem::new).collect();
        next.extend(self::next(document, &signs));
        let usual = usual(&document.records, tiles);
        Self { mood, verdict, ignore: ignore(document), unusual, usual, next }
    }
}

/// How many results are unusual, by kind.
#[derive(Default)]
struct Signs<'r> {
    outside: usize,
    /// The one that is furthest from its prediction.
    furthest: Option<&'r Record>,
    worse: usize,
    changed: usize,
}

impl Signs<'_> {
    /// `2 results outside their predictions, 1 worse than typical`; empty if nothing is.
    fn words(&self) -> String {
        let kinds = [
            (self.outside, "outside the prediction"),
            (self.worse, "worse than on typical machines"),
            (self.changed, "worse than in earlier runs"),
        ];
        let found = kinds.into_iter().filter(|(count, _)| *count > 0);
        let texts: Vec<String> = found.map(|(count, what)| format!("{count} {what}")).collect();
        let texts = texts.join(", ");
        // The first number has the noun.
        let noun = if texts.starts_with("1 ") { " result " } else { " results " };
        texts.replacen(' ', noun, 1)
    }
}

/// The verdict on a run; `is_alone` if it has no other answer.
fn verdict(document: &Document, signs: &Signs<'_>, is_alone: bool) -> (Mood, Vec<String>) {
    let records = &document.records;
    let count = |is: fn(&Record) -> bool| records.iter().filter(|record| is(record)).count();
    let all = records.len();
    let numbers = count(|record| record.verdict.shows_number());
    let noisy = count(|record| record.verdict.state == State::Noisy);
    let mut verdict: Vec<String> = progress(document).into_iter().collect();
    let is_whole = verdict.is_empty();
    if matches!(document.run.verdict.state, State::Invalid | State::Failed) {
        verdict.extend(run_verdict(document));
        return (Mood::Bad, verdict);
    }
    // A run that has just begun.
    if all == 0 && !is_whole {
        return (Mood::Care, verdict);
    }
    if numbers == 0 {
        verdict.push("No result has a number.".to_owned());
        return (Mood::Bad, verdict);
    }
    let mostly_noisy = noisy as f64 > NOISY_MAX * numbers as f64;
    let (mut mood, sentence) = match signs.words() {
        _ if mostly_noisy => (Mood::Care, None),
        words => judged(records, &words, document.run.procedure.is_none()),
    };
    // A procedure has an answer of its own.
    verdict.extend(sentence.filter(|_| is_alone || mood != Mood::Good));
    let share = percent(noisy as f64 / all.max(1) as f64);
    match noisy {
        0 => {}
        _ if mostly_noisy => {
            mood = Mood::Care;
            let of = counted(all, "result");
            let text =
                format!("{noisy} of {of} noisy ({share}): measure again before you conclude");
            verdict.push(text + " anything.");
        }
        1 => verdict.push(format!("1 of {} noisy: ignore it.", counted(all, "result"))),
        _ => {
            let of = counted(all, "result");
            verdict.push(format!("{noisy} of {of} noisy ({share}): ignore those."));
        }
    }
    if noisy == 0 && is_alone {
        let valid = count(|record| record.verdict.state == State::Valid);
        let one = if valid == 1 { "is" } else { "are" };
        verdict.push(format!("{valid} of {} {one} valid.", counted(all, "result")));
    }
    (if is_whole { mood } else { Mood::Care }, verdict)
}

/// What the predictions say; `unusual`: what does not fit them.
fn judged(records: &[Record], unusual: &str, is_battery: bool) -> (Mood, Option<String>) {
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
    let open_ended = without_interval(records);
    if open_ended > 0 && open_ended == open + inconclusive {
        checks.push(format!("{} no interval to judge by", have(open_ended)));
    }
    let checks = checks.join(", ");
    let (mood, start) = match values + bounds {
        _ if !unusual.is_empty() => (Mood::Care, format!("Unusual: {unusual}")),
        0 => return (Mood::Good, None),
        _ if 2 * (open + inconclusive) > values + bounds => {
            (Mood::Care, "The predictions are inconclusive".to_owned())
        }
        // A command by hand measures one subject.
        _ if !is_battery => (Mood::Good, "As predicted".to_owned()),
        _ => (Mood::Good, "No sign that something slows this machine".to_owned()),
    };
    let text = match (unusual.is_empty(), checks.is_empty()) {
        (_, true) => format!("{start}."),
        (true, _) => format!("{start}: {checks}."),
        (false, _) => format!("{start}; {checks}."),
    };
    (mood, Some(text))
}

fn have(count: usize) -> String {
    if count == 1 { "1 has".to_owned() } else { format!("{count} have") }
}

/// Results whose prediction is inconclusive because they have no interval.
fn without_interval(records: &[Record]) -> usize {
    let lacks = |it: &&Record| it.summary.as_ref().is_some_and(|it| it.interval.is_none());
    let open = records.iter().filter(|it| it.agreement == Some(Agreement::Inconclusive));
    open.filter(|it| it.verdict.shows_number()).filter(lacks).count()
}

/// What was compared where nothing unusual was found.
fn usual(records: &[Record], tiles: &[Tile]) -> String {
    let shown = || records.iter().filter(|it| it.verdict.shows_number());
    let count =
        |is: fn(Agreement) -> bool| shown().filter(|it| it.agreement.is_some_and(is)).count();
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
        items.push(AnswerItem::new(core_state(&reference)));
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
fn unusual<'r>(records: &'r [Record], tiles: &[Tile]) -> (Vec<AnswerItem>, Signs<'r>) {
    let (far, outside) = furthest_outside(records, NAMED);
    let (rare, worse) = furthest_worse(records, NAMED);
    let mut items = Vec::new();
    let noisy = |record: &Record| match record.verdict.state {
        State::Noisy => " (noisy)",
        _ => "",
    };
    for record in &far {
        let detail = meaning(record).map(str::to_owned);
        let text = short(record).unwrap_or_default() + noisy(record);
        items.push(AnswerItem { detail, ..AnswerItem::new(text) });
    }
    let more = |all: usize, named: usize, what: &'static str| {
        let text = format!("{} more {what}", all - named);
        (all > named).then(|| AnswerItem { show: Some("outside"), ..AnswerItem::new(text) })
    };
    items.extend(more(outside, far.len(), "outside the prediction"));
    let typical = |record: &&Record| Some(AnswerItem::new(beside_typical(record)? + noisy(record)));
    items.extend(rare.iter().filter_map(typical));
    let rest = worse - rare.len();
    items.extend((rest > 0).then(|| AnswerItem::new(format!("{rest} more worse than typical"))));
    let changes: Vec<(String, Option<bool>)> = tiles.iter().filter_map(Tile::change).collect();
    let changed = changes.iter().filter(|(_, worse)| *worse == Some(true)).count();
    items.extend(changes.into_iter().map(|(text, _)| AnswerItem::new(text)));
    let furthest = far.first().copied();
    (items, Signs { outside, furthest, worse, changed })
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
    let remedies = whole.chain(remedies.into_iter().map(|(_, words)| words));
    remedies.take(REMEDIES).for_each(&mut add);
    if is_disturbed {
        add("`fathom doctor`: what disturbs this machine now".to_owned());
    }
    if let Some(furthest) = signs.furthest {
        add(format!("`fathom explain {}`: each term of its prediction", furthest.metric));
    }
    if signs.worse > 0 {
        add("`fathom compare --typical`: all results beside such machines".to_owned());
    }
    if run.procedure.is_none() {
        let compare = "fathom compare latest:battery~1 latest:battery";
        add(format!("after a change: `fathom run`, then `{compare}`"));
    } else if let (Some(name), 1..) = (&run.procedure, without_interval(records)) {
        let least = by_hand::VALUES_MIN;
        add(format!("{least} values give an interval: more passes (`fathom {name} --help`)"));
    }
    items
}

#[cfg(test)]
mod tests {
    use fathom_record::{
        Fact, Host, MetricId, Params, Position, Prediction, Reason, Remedy, Run, RunState, Summary,
        Tool, Typical, Unit, Value, Verdict,
    };

    use super::*;

    /// A valid result that is within its prediction.
    fn within(name: &str) -> Record {
        Record {
            metric: MetricId::new(name),
            unit: Unit::Nanoseconds,
            summary: Some(Summary { median: 100.0, ..Summary::default() }),
            prediction: Some(Prediction::sum(100.0, 0.0, 0.2, "formula", "source")),
            agreement: Some(Agreement::Within),
            ..Record::default()
        }
    }

    fn noisy(name: &str, remedy: Remedy) -> Record {
        let reason = Reason::new(Cause::Steal, "CPU steal 12 %").with_remedy(Some(remedy));
        let verdict = Verdict { state: State::Noisy, reasons: vec![reason] };
        Record { verdict, agreement: Some(Agreement::Inconclusive), ..within(name) }
    }

    fn answer_of(procedure: Option<&str>, records: Vec<Record>) -> Answer {
        let tool = Tool { name: "fathom".to_owned(), version: String::new(), compiler: None };
        let (host, far) = (Host::default(), Vec::new());
        let run = Run {
            procedure: procedure.map(str::to_owned),
            planned: records.len() as u64,
            state: RunState::Complete,
            ..Run::default()
        };
        Answer::from_document(&Document { schema: 0, tool, run, host, far, records }, &[])
    }

    fn answer(records: Vec<Record>) -> Answer {
        answer_of(None, records)
    }

    fn texts(items: &[AnswerItem]) -> Vec<&str> {
        items.iter().map(|item| item.text.as_str()).collect()
    }

    #[test]
    fn quiet_run_has_no_sign_and_counts_its_predictions() {
        let answer = answer(vec![within("os.a"), within("os.b")]);
        let sign = "No sign that something slows this machine: 2 of 2 predicted values within.";
        assert_eq!(answer.verdict, [sign, "2 of 2 results are valid."]);
        assert_eq!(answer.mood, Mood::Good);
        assert_eq!((answer.ignore, answer.unusual), (vec![], vec![]));
        assert_eq!(answer.usual, "Nothing: 2 of 2 predictions within or met.");
    }

    #[test]
    fn few_noisy_results_are_ignored_and_many_forbid_a_conclusion() {
        let mut records = vec![within("os.a"), within("os.b"), noisy("os.c", Remedy::QuieterHost)];
        let few = answer(records.clone());
        assert_eq!(few.mood, Mood::Good);
        assert_eq!(few.verdict[1], "1 of 3 results noisy: ignore it.");
        assert_eq!(texts(&few.ignore), ["1 noisy: CPU steal"]);
        assert_eq!(few.ignore[0].show, Some("noisy"));
        let next = texts(&few.next);
        let first = ["measure on a quieter or dedicated host"];
        assert_eq!(next[..1], first);
        assert!(next[1].starts_with("`fathom doctor`"), "{next:?}");
        records.extend(["os.d", "os.e"].map(|name| noisy(name, Remedy::QuieterHost)));
        let many = answer(records);
        assert_eq!(many.mood, Mood::Care);
        let forbids = "3 of 5 results noisy (60 %): measure again before you conclude anything.";
        assert_eq!(many.verdict, [forbids]);
    }

    #[test]
    fn outside_and_worse_than_typical_are_named_with_their_command() {
        let mut outside = within("os.a");
        outside.agreement = Some(Agreement::Outside);
        outside.summary.as_mut().expect("a summary").median = 200.0;
        let mut worse = within("os.b");
        worse.typical = Some(Typical {
            cpu: "Example".to_owned(),
            size: None,
            n: 50,
            low: 80.0,
            median: 85.0,
            high: 90.0,
            better: 50,
            worse: 0,
            position: Position::Worse,
        });
        let answer = answer(vec![outside, worse]);
        let verdict = "Unusual: 1 result outside the prediction, 1 worse than on typical \
                       machines; 1 of 2 predicted values within.";
        assert_eq!(answer.verdict[0], verdict);
        let unusual = texts(&answer.unusual);
        assert!(unusual[0].starts_with("os.a 200.0\u{a0}ns, expected"), "{unusual:?}");
        assert!(unusual[1].starts_with("os.b 100.0\u{a0}ns, worse than all 50"), "{unusual:?}");
        let next = texts(&answer.next);
        assert!(next[0].starts_with("`fathom explain os.a`"), "{next:?}");
        assert!(next[1].starts_with("`fathom compare --typical`"), "{next:?}");
    }

    #[test]
    fn without_a_number_there_is_no_good_verdict() {
        let verdict = Verdict::because(State::Unavailable, Cause::Missing, "no permission");
        let answer = answer(vec![Record { verdict, ..within("os.a") }]);
        assert_eq!(answer.verdict, ["No result has a number."]);
        assert_eq!(answer.mood, Mood::Bad);
        let missing = "1 unavailable: permission, limit or missing feature";
        assert_eq!(texts(&answer.ignore), [missing]);
    }

    #[test]
    fn inconclusive_predictions_are_no_good_sign() {
        let open = |name| Record { agreement: Some(Agreement::Inconclusive), ..within(name) };
        let answer = answer(vec![open("os.a"), open("os.b"), within("os.c")]);
        let says = "The predictions are inconclusive: 1 of 3 predicted values within, \
                    2 have no interval to judge by.";
        assert_eq!(answer.verdict[0], says);
        assert_eq!(answer.mood, Mood::Care);
        assert_eq!(answer.usual, "Inconclusive: 1 of 3 predictions within or met.");
    }

    #[test]
    fn command_without_a_number_says_why() {
        let verdict = Verdict::because(State::Unavailable, Cause::Missing, "no space");
        let records = vec![within("file.a"), Record { verdict, ..within("file.b") }];
        let answer = answer_of(Some("file read"), records);
        assert_eq!(answer.mood, Mood::Care);
        assert!(answer.verdict[0].starts_with("file.a: 100"), "{:?}", answer.verdict);
        assert_eq!(answer.verdict[1], "file.b: unavailable: no space.");
    }

    #[test]
    fn load_begins_with_its_limit_and_the_proof() {
        let case = Params::one("mode", "random");
        let rate = |metric: &str, params: Params| Record {
            metric: MetricId::new(metric),
            params,
            unit: Unit::PerSecond,
            summary: Some(Summary { median: 5000.0, ..Summary::default() }),
            ..Record::default()
        };
        let mut bottleneck = rate("load.bottleneck", case.clone());
        bottleneck.value = Some(Value::Text("server-cpu".to_owned()));
        bottleneck.facts = vec![Fact::text("proof", "confirmed")];
        let step = rate("load.throughput", case.clone().and("clients", 8));
        let records = vec![step, rate("load.saturation", case), bottleneck];
        let answer = answer_of(Some("load"), records);
        let first = answer.verdict[0].replace('\u{a0}', " ");
        let begin =
            "Highest throughput: 5000 requests/s at 8 clients. The CPU of the server limits";
        assert!(first.starts_with(begin), "{first}");
        assert!(first.ends_with("Proof by added load: confirmed."), "{first}");
    }
}
