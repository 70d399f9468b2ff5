//! Many hosts on one screen: which are odd, what all have in common, what was not judged.

mod matrix;
mod page;

use std::collections::{BTreeMap, BTreeSet};

use anstyle::Style;
use fathom_analysis::compare::ComparisonWord;
use fathom_analysis::fleet::names::fold;
use fathom_analysis::fleet::pairs::{BadHost, BadLink};
use fathom_analysis::fleet::{
    Group, HOSTS_MIN, Hardware, Judgement, Matrix, NotJudged, OddConduct, OddFact, OddHost,
    OddNumber, Uniform,
};
use fathom_record::quantity::{NOTHING, percent, quantity, quantity_within, short, span_within};
use fathom_record::{Cause, Counts, State, shell_word};

use crate::case::{counted, named, subject};
use crate::column::{Column, Lines};
use crate::compare::{self, what_differs};
use crate::counts::{cause_words, states};
use crate::distinct::grouped;
use crate::layout::Layout;
use crate::opening::labelled;
use crate::paint::{BAD, CARE, FAINT, GOOD, PLAIN, STRONG, paint_lines};
use crate::wrap::{NARROWEST, clean, cut, glued, wrapped};

const WIDEST: usize = 140;
/// Unless all are asked for, a list has so many entries: the screen stays one.
const LISTED: usize = 8;
/// Pairs of fewer hosts are not judged, however long they are measured.
const PAIRS_MIN: usize = 6;
/// And one kind of odd host so many rows and facts.
const OF_HOST: usize = 4;
/// A list of names has so many lines.
const LINES_OF_NAMES: usize = 3;
/// A longer value of a fact, such as a command line of the kernel, is cut.
const VALUE_OF_FACT: usize = 60;
/// Columns of a number of one host, or of the lowest and the highest of several.
const VALUE: usize = 15;

static ODD: [Column<()>; 5] = [
    Column::left("Odd hosts", &[], ()),
    Column::right("host", &[(0, VALUE)], ()),
    Column::right("usual", &[(0, 12)], ()),
    Column::right("by", &[(0, 11)], ()),
    Column::left("", &[(0, 8)], ()),
];
const TYPICAL: usize = 4;
static SLOW: [Column<()>; 5] = [
    Column::left("Slow on all hosts", &[], ()),
    Column::right("median", &[(0, 12)], ()),
    Column::right("÷ predicted", &[(0, 13)], ()),
    Column::right("hosts", &[(0, 7)], ()),
    Column::left("typical", &[(0, 24)], ()),
];

pub use page::data;

struct FleetView {
    line: usize,
    all: bool,
}

/// The verdict; of each group what it is, its odd hosts, what is slow on all of them, and what was
/// not judged; then the groups that are too small. Every case, fact and host if `layout.all`.
pub fn render(judgement: &Judgement, layout: &Layout) -> String {
    let view = FleetView { line: layout.width.clamp(NARROWEST, WIDEST), all: layout.all };
    let (words, style) = view.verdict(judgement);
    let mut text = paint_lines(style, &wrapped(&words, view.line, "", "  "));
    let is_small = |group: &&Group| group.hosts.len() < HOSTS_MIN && group.odd.is_empty();
    let (small, shown): (Vec<&Group>, Vec<&Group>) = judgement.groups.iter().partition(is_small);
    for group in &shown {
        text.push('\n');
        text += &view.opening(group);
        text += &view.odd(&group.odd);
        text += &view.uniform(&group.uniform);
        text += &view.not_judged(&group.not_judged);
    }
    text += &view.between(&judgement.between);
    if !small.is_empty() {
        text += &view.title(&format!("Not judged, fewer than {HOSTS_MIN} hosts"));
        text += &view.listed(&small, (LISTED, "group"), |group| {
            let hosts = view.names(group.hosts.iter().map(String::as_str));
            wrapped(&format!("{hosts}: {}", hardware(&group.hardware)), view.line, "  ", "    ")
        });
    }
    let foot = wrapped(&foot(&shown), view.line, "", "  ");
    if foot.is_empty() { text } else { text + "\n" + &paint_lines(FAINT, &foot) }
}

/// Whether no measurement was to be judged.
fn is_facts_only<'g>(groups: impl IntoIterator<Item = &'g Group>) -> bool {
    groups.into_iter().all(|group| group.records.total() == 0)
}

/// `AMD EPYC, kvm, 2 nodes of 32 cores, 503 GiB memory (16 × 32 GiB DDR5)`.
fn hardware(hardware: &Hardware) -> String {
    let cpu = Some(hardware.cpu.as_str()).filter(|model| !model.is_empty());
    let mut parts = vec![cpu.unwrap_or("unknown CPU").to_owned()];
    parts.extend(hardware.virtualization.clone().filter(|kind| kind != "none"));
    parts.extend(hardware.emulation.clone());
    let mut nodes: BTreeMap<u32, usize> = BTreeMap::new();
    hardware.cores_of_nodes.iter().for_each(|cores| *nodes.entry(*cores).or_default() += 1);
    parts.extend(nodes.into_iter().map(|(cores, nodes)| {
        let cores = counted(cores as usize, "core");
        glued(&if nodes == 1 { cores } else { format!("{nodes} nodes of {cores}") })
    }));
    let bytes = |bytes| glued(&quantity(bytes as f64, fathom_record::Unit::Bytes)) + " memory";
    let modules = hardware.modules.as_ref().map(|it| format!(" ({it})")).unwrap_or_default();
    parts.extend(hardware.memory_bytes.map(|it| bytes(it) + &modules));
    parts.join(", ")
}

/// `198 of 206 cases judged; records of all hosts: 1656 valid, 8 noisy (CPU contention)`.
fn cases_words(group: &Group) -> String {
    let (judged, cases) = (group.judged_cases(), counted(group.cases.len(), "case"));
    format!(
        "{judged} of {cases} judged; records of all hosts: {}",
        state_words(&group.records, &group.noise)
    )
}

fn state_words(records: &Counts, noise: &[(Cause, usize)]) -> String {
    let causes = match noise {
        [(cause, _)] => cause_words(*cause).to_owned(),
        several => {
            let each = several.iter().map(|(cause, n)| format!("{} {n}", cause_words(*cause)));
            each.collect::<Vec<String>>().join(", ")
        }
    };
    let states = states(records).map(|(n, state)| match state {
        State::Noisy if !causes.is_empty() => format!("{n} noisy ({causes})"),
        state => format!("{n} {}", state.word()),
    });
    states.collect::<Vec<String>>().join(", ")
}

/// `memory speed: 8 × 2933 MT/s instead of 8 × 4800 MT/s on 36 of 40 hosts`.
pub(crate) fn fact(odd: &OddFact) -> String {
    let [value, usual] = fact_sides(odd);
    format!("{}: {value} instead of {usual} on {} of {} hosts", odd.fact, odd.hosts, odd.of)
}

/// `8 cases failed (timed out), which most hosts measure: file.read.cold{…} and 7 more`.
pub(crate) fn conduct(odd: &OddConduct) -> String {
    let why = |cause: &Option<Cause>| {
        cause.map_or_else(String::new, |cause| format!(" ({})", cause_words(cause)))
    };
    match odd {
        OddConduct::Cases { state, cases, cause, first } => {
            let (count, state, why) = (counted(*cases, "case"), state.word(), why(cause));
            let more = if *cases > 1 { format!(" and {} more", cases - 1) } else { String::new() };
            format!("{count} {state}{why}, measured by most hosts: {}{more}", subject(first))
        }
        OddConduct::Noisy { cases, of, usual, cause } => {
            let [share, usual] = [*cases as f64 / *of as f64, *usual].map(percent);
            format!("{share} of its cases are noisy{}, {usual} of those of most hosts", why(cause))
        }
        OddConduct::Slow { ns, usual_ns } => {
            let [time, usual] =
                [*ns, *usual_ns].map(|ns| quantity(ns, fathom_record::Unit::Nanoseconds));
            format!("slow to answer: its run took {time} instead of {usual}")
        }
    }
}

/// The kind of what is odd, for those that share it.
fn kind(odd: &OddConduct) -> &'static str {
    match odd {
        OddConduct::Cases { state, .. } => state.word(),
        OddConduct::Noisy { .. } => State::Noisy.word(),
        OddConduct::Slow { .. } => "slow",
    }
}

/// The value and the usual one.
fn fact_sides(odd: &OddFact) -> [String; 2] {
    what_differs([&odd.value, &odd.usual]).map(|it| cut(&it, VALUE_OF_FACT))
}

/// Hosts that are odd in the same way: in the same facts, and in the same direction in numbers of
/// the same groups of metrics. The largest effect first.
fn folds(odd: &[OddHost]) -> Vec<Vec<&OddHost>> {
    type Kinds = Vec<&'static str>;
    type Way<'o> = (BTreeSet<(&'o str, ComparisonWord)>, Kinds, Vec<(&'o str, &'o str)>);
    let mut folds: BTreeMap<Way<'_>, Vec<&OddHost>> = BTreeMap::new();
    for host in odd {
        let numbers = host.numbers.iter().map(|it| (it.subject.metric.group(), it.word));
        let facts = host.facts.iter().map(|it| (it.fact.as_str(), it.value.as_str()));
        let kinds = host.conduct.iter().map(kind).collect();
        folds.entry((numbers.collect(), kinds, facts.collect())).or_default().push(host);
    }
    let mut folds: Vec<Vec<&OddHost>> = folds.into_values().collect();
    folds.sort_by(|a, b| {
        let [a, b] = [a, b].map(|fold| largest(fold.iter().flat_map(|host| &host.numbers)));
        b.total_cmp(&a)
    });
    folds
}

fn largest<'o>(numbers: impl IntoIterator<Item = &'o OddNumber>) -> f64 {
    numbers.into_iter().map(|it| it.ratio.ln().abs()).fold(0.0, f64::max)
}

/// What is odd in one subject on some hosts, and in how many more cases of its group.
pub(crate) struct FleetRow<'o> {
    pub(crate) numbers: Vec<&'o OddNumber>,
    pub(crate) more: usize,
}

/// Each subject, the largest effect first; unless `all`, one of each group of metrics.
pub(crate) fn rows<'o>(fold: &[&'o OddHost], all: bool) -> Vec<FleetRow<'o>> {
    let numbers = fold.iter().flat_map(|host| &host.numbers);
    let rows = grouped(numbers.map(|number| ((&number.subject, number.word), number)));
    let row = |(_, numbers): (_, Vec<&'o OddNumber>)| FleetRow { numbers, more: 0 };
    let mut rows: Vec<FleetRow<'o>> = rows.into_iter().map(row).collect();
    let effect = |row: &FleetRow<'_>| largest(row.numbers.iter().copied());
    rows.sort_by(|a, b| effect(b).total_cmp(&effect(a)));
    if all {
        return rows;
    }
    let kind = |row: &FleetRow<'o>| {
        let OddNumber { subject, word, .. } = row.numbers[0];
        (subject.metric.group(), subject.cases.is_some(), *word)
    };
    let first = |(_, mut rows): (_, Vec<FleetRow<'o>>)| {
        let more = rows.len() - 1;
        FleetRow { more, ..rows.swap_remove(0) }
    };
    grouped(rows.into_iter().map(|row| (kind(&row), row))).into_iter().map(first).collect()
}

pub(crate) fn word(word: ComparisonWord) -> &'static str {
    match word {
        // Nothing changed: hosts differ.
        ComparisonWord::Changed => "differs",
        word => compare::text_of(word),
    }
}

/// `node2 – node3`, each bad link.
fn bad_links(matrix: &Matrix) -> impl Iterator<Item = String> {
    let name = |at: usize| &matrix.hosts[at];
    matrix.pairs.bad_links.iter().map(move |it| {
        let [a, b] = it.hosts.map(name);
        format!("{a} – {b}")
    })
}

/// `sends 0.599, receives 0.7`: its numbers ÷ the usual ones.
fn of_host(bad: &BadHost) -> String {
    ways([("sends", bad.sends), ("receives", bad.receives)])
}

/// `node2 to node3 2.01, node3 to node2 2`: its numbers ÷ what both hosts explain.
fn of_link(bad: &BadLink, hosts: &[String]) -> String {
    let [a, b] = bad.hosts.map(|at| &hosts[at]);
    ways([(&format!("{a} to {b}"), bad.there), (&format!("{b} to {a}"), bad.back)])
}

fn ways(ways: [(&str, Option<f64>); 2]) -> String {
    let way = |(way, ratio): (&str, Option<f64>)| Some(format!("{way} {}", short(ratio?)));
    ways.into_iter().filter_map(way).collect::<Vec<String>>().join(", ")
}

/// What to run next about the worst of what is bad or not judged, on which host.
fn advice(matrix: &Matrix) -> Option<String> {
    let Matrix { pairs, hosts, noisy, not_valid, .. } = matrix;
    let word = |at: usize| shell_word(&hosts[at]);
    if let Some(bad) = pairs.bad_links.first() {
        let [from, to] = bad.hosts.map(word);
        return Some(format!(
            "`ssh {from} mtr -rwc 100 {to}`; then `fathom fleet pairs --hosts {from},{to}`"
        ));
    }
    if let Some(bad) = pairs.bad_hosts.first() {
        return Some(format!("`ssh {} fathom doctor`", word(bad.host)));
    }
    let is_open = !not_judged(matrix).is_empty() || noisy + not_valid > 0;
    (is_open && pairs.hosts >= PAIRS_MIN).then(|| {
        let names = shell_word(&fold(hosts.iter().map(String::as_str)));
        format!("`fathom fleet pairs --at-once 1 --thorough --hosts {names}`")
    })
}

/// Why hosts or links between them were not judged.
fn not_judged(matrix: &Matrix) -> Vec<String> {
    let mut reasons = matrix.pairs.not_judged.clone();
    if !matrix.pairs.few_links.is_empty() {
        let few = matrix.pairs.few_links.iter().map(|at| matrix.hosts[*at].as_str());
        reasons.push(format!("too few links: {}", fold(few)));
    }
    reasons
}

/// `31 %`, or `21 %–28 %` of several.
pub(crate) fn sizes(numbers: &[&OddNumber]) -> String {
    let shares = numbers.iter().map(|it| (it.ratio - 1.0).abs());
    let [low, high] = ends(shares).map(percent);
    if low == high { low } else { format!("{low}–{high}") }
}

fn ends(values: impl Iterator<Item = f64> + Clone) -> [f64; 2] {
    [values.clone().fold(f64::INFINITY, f64::min), values.fold(f64::NEG_INFINITY, f64::max)]
}

/// Measured ÷ predicted, the hosts, and the place among published machines.
fn uniform_words(one: &Uniform) -> [String; 3] {
    let missed = one.predicted.as_ref();
    let ratio = missed.map_or(NOTHING.to_owned(), |it| {
        let bound = if it.is_value { "" } else { "bound × " };
        format!("{bound}{}", short(it.ratio))
    });
    let hosts = missed.map_or(one.hosts, |it| it.hosts);
    let typical = one.typical.as_ref().map_or_else(String::new, |it| it.words());
    [ratio, format!("{hosts}/{}", one.hosts), typical]
}

fn foot(shown: &[&Group]) -> String {
    let mut notes = Vec::new();
    let odd = || shown.iter().flat_map(|group| &group.odd);
    if odd().any(|host| !host.numbers.is_empty()) {
        notes.push(
            "by: of the median of its group, and of cases together of their time; odd: \
             more than 3 % and the noise limit of the metric, and not by chance among all hosts \
             and cases (Benjamini–Hochberg, 5 %)",
        );
    }
    if odd().any(|host| !host.numbers.is_empty() && !host.facts.is_empty()) {
        notes.push("likely cause: facts in which the host differs from its group, no proof");
    }
    notes.join("; ")
}

impl FleetView {
    fn verdict(&self, judgement: &Judgement) -> (String, Style) {
        let groups = &judgement.groups;
        let odd = groups.iter().flat_map(|it| &it.odd).map(|it| it.host.as_str());
        let bad = judgement
            .between
            .iter()
            .flat_map(|it| it.pairs.bad_hosts.iter().map(|bad| it.hosts[bad.host].as_str()));
        let odd: BTreeSet<&str> = odd.chain(bad).collect();
        let links: BTreeSet<String> = judgement.between.iter().flat_map(bad_links).collect();
        let hosts = counted(judgement.hosts, "host");
        let links = match links.len() {
            0 => String::new(),
            1 => format!("bad link: {}", self.cut(links)),
            count => format!("{count} bad links: {}", self.cut(links)),
        };
        if !odd.is_empty() {
            let are = if odd.len() == 1 { "is" } else { "are" };
            let links = if links.is_empty() { links } else { format!("; {links}") };
            return (
                format!("{} of {hosts} {are} odd: {}{links}", odd.len(), self.names(odd)),
                BAD,
            );
        }
        if !links.is_empty() {
            return (format!("no odd host of {hosts}; {links}"), BAD);
        }
        let is_large = |group: &&Group| group.hosts.len() >= HOSTS_MIN;
        let compared: usize = groups.iter().filter(is_large).map(|it| it.hosts.len()).sum();
        if judgement.between.iter().any(|it| it.pairs.usual.is_some()) {
            return (format!("no odd host and no bad link: {hosts} judged"), GOOD);
        }
        if compared == 0 {
            let why = format!("no group of equal hardware has {HOSTS_MIN} hosts");
            return (format!("{hosts}: nothing judged: {why}"), CARE);
        }
        let of = if compared < judgement.hosts { format!("{compared} of ") } else { String::new() };
        if is_facts_only(groups) {
            return (format!("no odd fact: {of}{hosts} compared"), GOOD);
        }
        if !judgement.is_any_judged(true) {
            let explains = |it: &Group| !it.not_judged.is_empty();
            let is_explained = groups.iter().any(explains) || !judgement.between.is_empty();
            let why = match is_explained {
                true => "see below".to_owned(),
                false => format!("no case has a valid number on {HOSTS_MIN} hosts"),
            };
            return (format!("{hosts}: no odd fact; numbers not judged: {why}"), CARE);
        }
        (format!("no odd host: {of}{hosts} judged"), GOOD)
    }

    fn title(&self, title: &str) -> String {
        "\n".to_owned() + &paint_lines(STRONG, &wrapped(title, self.line, "", "  "))
    }

    /// The entries of a list, and how many more there are.
    fn listed<T>(
        &self,
        all: &[T],
        (most, noun): (usize, &str),
        text: impl Fn(&T) -> String,
    ) -> String {
        let count = if self.all { all.len() } else { all.len().min(most) };
        let listed: String = all[..count].iter().map(text).collect();
        match all.len() - count {
            0 => listed,
            more => {
                let more = counted(more, &format!("more {noun}")) + "; `--all` lists all";
                listed + &paint_lines(FAINT, &wrapped(&more, self.line, "  ", "    "))
            }
        }
    }

    /// `node[3,17-19]`, cut if it is very long.
    fn names<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> String {
        let folded = fold(names);
        if self.all { folded } else { cut(&folded, LINES_OF_NAMES * self.line) }
    }

    /// A list of names, cut if it is very long.
    fn cut(&self, names: impl IntoIterator<Item = String>) -> String {
        let all = names.into_iter().collect::<Vec<String>>().join(", ");
        if self.all { all } else { cut(&all, LINES_OF_NAMES * self.line) }
    }

    fn opening(&self, group: &Group) -> String {
        let names = self.names(group.hosts.iter().map(String::as_str));
        let hosts = format!("{}: {names}", group.hosts.len());
        let mut text = labelled("hosts", &hosts, self.line);
        text += &labelled("machine", &hardware(&group.hardware), self.line);
        if group.records.total() > 0 {
            text += &labelled("cases", &cases_words(group), self.line);
        }
        text
    }

    fn odd(&self, odd: &[OddHost]) -> String {
        if odd.is_empty() {
            return String::new();
        }
        let lines = Lines::new(self.line, 1, &ODD);
        let has_numbers = odd.iter().any(|host| !host.numbers.is_empty());
        let mut text = match has_numbers {
            true => "\n".to_owned() + &lines.header(),
            false => self.title("Odd hosts"),
        };
        text += &self.listed(&folds(odd), (LISTED, "finding"), |fold| {
            let names = self.names(fold.iter().map(|host| host.host.as_str()));
            let rows = rows(fold, self.all);
            let mut entry = paint_lines(BAD, &wrapped(&names, self.line, "", "  "));
            entry += &self.listed(&rows, (OF_HOST, "row"), |row| self.row(row, &lines));
            entry += &self.conduct(fold);
            let is_cause = !rows.is_empty() || !fold[0].conduct.is_empty();
            let label = if is_cause { "likely cause: " } else { "" };
            entry += &self.listed(&fold[0].facts, (OF_HOST, "fact"), |odd| {
                wrapped(&format!("{label}{}", fact(odd)), self.line, "  ", "    ")
            });
            entry
        });
        text
    }

    /// How hosts measure that are odd alike: each with its name if there are several.
    fn conduct(&self, fold: &[&OddHost]) -> String {
        let is_one = fold.len() == 1;
        let words = |host: &OddHost, odd| {
            if is_one { conduct(odd) } else { format!("{}: {}", host.host, conduct(odd)) }
        };
        let all = fold.iter().flat_map(|host| host.conduct.iter().map(|odd| words(host, odd)));
        self.listed(&all.collect::<Vec<String>>(), (OF_HOST, "line"), |text| {
            paint_lines(BAD, &wrapped(&clean(text), self.line, "  ", "    "))
        })
    }

    fn row(&self, row: &FleetRow<'_>, lines: &Lines) -> String {
        let first = row.numbers[0];
        let more = if row.more > 0 {
            format!(" and {}", counted(row.more, "more case"))
        } else {
            String::new()
        };
        let name = format!("  {}{more}", subject(&first.subject));
        let [above, name] = lines.name(name, ["  ", "    "]);
        let mut texts = [name, String::new(), String::new(), sizes(&row.numbers), String::new()];
        if let (Some(usual), Some(unit)) = (first.usual, first.unit) {
            let [low, high] = ends(row.numbers.iter().filter_map(|it| it.value));
            texts[1] = match low < high {
                true => span_within(low, high, unit, VALUE),
                false => quantity_within(low, unit, VALUE),
            };
            texts[2] = quantity_within(usual, unit, lines.width(2));
        }
        texts[4] = word(first.word).to_owned();
        let word = compare::style(first.word);
        above + &lines.line(texts.into_iter().zip([PLAIN, PLAIN, PLAIN, word, word]))
    }

    fn uniform(&self, uniform: &[Uniform]) -> String {
        if uniform.is_empty() {
            return String::new();
        }
        let has_typical = uniform.iter().any(|it| it.typical.is_some());
        let lines = Lines::new(self.line, 1, &SLOW).retain(|at| at != TYPICAL || has_typical);
        let mut text = "\n".to_owned() + &lines.header();
        let by = |it: &Uniform| it.predicted.as_ref().map_or(0.0, |it| it.ratio.ln().abs());
        let mut worst: Vec<&Uniform> = uniform.iter().collect();
        worst.sort_by(|a, b| by(b).total_cmp(&by(a)));
        text += &self.listed(&worst, (LISTED, "case"), |one| {
            let name = format!("  {}", clean(&named(&one.metric, &one.params)));
            let [above, name] = lines.name(name, ["  ", "    "]);
            let [ratio, hosts, typical] = uniform_words(one);
            let median = quantity_within(one.median, one.unit, lines.width(1));
            let texts = [name, median, ratio, hosts, typical].into_iter();
            above + &lines.line(texts.zip([PLAIN, PLAIN, CARE, PLAIN, CARE]))
        });
        text
    }

    /// Of each case between hosts: the usual number, bad hosts and bad links.
    fn between(&self, matrices: &[Matrix]) -> String {
        let mut text = String::new();
        for matrix in matrices {
            let Matrix { pairs, hosts, .. } = matrix;
            let case = clean(&named(&matrix.metric, &matrix.params));
            text += &self.title(&format!("Between hosts: {case}"));
            text += &matrix::numbers(matrix, self.line);
            let bad = pairs.bad_hosts.iter().map(|it| (&*hosts[it.host], of_host(it)));
            let bad = bad.map(|(host, ways)| format!("{host}: {ways}"));
            let links =
                pairs.bad_links.iter().map(|it| format!("bad link: {}", of_link(it, hosts)));
            let bad: Vec<String> = bad.chain(links).collect();
            text += &self.listed(&bad, (LISTED, "finding"), |it| {
                paint_lines(BAD, &wrapped(it, self.line, "  ", "    "))
            });
            for why in not_judged(matrix) {
                text += &wrapped(&format!("not judged: {why}"), self.line, "  ", "    ");
            }
            if let Some(advice) = advice(matrix) {
                text += &wrapped(&format!("next: {}", clean(&advice)), self.line, "  ", "    ");
            }
        }
        text
    }

    fn not_judged(&self, all: &[NotJudged]) -> String {
        if all.is_empty() {
            return String::new();
        }
        let text = self.title("Not judged");
        text + &self.listed(all, (LISTED, "reason"), |it| {
            wrapped(&self.reason(it), self.line, "  ", "    ")
        })
    }

    /// What was not judged, why, and what may be the cause.
    fn reason(&self, it: &NotJudged) -> String {
        let what = it.subject.as_ref().map_or_else(|| "all cases".to_owned(), subject);
        let mut words = format!("{what}: {}", it.reason);
        if !it.part.is_empty() {
            words += &format!(": {}", self.names(it.part.iter().map(String::as_str)));
        }
        let facts: Vec<String> = it.facts.iter().map(fact).collect();
        if !facts.is_empty() {
            words += &format!("; likely cause: {}", facts.join("; "));
        }
        words
    }
}
