//! What `--fail-on` says of a comparison.

use fathom_analysis::compare::{Comparison, ComparisonAnswer, Gate, Loss, Needs, NotGateable};

use super::{LISTED, factors, group_counts};
use crate::case::named;
use crate::percent;
use crate::wrap::{clean, glued, wrapped};

/// The first line: the answer, how many cases count, and why.
pub(super) fn verdict(gate: &Gate, comparison: &Comparison, width: usize) -> String {
    let (gateable, lost, open) = (gate.gateable, gate.lost.len(), gate.undecided.len());
    let why = match gate.answer {
        _ if gateable == 0 => {
            let above = gate.not_gateable.iter().filter_map(|it| it.above).reduce(f64::min);
            let above = above.map_or_else(String::new, |it| {
                format!(", or a limit above {}", glued(&percent(it)))
            });
            format!(
                ": noise or intervals are wider: `--thorough` (bench: --time), several runs as \
                 A{above}"
            )
        }
        ComparisonAnswer::Pass => ", none may have lost more".to_owned(),
        ComparisonAnswer::Fail => format!(", {lost} lost more"),
        ComparisonAnswer::Undecided => format!(", {open} may have lost more"),
    };
    let taken = match gate.taken() {
        taken if taken == gate.answer => String::new(),
        taken => format!("; taken for {}", word(taken)),
    };
    let (answer, limit) = (word(gate.answer), glued(&percent(gate.limit)));
    let (cases, net) = (comparison.rows.len(), net_of(gate, comparison));
    let text =
        format!("{answer} at {limit}{net}: {gateable} of {cases} cases gateable{why}{taken}");
    wrapped(&text, width, "", "  ")
}

/// ` net of core speed (1.9 % slower)`, of the classes that the caller excepts.
fn net_of(gate: &Gate, comparison: &Comparison) -> String {
    let one = |class: &String| {
        let factor = comparison.factors.iter().find(|it| it.class == class);
        let moved = factor.map_or_else(|| "no factor".to_owned(), factors::change);
        format!("{class} ({})", glued(&moved))
    };
    let all: Vec<String> = gate.except.iter().map(one).collect();
    if all.is_empty() { String::new() } else { format!(" net of {}", all.join(", ")) }
}

fn word(answer: ComparisonAnswer) -> &'static str {
    match answer {
        ComparisonAnswer::Pass => "pass",
        ComparisonAnswer::Fail => "fail",
        ComparisonAnswer::Undecided => "undecided",
    }
}

/// The cases behind the answer, what would decide them, and those that do not count.
pub(super) fn details(gate: &Gate, all: bool, width: usize) -> String {
    let limit = percent(gate.limit);
    let mut text = String::new();
    for (losses, title) in [(&gate.lost, "Lost"), (&gate.undecided, "May have lost")] {
        if losses.is_empty() {
            continue;
        }
        text += &format!("{title} more than {limit}:\n");
        let shown = if all { losses.len() } else { losses.len().min(LISTED) };
        for Loss { metric, params, loss, possible, .. } in &losses[..shown] {
            let [loss, possible] = [loss, possible].map(|share| glued(&percent(*share)));
            let line = format!("{loss}, up to {possible}: {}", clean(&named(metric, params)));
            text += &wrapped(&line, width, "  ", "    ");
        }
        if shown < losses.len() {
            text += &format!("  and {} more (`--all`)\n", losses.len() - shown);
        }
    }
    let by = |(needs, text): (Needs, &str)| {
        let count = gate.undecided.iter().filter(|one| one.needs == Some(needs)).count();
        (count > 0).then(|| format!("Can be decided with {text}: {count}\n"))
    };
    let needs = [
        (Needs::StoredRuns, "stored runs of this host, which show the noise"),
        (Needs::Processes, "more processes (`--thorough`, bench `--time`, or more runs as A)"),
        (Needs::QuietRun, "runs that are not of low quality"),
        (Needs::EqualCore, "a CPU as fast in B as in A"),
        (Needs::EqualDistance, "CPUs as far apart in B as in A"),
    ];
    text.extend(needs.into_iter().filter_map(by).map(|line| wrapped(&line, width, "", "  ")));
    text + &not_gateable(&gate.not_gateable, &limit, all, width)
}

/// By group, or each with the limit above which it counts.
fn not_gateable(cases: &[NotGateable], limit: &str, all: bool, width: usize) -> String {
    if cases.is_empty() {
        return String::new();
    }
    let name = |one: &NotGateable| {
        let above = one.above.map_or("never".to_owned(), |it| format!("above {}", percent(it)));
        format!("{} ({})", clean(&named(&one.metric, &one.params)), glued(&above))
    };
    let names = if all {
        cases.iter().map(name).collect::<Vec<String>>().join(", ")
    } else {
        group_counts(cases.iter().map(|one| &one.metric))
    };
    let (count, worse) = (cases.len(), cases.iter().filter(|one| one.worse).count());
    let worse =
        if worse > 0 { format!(", {worse} of which are or look worse") } else { String::new() };
    let head = format!("Not gateable at {limit} (too noisy or too few processes)");
    wrapped(&format!("{head}: {count}{worse}: {names}"), width, "", "  ")
}
