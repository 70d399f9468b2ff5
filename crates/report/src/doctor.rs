//! The report of `fathom doctor`: findings by severity, and what to do next.

use anstyle::Style;
use fathom_record::condition::BusyProgram;
use fathom_record::quantity::percent;
use fathom_record::{Cause, Diagnosis, Document, Finding, Protocol, Record, Severity, State};

use crate::by_hand::of_rule;
use crate::case::counted;
use crate::core_state::busy;
use crate::hardware::hardware;
use crate::opening::{labelled, machine, minute};
use crate::overview;
use crate::paint::{BAD, CARE, FAINT, GOOD, PLAIN, STRONG, paint, paint_lines};
use crate::remedy::{Advice, advice};
use crate::shown::ShownRecord;
use crate::wrap::{GLUE, NARROWEST, clean, glued, wrapped};

/// A wider line would be hard to read.
const WIDEST: usize = 140;
/// The metric of the frequency at which the core runs.
const CLOCK: &str = "cpu.frequency";
/// A CPU with less to do is idle.
const IDLE_MAX: f64 = 0.1;
/// Indentation of a finding, of its details, and of their further lines.
const INDENT: &str = "  ";
const FURTHER: &str = "    ";
const FURTHEST: &str = "      ";

/// What the last run of all metrics says of the machine that nobody can see at once.
pub struct LastRun {
    /// What is worse than it should be.
    bad: Option<String>,
    /// How fast the core ran: limits of the host's clock are seen in nothing else by a guest.
    clock: Option<String>,
    /// That other programs, or guests, disturbed it.
    programs: Option<String>,
    /// Whether others took the core or the memory.
    others: Option<String>,
}

impl LastRun {
    pub fn from_document(document: &Document) -> Self {
        let Document { run, records, .. } = document;
        let bad = overview::worse(document);
        let bad = bad.map(|bad| format!("{}, {} UTC: {bad}", run.name(), minute(&run.started)));
        if let Some(how) = busy(document) {
            let programs = format!("the last run was on a {how}");
            return Self { bad, clock: None, programs: Some(programs), others: None };
        }
        let clock = records.iter().find(|it| it.metric.as_str() == CLOCK);
        let clock = clock.filter(|it| it.verdict.state == State::Valid).map(|record| {
            let shown = ShownRecord::from_record(record, Protocol::Median);
            glued(&format!("{} ± {}", shown.unrounded(), shown.half()))
        });
        let is_slowed =
            |it: &&Record| it.verdict.reasons.iter().any(|it| it.cause == Cause::SlowMemory);
        let slowed = match records.iter().filter(is_slowed).count() {
            0 => "no result was slowed by other users of the memory".to_owned(),
            some => {
                let results = counted(some, "result");
                format!("other CPUs or guests slowed the memory of {results}")
            }
        };
        let others = run.reference.map(|it| {
            let share = glued(&percent(it.clean_share()));
            format!("last run: core to itself in {share} of processes, {slowed}")
        });
        Self { bad, clock, programs: None, others }
    }
}

/// Which remedies can be tried, and the newest runs that tried some.
#[derive(Default)]
pub struct TriedRemedies {
    /// Rules whose remedy can be tried.
    pub rules: Vec<String>,
    /// The newest first.
    pub runs: Vec<Document>,
}

impl TriedRemedies {
    /// What the newest trial says of the remedy for a finding.
    fn words(&self, finding: &Finding) -> Option<String> {
        let of_run = |Document { run, records, .. }: &Document| {
            let day = run.started.get(..10).unwrap_or(&run.started);
            Some(format!("tried here on {day}: {}", of_rule(records, &finding.id)?))
        };
        self.runs.iter().find_map(of_run)
    }
}

/// The conclusion with what to do next, the machine, and the findings by severity. `all`: with the
/// parts of the machine, and a line for each good finding. `is_whole`: of all rules.
pub fn doctor(
    diagnosis: &Diagnosis,
    (width, all, is_whole): (usize, bool, bool),
    last_run: Option<&LastRun>,
    tried: &TriedRemedies,
) -> String {
    let width = width.clamp(NARROWEST, WIDEST);
    let mut text = conclusion(diagnosis, width, is_whole) + "\n";
    text += &taken(diagnosis, last_run, width);
    let bad = last_run.and_then(|it| it.bad.as_ref());
    text += &bad.map_or(String::new(), |words| labelled("last run", words, width));
    text += &labelled("machine", &machine(&diagnosis.host), width);
    for (label, words) in hardware(&diagnosis.host).into_iter().filter(|_| all) {
        text += &labelled(label, &words, width);
    }
    text += &labelled("cpu", &cpu(diagnosis), width);
    for severity in [Severity::Severe, Severity::Warning, Severity::Note] {
        text += &group(&findings_of(diagnosis, severity), severity, width, tried);
    }
    text += &offer(diagnosis, tried, width);
    let good = findings_of(diagnosis, Severity::Good);
    text + &if all { group(&good, Severity::Good, width, tried) } else { in_order(&good, width) }
}

fn findings_of(diagnosis: &Diagnosis, severity: Severity) -> Vec<&Finding> {
    let mut findings: Vec<&Finding> =
        diagnosis.findings.iter().filter(|finding| finding.severity == severity).collect();
    // Inputs facts first.
    findings.sort_by_key(|finding| finding.unknown);
    findings
}

fn cpu(diagnosis: &Diagnosis) -> String {
    let condition = &diagnosis.condition;
    match condition.cpu {
        Some(cpu) => format!("{cpu} would be measured: {}", condition.cpu_reason),
        None => "no CPU can be selected".to_owned(),
    }
}

/// Who takes the CPUs, and what limits them, also where nothing does: it is asked for.
fn taken(diagnosis: &Diagnosis, last_run: Option<&LastRun>, width: usize) -> String {
    let finding = |id: &str| diagnosis.findings.iter().find(|finding| finding.id == id);
    let look = diagnosis.condition.look.as_ref().filter(|_| finding("cpu-busy").is_some());
    let busiest = look.and_then(|look| {
        let used = |one: &BusyProgram| glued(&format!("{} {:.1} CPUs", clean(&one.name), one.cpus));
        let named: Vec<String> = look.busiest.iter().map(used).collect();
        let is_idle = look.cpus.iter().all(|one| one.busy < IDLE_MAX);
        match named.is_empty() {
            true => is_idle.then(|| "none takes 0.1 CPUs".to_owned()),
            false => Some(named.join(", ")),
        }
    });
    let others = last_run.and_then(|it| it.others.as_ref());
    let others = others.map_or(String::new(), |words| format!("; {words}"));
    let programs = last_run.and_then(|it| it.programs.clone());
    let busiest = match (busiest, programs) {
        (Some(now), Some(then)) => Some(format!("{now}; {then}")),
        (now, then) => now.or(then),
    };
    let steal = finding("cpu-steal").map(|it| format!("by other guests: {}{others}", it.found));
    let clock = last_run.and_then(|it| it.clock.as_ref());
    let clock = match (diagnosis.host.is_guest(), clock) {
        (_, Some(clock)) => format!("; the core ran at {clock} in the last run"),
        (true, None) => "; whether the host lowers the clock, a guest sees by `fathom history \
                         cpu.frequency` only"
            .to_owned(),
        (false, None) => String::new(),
    };
    let quota = finding("cgroup-cpu-quota").map(|it| match it.severity {
        Severity::Good => format!("CPUs not throttled by a cgroup: {}{clock}", it.found),
        _ => format!("{}{clock}", it.found),
    });
    [("programs", busiest), ("steal", steal), ("limits", quota)]
        .into_iter()
        .filter_map(|(label, words)| Some(labelled(label, &figures_glued(&words?), width)))
        .collect()
}

fn style(severity: Severity) -> Style {
    match severity {
        Severity::Good => GOOD,
        Severity::Note => STRONG,
        Severity::Warning => CARE,
        Severity::Severe => BAD,
    }
}

fn heading(severity: Severity) -> &'static str {
    match severity {
        Severity::Severe => "severe: invalid numbers, or none",
        Severity::Warning => "warning: numbers will be noisier or different",
        Severity::Note => "note: properties of the machine, and unknown facts",
        Severity::Good => "good: nothing to report",
    }
}

/// The findings of one severity under their heading.
fn group(findings: &[&Finding], severity: Severity, width: usize, tried: &TriedRemedies) -> String {
    if findings.is_empty() {
        return String::new();
    }
    let style = style(severity);
    let mut text =
        "\n".to_owned() + &paint_lines(style, &wrapped(heading(severity), width, "", ""));
    for finding in findings {
        text += &entry(finding, width);
        let lines = tried.words(finding).map(|it| wrapped(&it, width, FURTHEST, FURTHEST));
        text += &lines.map_or(String::new(), |lines| paint_lines(PLAIN, &lines));
    }
    text
}

/// How to find out which remedies pay, of those that can be tried and were not yet.
fn offer(diagnosis: &Diagnosis, tried: &TriedRemedies, width: usize) -> String {
    let is_open = |it: &&Finding| tried.rules.contains(&it.id) && tried.words(it).is_none();
    let open: Vec<&str> =
        diagnosis.findings.iter().filter(is_open).map(|finding| finding.id.as_str()).collect();
    if open.is_empty() {
        return String::new();
    }
    let command = glued("`sudo fathom doctor --try`");
    let words = format!("Whether it pays here ({}): {command}", open.join(", "));
    "\n".to_owned() + &wrapped(&words, width, "", INDENT)
}

/// One finding: the fact and its source, the effect, the remedy.
fn entry(finding: &Finding, width: usize) -> String {
    let places = match finding.read_at.is_empty() {
        true => String::new(),
        false => format!(" [{}]", finding.read_at.join(", ")),
    };
    let lead = format!("{}: {}{places}", finding.id, figures_glued(&finding.found));
    let mut text = strong_lead(&finding.id, &wrapped(&lead, width, INDENT, FURTHER));
    if finding.severity == Severity::Good || finding.unknown {
        return text;
    }
    let touched = format!("affects {}: {}", patterns(&finding.touches), finding.effect);
    text += &paint_lines(FAINT, &wrapped(&touched, width, FURTHER, FURTHEST));
    text + &remedy(finding, width)
}

/// Keeps numbers on one line with their unit.
fn figures_glued(text: &str) -> String {
    const UNITS: [&str; 10] = ["%", "KiB", "MiB", "GiB", "GHz", "ns", "µs", "ms", "ppm", "CPU"];
    let mut glued = String::new();
    for (at, word) in text.split(' ').enumerate() {
        let is_unit = UNITS.contains(&word.trim_end_matches([',', ';', ':', '.', ')']));
        let has_number = glued.ends_with(|letter: char| letter.is_ascii_digit());
        if at > 0 {
            glued.push(if is_unit && has_number { GLUE } else { ' ' });
        }
        glued += word;
    }
    glued
}

/// Prints the id at the beginning of a finding in bold.
fn strong_lead(id: &str, lines: &str) -> String {
    match lines.strip_prefix(&format!("{INDENT}{id}")) {
        Some(rest) => format!("{INDENT}{}{rest}", paint(STRONG, id)),
        None => lines.to_owned(),
    }
}

fn patterns(touches: &[String]) -> String {
    match touches {
        [all] if all == "*" => "everything".to_owned(),
        some => some.join(", "),
    }
}

/// The command on a line of its own, so that it can be copied, and the text after it.
fn remedy(finding: &Finding, width: usize) -> String {
    let arrow = format!("{FURTHER}→ ");
    let Some(Advice { command, words }) = finding.remedy.as_ref().map(advice) else {
        return String::new();
    };
    let Some(command) = command else {
        return paint_lines(FAINT, &wrapped(&words, width, &arrow, FURTHEST));
    };
    let text = paint_lines(PLAIN, &wrapped(&command, width, &arrow, FURTHEST));
    text + &paint_lines(FAINT, &wrapped(&words, width, FURTHEST, FURTHEST))
}

/// The good findings by name.
fn in_order(good: &[&Finding], width: usize) -> String {
    if good.is_empty() {
        return String::new();
    }
    let names: Vec<&str> = good.iter().map(|finding| finding.id.as_str()).collect();
    let words = format!("good: {} ({})", good.len(), names.join(", "));
    "\n".to_owned() + &paint_lines(GOOD, &wrapped(&words, width, "", INDENT))
}

/// The conclusion, and what to do next.
fn conclusion(diagnosis: &Diagnosis, width: usize, is_whole: bool) -> String {
    let worst = diagnosis.severity;
    let names = |severity| {
        let findings = findings_of(diagnosis, severity);
        findings.iter().map(|finding| finding.id.as_str()).collect::<Vec<_>>().join(", ")
    };
    let (verdict, next) = match worst {
        Severity::Good | Severity::Note if !is_whole => {
            ("No warning by the selected rules.".to_owned(), "`fathom doctor`".to_owned())
        }
        Severity::Good | Severity::Note => {
            ("This machine is fit for measurements.".to_owned(), "`fathom run`".to_owned())
        }
        Severity::Warning => (
            format!("Measurements are possible, with warnings: {}.", names(Severity::Warning)),
            mend_first(diagnosis),
        ),
        Severity::Severe => (
            format!("This machine gives few valid numbers now: {}.", names(Severity::Severe)),
            mend_first(diagnosis),
        ),
    };
    let text = paint_lines(style(worst), &wrapped(&verdict, width, "", ""));
    text + &wrapped(&format!("Next: {next}"), width, "", INDENT)
}

/// The remedy of the most severe finding, and to examine again.
fn mend_first(diagnosis: &Diagnosis) -> String {
    let again = glued("`fathom doctor`");
    let first = diagnosis.findings.first().and_then(|finding| finding.remedy.as_ref());
    let first = match first.map(advice) {
        Some(Advice { command: Some(command), .. }) => format!("`{command}`, then "),
        Some(Advice { words, .. }) => format!("{words}; then "),
        None => String::new(),
    };
    format!("{first}{again}{GLUE}again")
}
