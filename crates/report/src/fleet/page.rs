//! The page of many hosts: the words of the terminal, and the number of each host to draw.

use std::collections::BTreeMap;

use fathom_analysis::fleet::names::fold;
use fathom_analysis::fleet::{
    Drawing, FleetSubject, Group, HOSTS_MIN, Judgement, Matrix, OddConduct, OddHost, Strip, strips,
};
use fathom_record::quantity::quantity;
use fathom_record::{Better, Counts, Document, State, Unit};
use serde::Serialize;

use super::{
    FleetRow, FleetView, cases_words, conduct, fact_sides, hardware, is_facts_only, kind,
    not_judged, of_host, of_link, rows, sizes, state_words, uniform_words, word,
};
use crate::case::{counted, named, subject};
use crate::opening::minute;
use crate::page::{json, rounded};
use crate::paint::{BAD, CARE};
use crate::tiles::headlines;

/// Cases drawn beside the headlines: the largest effect of each odd host.
const ODD_CASES: usize = 6;
/// No line of the page is cut.
const VIEW: FleetView = FleetView { line: usize::MAX, all: true };

/// The data of the page.
#[derive(Serialize)]
struct PageFleet<'a> {
    /// The names of the groups and files.
    name: &'a str,
    verdict: String,
    /// `bad`, `care` or `good`.
    tone: &'static str,
    hosts: usize,
    /// Those with several hosts or an odd one.
    groups: Vec<PagePart<'a>>,
    matrices: Vec<Between<'a>>,
}

#[derive(Serialize)]
struct PageContents<'a> {
    fleet: PageFleet<'a>,
}

/// A group of hosts.
#[derive(Serialize)]
struct PagePart<'a> {
    machine: String,
    names: String,
    hosts: &'a [String],
    /// Whether it has enough hosts to judge each other.
    is_judged: bool,
    cases: Option<String>,
    odd: Vec<[String; 6]>,
    facts: Vec<[String; 5]>,
    uniform: Vec<[String; 5]>,
    not_judged: Vec<String>,
    strips: Vec<PageDrawn>,
    /// Of each host: its newest run, start, and records by state.
    runs: Vec<[String; 4]>,
    /// Hosts without a valid number.
    without: String,
}

/// A case with the number of each host, in the order of the hosts.
#[derive(Serialize)]
struct PageDrawn {
    title: String,
    case: String,
    unit: Unit,
    median: f64,
    numbers: Vec<Option<f64>>,
    /// Hosts whose number is noisy.
    noisy: Vec<usize>,
    /// Hosts without a number, and why.
    without: Vec<(usize, &'static str)>,
    /// Odd hosts and their ratio.
    odd: Vec<(usize, f64)>,
    /// The 5th to 95th percentile of published machines, and which they are.
    typical: Option<(f64, f64, String)>,
}

/// A case between hosts.
#[derive(Serialize)]
struct Between<'a> {
    case: String,
    unit: Unit,
    /// Whether a larger number is worse.
    is_lower_better: bool,
    hosts: &'a [String],
    /// The number between two hosts without effects.
    usual: Option<f64>,
    /// From host, to host, and the number.
    numbers: Vec<(usize, usize, f64)>,
    /// Bad hosts, and links as pairs of hosts: what is wrong.
    bad_hosts: Vec<(usize, String)>,
    bad_links: Vec<([usize; 2], String)>,
    not_judged: Vec<String>,
}

/// The data of the page of the hosts of these runs as JSON, with a name.
#[must_use]
pub fn data(name: &str, runs: &[&Document], judgement: &Judgement) -> String {
    let (verdict, style) = VIEW.verdict(judgement);
    let tone = match style {
        BAD => "bad",
        CARE => "care",
        _ => "good",
    };
    let choose = |at: usize, newest: &[&Document]| {
        titled(&judgement.groups[at], newest).into_iter().map(|(_, subject)| subject).collect()
    };
    let drawings = strips(runs, &choose);
    let groups = judgement.groups.iter().zip(&drawings).map(|(group, it)| part(group, it));
    let groups = groups.collect();
    let hosts = judgement.hosts;
    let matrices = judgement.between.iter().map(between).collect();
    json(&PageContents { fleet: PageFleet { name, verdict, tone, hosts, groups, matrices } })
}

/// The cases to draw: the headlines, then the largest effects of odd hosts in single cases.
fn titled(group: &Group, newest: &[&Document]) -> Vec<(String, FleetSubject)> {
    let headline = |(title, metric, params): (&str, _, _)| {
        (title.to_owned(), FleetSubject { metric, params, far: None, cases: None })
    };
    let mut all: Vec<(String, FleetSubject)> =
        headlines(newest).into_iter().map(headline).collect();
    let most = all.len() + ODD_CASES;
    let mut odd: Vec<(f64, &FleetSubject)> = group.odd.iter().filter_map(largest).collect();
    odd.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (_, of_host) in odd {
        if all.len() < most && all.iter().all(|(_, other)| other != of_host) {
            all.push((subject(of_host), of_host.clone()));
        }
    }
    all
}

/// The largest effect of a host in a single case.
fn largest(host: &OddHost) -> Option<(f64, &FleetSubject)> {
    let single = host.numbers.iter().filter(|number| number.subject.cases.is_none());
    let effects = single.map(|number| (number.ratio.ln().abs(), &number.subject));
    effects.max_by(|a, b| a.0.total_cmp(&b.0))
}

fn part<'a>(group: &'a Group, drawing: &Drawing<'_>) -> PagePart<'a> {
    let titles = titled(group, &drawing.runs);
    let run = |((host, run), counts): ((&String, &&Document), &Counts)| {
        [host.clone(), run.run.name(), minute(&run.run.started), state_words(counts, &[])]
    };
    let runs = group.hosts.iter().zip(&drawing.runs).zip(&drawing.counts).map(run);
    let without = group.hosts.iter().zip(&drawing.counts).filter(|(_, counts)| counts.valid == 0);
    let uniform = group.uniform.iter().map(|one| {
        let [ratio, hosts, typical] = uniform_words(one);
        let case = named(&one.metric, &one.params);
        [case, quantity(one.median, one.unit), ratio, hosts, typical]
    });
    PagePart {
        machine: hardware(&group.hardware),
        names: fold(group.hosts.iter().map(String::as_str)),
        hosts: &group.hosts,
        is_judged: group.hosts.len() >= HOSTS_MIN,
        cases: (!is_facts_only([group])).then(|| cases_words(group)),
        odd: group.odd.iter().flat_map(numbers).collect(),
        facts: facts(&group.odd),
        uniform: uniform.collect(),
        not_judged: group.not_judged.iter().map(|it| VIEW.reason(it)).collect(),
        strips: drawing.strips.iter().map(|strip| drawn(strip, group, &titles)).collect(),
        runs: runs.collect(),
        without: fold(without.map(|(host, _)| host.as_str())),
    }
}

/// The odd numbers of a host, of each group of metrics the largest, and how it measures.
fn numbers(host: &OddHost) -> Vec<[String; 6]> {
    let row = |row: &FleetRow<'_>| {
        let first = row.numbers[0];
        let text = |value: Option<f64>| {
            let known = value.zip(first.unit);
            known.map_or_else(String::new, |(value, unit)| quantity(value, unit))
        };
        let mut case = subject(&first.subject);
        if row.more > 0 {
            case += &format!(" and {}", counted(row.more, "more case"));
        }
        let [value, usual] = [first.value, first.usual].map(text);
        [host.host.clone(), case, value, usual, sizes(&row.numbers), word(first.word).to_owned()]
    };
    let measured = |odd: &OddConduct| {
        let none = String::new;
        [host.host.clone(), conduct(odd), none(), none(), none(), kind(odd).to_owned()]
    };
    let numbers = rows(&[host], false);
    numbers.iter().map(row).chain(host.conduct.iter().map(measured)).collect()
}

/// Each odd fact once, with the hosts that have it: fact, hosts, value, usual value, and how many
/// hosts have that.
fn facts(odd: &[OddHost]) -> Vec<[String; 5]> {
    let mut hosts: BTreeMap<[String; 4], Vec<&str>> = BTreeMap::new();
    for host in odd {
        for fact in &host.facts {
            let ([value, usual], on) = (fact_sides(fact), format!("{} of {}", fact.hosts, fact.of));
            hosts.entry([fact.fact.clone(), value, usual, on]).or_default().push(&host.host);
        }
    }
    let row = |([fact, value, usual, on], hosts): ([String; 4], Vec<&str>)| {
        [fact, fold(hosts), value, usual, on]
    };
    hosts.into_iter().map(row).collect()
}

fn drawn(strip: &Strip, group: &Group, titles: &[(String, FleetSubject)]) -> PageDrawn {
    let title = titles.iter().find(|(_, subject)| *subject == strip.subject);
    let odd = group.odd.iter().filter_map(|host| {
        let at = group.hosts.iter().position(|name| *name == host.host)?;
        let number = host.numbers.iter().find(|number| number.subject == strip.subject)?;
        Some((at, rounded(number.ratio)))
    });
    let states = || strip.states.iter().zip(&strip.numbers).enumerate();
    let noisy = |(at, (state, number)): (usize, (&Option<State>, &Option<f64>))| {
        (number.is_some() && *state == Some(State::Noisy)).then_some(at)
    };
    let without = |(at, (state, number)): (usize, (&Option<State>, &Option<f64>))| {
        let why = state.map_or("not measured", State::word);
        number.is_none().then_some((at, why))
    };
    let typical = strip.typical.as_ref();
    PageDrawn {
        title: title.map_or_else(String::new, |(title, _)| title.clone()),
        case: subject(&strip.subject),
        unit: strip.unit,
        median: rounded(strip.median),
        numbers: strip.numbers.iter().map(|number| number.map(rounded)).collect(),
        noisy: states().filter_map(noisy).collect(),
        without: states().filter_map(without).collect(),
        odd: odd.collect(),
        typical: typical.map(|it| (rounded(it.low), rounded(it.high), it.group())),
    }
}

fn between(matrix: &Matrix) -> Between<'_> {
    let Matrix { metric, params, unit, better, hosts, numbers, pairs, .. } = matrix;
    Between {
        case: named(metric, params),
        unit: *unit,
        is_lower_better: *better != Better::Higher,
        hosts,
        usual: pairs.usual.map(rounded),
        numbers: numbers.iter().map(|(from, to, value)| (*from, *to, rounded(*value))).collect(),
        bad_hosts: pairs.bad_hosts.iter().map(|bad| (bad.host, of_host(bad))).collect(),
        bad_links: pairs.bad_links.iter().map(|bad| (bad.hosts, of_link(bad, hosts))).collect(),
        not_judged: not_judged(matrix),
    }
}
