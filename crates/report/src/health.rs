//! The line of a health check in the form of monitoring plugins, for limits of the user and for one
//! host beside its group.

use fathom_analysis::compare::ComparisonWord;
use fathom_analysis::fleet::{HOSTS_MIN, HostAnswer, HostJudgement, OddHost};
use fathom_analysis::limits::{LimitAnswer, LimitJudged, LimitJudgement};
use fathom_analysis::typical::distance;
use fathom_record::quantity::quantity;
use fathom_record::{
    Cause, Document, Headline, Position, Record, State, Typical, Unit, causes, shortened,
};

use crate::case::{counted, subject};
use crate::counts::cause_words;
use crate::fleet::{FleetRow, conduct, fact, rows, sizes, word};
use crate::limits::counts;
use crate::opening::minute;

/// Bytes of a line that a person reads, or with all values: Nagios keeps 8 KiB, and the values of
/// the worst cases come first.
const LINE_MAX: usize = 1_000;
const VERBOSE_MAX: usize = 7_000;
/// Characters of the text: counts need the rest of a line.
const TEXT_MAX: usize = 800;
/// Characters of a name or a limit, which their file may have written at any length.
const SHOWN_MAX: usize = 100;
/// Cases and facts named.
const NAMED: usize = 3;

/// The state of a monitoring plugin, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HealthState {
    Ok,
    Unknown,
    Warning,
    Critical,
}

fathom_record::words!(
    HealthState.word,
    Ok = "OK",
    Unknown = "UNKNOWN",
    Warning = "WARNING",
    Critical = "CRITICAL"
);

impl HealthState {
    /// Its exit status.
    #[must_use]
    pub fn status(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Warning => 1,
            Self::Critical => 2,
            Self::Unknown => 3,
        }
    }
}

/// What one kind of check says.
pub struct Health {
    state: HealthState,
    /// Whether noise kept it from an answer.
    is_undecided: bool,
    text: String,
    /// `label=count`.
    counts: Vec<String>,
    /// `'label'=value` of each case, the worst first.
    values: Vec<String>,
}

impl Health {
    /// The cases that are not kept, and all values in base units with their limits.
    #[must_use]
    pub fn of_limits(judgement: &LimitJudgement) -> Self {
        let worst = judgement.rows.iter().filter(|row| row.answer != LimitAnswer::Kept);
        let words = |row: &LimitJudged| {
            let why = row.why.as_deref().unwrap_or_else(|| row.answer.words());
            let value = row.value.map_or(why.to_owned(), |it| quantity(it, row.unit));
            let [name, written] = [&row.name, &row.written].map(|it| shortened(it, SHOWN_MAX));
            format!("{name} {value} (limit {written})")
        };
        let named: Vec<String> = worst.take(NAMED).map(words).collect();
        let state = match judgement.answer {
            LimitAnswer::Kept => HealthState::Ok,
            LimitAnswer::Undecided => HealthState::Warning,
            LimitAnswer::NotKept => HealthState::Critical,
        };
        let text = counts(judgement) + &listed(": ", &named);
        let values = judgement.rows.iter().filter_map(performance).collect();
        let count = |answer| judgement.rows.iter().filter(|row| row.answer == answer).count();
        let counts = vec![
            format!("kept={}", count(LimitAnswer::Kept)),
            format!("not_kept={};;0", count(LimitAnswer::NotKept)),
            format!("undecided={};0", count(LimitAnswer::Undecided)),
        ];
        let is_undecided = judgement.answer == LimitAnswer::Undecided;
        Self { state, is_undecided, text, counts, values }
    }

    /// In what the host of a run differs from its group, and its numbers beside published machines.
    #[must_use]
    pub fn of_host(judgement: &HostJudgement, run: &Document) -> Self {
        let HostJudgement { hosts, cases, judged, odd, not_judged, .. } = judgement;
        let of = format!("{} of this hardware", counted(*hosts, "host"));
        let whole = not_judged.iter().find(|it| it.subject.is_none());
        let why = whole.map_or_else(String::new, |it| format!(" ({})", it.reason));
        let (state, text) = match judgement.answer() {
            HostAnswer::Odd => (HealthState::Critical, format!("odd among {of}")),
            HostAnswer::Differs if odd.numbers.is_empty() && odd.conduct.is_empty() => {
                (HealthState::Warning, format!("odd facts among {of}"))
            }
            HostAnswer::Differs => (HealthState::Warning, format!("differs among {of}")),
            HostAnswer::Undecided => {
                let text = format!("undecided: {judged} of {cases} cases judged{why} among {of}");
                (HealthState::Warning, text)
            }
            HostAnswer::Unknown if *hosts < HOSTS_MIN => (
                HealthState::Unknown,
                format!("{of}, itself included: at least {HOSTS_MIN} are needed"),
            ),
            HostAnswer::Unknown => {
                let text = format!("no case of it has a valid number on {HOSTS_MIN} of {of}");
                (HealthState::Unknown, text)
            }
            HostAnswer::Usual => {
                (HealthState::Ok, format!("not odd among {of}: {judged} of {cases} cases judged"))
            }
        };
        let text = text + &listed(": ", &differences(odd)) + &listed("; ", &typical(run));
        let counts = vec![format!("odd={};;0", odd.numbers.len()), format!("judged={judged}")];
        let is_undecided = judgement.answer() == HostAnswer::Undecided;
        Self { state, is_undecided, text, counts, values: Vec::new() }
    }
}

fn listed(before: &str, texts: &[String]) -> String {
    if texts.is_empty() { String::new() } else { before.to_owned() + &texts.join(", ") }
}

/// One number of each group of metrics, the largest effect first, then how it measures, then facts.
fn differences(odd: &OddHost) -> Vec<String> {
    let number = |row: &FleetRow<'_>| {
        let first = row.numbers[0];
        let values = first.value.zip(first.usual).zip(first.unit);
        let values = values.map_or_else(String::new, |((value, usual), unit)| {
            format!(", {} instead of {}", quantity(value, unit), quantity(usual, unit))
        });
        let more = match row.more {
            0 => String::new(),
            more => format!(" and {}", counted(more, "more case")),
        };
        let (name, size) = (subject(&first.subject), sizes(&row.numbers));
        let by = match first.word {
            ComparisonWord::Changed => format!("differs {size}"),
            worse_or_better => format!("{size} {}", word(worse_or_better)),
        };
        format!("{name} {by}{values}{more}")
    };
    let numbers = rows(&[odd], false);
    let mut all: Vec<String> = numbers.iter().take(NAMED).map(number).collect();
    all.extend(odd.conduct.iter().map(conduct));
    all.extend(odd.facts.iter().take(NAMED).map(fact));
    let more = numbers.len().saturating_sub(NAMED) + odd.facts.len().saturating_sub(NAMED);
    all.extend((more > 0).then(|| format!("{more} more")));
    all
}

/// How many numbers are as machines of the kind give them, and the worst one that is not.
fn typical(run: &Document) -> Vec<String> {
    let all: Vec<(&Record, &Typical)> =
        run.records.iter().filter_map(|record| Some((record, record.typical.as_ref()?))).collect();
    let is_worse = |(_, typical): &&(&Record, &Typical)| typical.position == Position::Worse;
    let worse: Vec<_> = all.iter().filter(is_worse).collect();
    let far = |(record, _): &(&Record, &Typical)| distance(record).unwrap_or(0.0);
    let Some((record, place)) = worse.iter().max_by(|a, b| far(a).total_cmp(&far(b))) else {
        let count = format!("{} not worse than published machines", counted(all.len(), "number"));
        return if all.is_empty() { Vec::new() } else { vec![count] };
    };
    let value = Headline::from(*record).value.map(|it| quantity(it, record.unit));
    let count = format!("{} of {} worse than published machines", worse.len(), all.len());
    vec![format!("{count}: {} {} {}", record.name(), value.unwrap_or_default(), place.words())]
}

/// Whether others ran on the host during the run, so that it shows nothing of the host: most of its
/// numbers are noisy, and mostly for that.
fn busy(run: &Document) -> Option<String> {
    let shown = run.records.iter().filter(|record| record.verdict.shows_number()).count();
    let causes = causes(&run.records, State::Noisy);
    let noisy: usize = causes.iter().map(|(_, count)| count).sum();
    let of_others = [Cause::Contention, Cause::Steal, Cause::NotRunning, Cause::CoreShared];
    let (cause, _) = causes.first().filter(|(cause, _)| of_others.contains(cause))?;
    let (noisy_of, why) = (format!("{noisy} of {shown}"), cause_words(*cause));
    (2 * noisy > shown).then(|| {
        format!(
            "not measured, host busy: {noisy_of} numbers noisy ({why}); measure when it is idle; "
        )
    })
}

/// The worst state, and the line: what each check says of this run, and counts; with all values if
/// `verbose`.
#[must_use]
pub fn line(checks: &[Health], run: &Document, verbose: bool) -> (HealthState, String) {
    let busy = busy(run);
    let state = |it: &Health| match busy.is_some() && it.is_undecided {
        true => HealthState::Unknown,
        false => it.state,
    };
    let state = checks.iter().map(state).max().unwrap_or(HealthState::Unknown);
    let busy = busy.filter(|_| state == HealthState::Unknown).unwrap_or_default();
    let said: Vec<&str> = checks.iter().map(|it| it.text.as_str()).collect();
    let text = format!(
        "FATHOM {} - {busy}{}; run {} of {}, {} UTC",
        state.word(),
        said.join("; "),
        run.run.name(),
        run.host.name,
        minute(&run.run.started),
    );
    let counts = checks.iter().flat_map(|it| &it.counts);
    let values = checks.iter().flat_map(|it| &it.values).filter(|_| verbose);
    let most = if verbose { VERBOSE_MAX } else { LINE_MAX };
    let mut line = shortened(&plugin_line(&text), TEXT_MAX);
    let mut before = " | ";
    for value in counts.chain(values) {
        if line.len() + value.len() > most {
            break;
        }
        line += &format!("{before}{value}");
        before = " ";
    }
    (state, line + "\n")
}

/// On one line, and without the bar that begins the values.
#[must_use]
pub fn plugin_line(text: &str) -> String {
    fathom_record::escaped(text).replace('|', "/")
}

/// `'memory.latency.dram'=0.0000001542s;;0:0.00000013`: alert outside of the second range.
fn performance(row: &LimitJudged) -> Option<String> {
    let (unit, factor) = match row.unit {
        Unit::Nanoseconds => ("s", 1e-9),
        Unit::Bytes => ("B", 1.0),
        _ => ("", 1.0),
    };
    // A label may not contain these.
    let name = plugin_line(&row.name).replace('=', ":").replace('\'', "");
    let end = |value: Option<f64>| value.map_or(String::new(), |it| number(it * factor));
    let low = row.limit.low.map_or("~".to_owned(), |it| number(it * factor));
    let value = number(row.value? * factor);
    Some(format!("'{name}'={value}{unit};;{low}:{}", end(row.limit.high)))
}

/// Six significant figures, without an exponent.
fn number(value: f64) -> String {
    let digits = 6 - (value.abs().max(f64::MIN_POSITIVE).log10().floor() as i32) - 1;
    let text = format!("{value:.*}", usize::try_from(digits).unwrap_or(0));
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use fathom_analysis::limits::UserLimit;

    use super::*;

    #[test]
    fn name_with_a_line_feed_and_a_bar_is_one_value() {
        let limit = UserLimit { low: None, high: Some(2.0) };
        let mut row = limit.not_measured("a{b=c\nd | e'=1\u{202e}}", Unit::Ratio);
        row.value = Some(1.0);
        assert_eq!(performance(&row).as_deref(), Some("'a{b:c\\u000ad / e:1\\u202e}'=1;;~:2"));
    }

    #[test]
    fn numbers_of_a_health_check_have_no_exponent() {
        let texts = [1.542e-7, 3.25e10, 0.0, 1.25, -2.0, 123_456_789.0].map(number);
        assert_eq!(texts, ["0.0000001542", "32500000000", "0", "1.25", "-2", "123456789"]);
    }
}
