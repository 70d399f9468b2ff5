//! Many hosts: how often the odd one is found, healthy ones are named, and a mixture is not judged;
//! and links between hosts.

use std::collections::BTreeSet;

use fathom_analysis::fleet::pairs::{self, Directed};
use fathom_analysis::fleet::{FleetLimits, FleetRuns, Judgement, judge, judge_host, tournament};
use fathom_analysis::statistics::{median, median_interval};
use fathom_record::{Basis, Better, Document, Interval, MetricId, Params, Record, Summary, Unit};

use crate::chance::ChanceRate;
use crate::experiment::Experiment;
use crate::many::run_of;
use crate::section::{Section, percent};
use crate::{Source, Trials};

/// Cases of a run and processes of a case, as in a run of some metrics.
const CASES: usize = 40;
const PROCESSES: usize = 9;
/// One deviation of a process.
const PROCESS: f64 = 0.01;
/// The same on a core that others use: intervals are ± 6 % in the median.
const SHARED: f64 = 0.065;
/// What makes a host slow.
const SLOW: f64 = 1.05;
/// The same of one resource.
const SLOW_CLASS: f64 = 1.1;
/// Metrics of two cases each: four of each resource.
#[rustfmt::skip]
const METRICS: [&str; CASES / 2] = [
    "cpu.call", "cpu.clock.read", "cpu.loop.iteration", "os.vdso.clock_gettime",
    "os.syscall", "os.select", "os.poll", "os.epoll",
    "memory.latency", "memory.bandwidth", "memory.latency.l2", "memory.latency.dram",
    "os.process.fork", "os.process.spawn", "os.thread.create", "os.process.shell",
    "network.tcp.rtt", "network.udp.rtt", "network.tcp.connect", "network.tcp.bandwidth",
];
/// Cases of one resource.
const OF_CLASS: usize = 8;
/// The share of a process's variance that both cases of a metric have: they are one visit.
const OF_VISIT: f64 = 0.7;
/// How much healthy hosts differ.
#[derive(Clone, Copy)]
enum FleetSpread {
    /// In each case by this much.
    Each(f64),
    /// By 0.5 % to 3 %, by the case.
    Mixed,
}

/// What is wrong with the first hosts of a fleet.
#[derive(Clone, Copy, PartialEq)]
enum Wrong {
    Nothing,
    /// One is slow in so many cases.
    Slow(usize),
    /// One is 10 % slower in the cases of a resource.
    SlowClass,
    /// So many are of a generation that is this much slower.
    Older(usize, f64),
    /// The same, and the last one is many times slower than all.
    OlderAndOne(usize, f64),
}

/// How many times slower that one is.
const EXTREME: f64 = 8.0;

struct FleetWorld {
    name: &'static str,
    hosts: usize,
    spread: FleetSpread,
    /// The share of the variance between hosts that is the same in all cases.
    common: f64,
    /// Degrees of freedom of the deviations of hosts; 0 for normal ones.
    freedom: u32,
    /// The deviation of a process.
    process: f64,
    /// Whether cases are of several metrics and resources.
    has_classes: bool,
    wrong: Wrong,
    /// Least shares of fleets in which it is found, and in which no healthy host is named.
    found: f64,
    healthy: f64,
}

const BASE: FleetWorld = FleetWorld {
    name: "",
    hosts: 50,
    spread: FleetSpread::Mixed,
    common: 0.0,
    freedom: 0,
    process: PROCESS,
    has_classes: false,
    wrong: Wrong::Slow(CASES),
    found: 0.9,
    healthy: 0.95,
};

#[rustfmt::skip]
const ONE: [FleetWorld; 15] = [
    FleetWorld { name: "0.5 %", spread: FleetSpread::Each(0.005), ..BASE },
    FleetWorld { name: "1 %", spread: FleetSpread::Each(0.01), ..BASE },
    FleetWorld { name: "2 %", spread: FleetSpread::Each(0.02), ..BASE },
    FleetWorld { name: "3 %", spread: FleetSpread::Each(0.03), ..BASE },
    FleetWorld { name: "0.5 % to 3 % by the case", ..BASE },
    FleetWorld { name: "the same, half of it in all cases", common: 0.5, ..BASE },
    FleetWorld { name: "the same, all of it in all cases", common: 1.0, ..BASE },
    FleetWorld { name: "3 %, all of it in all cases", spread: FleetSpread::Each(0.03), common: 1.0,
        found: 0.0, ..BASE },
    FleetWorld { name: "0.5 % to 3 % by the case, heavy tails", freedom: 3, healthy: 0.0, ..BASE },
    FleetWorld { name: "0.5 %, slow in one case", spread: FleetSpread::Each(0.005),
        wrong: Wrong::Slow(1), found: 0.0, ..BASE },
    FleetWorld { name: "1 %, slow in one case", spread: FleetSpread::Each(0.01),
        wrong: Wrong::Slow(1), found: 0.0, ..BASE },
    FleetWorld { name: "none slow", wrong: Wrong::Nothing, found: 0.0, ..BASE },
    FleetWorld { name: "none slow of 20", hosts: 20, wrong: Wrong::Nothing, found: 0.0, ..BASE },
    FleetWorld { name: "none slow of 5", hosts: 5, wrong: Wrong::Nothing, found: 0.0, ..BASE },
    FleetWorld { name: "one slow of 8", hosts: 8, found: 0.0, ..BASE },
];

/// Hosts whose cores are shared.
const ON_SHARED: FleetWorld = FleetWorld {
    process: SHARED,
    has_classes: true,
    spread: FleetSpread::Each(0.01),
    common: 0.25,
    ..BASE
};

#[rustfmt::skip]
const SHARED_CORES: [FleetWorld; 9] = [
    FleetWorld { name: "8, none slow", hosts: 8, wrong: Wrong::Nothing, found: 0.0, ..ON_SHARED },
    FleetWorld { name: "8, one 5 % slower", hosts: 8, ..ON_SHARED },
    FleetWorld { name: "8, one 10 % slower in a resource", hosts: 8, wrong: Wrong::SlowClass,
        ..ON_SHARED },
    FleetWorld { name: "20, none slow", hosts: 20, wrong: Wrong::Nothing, found: 0.0, ..ON_SHARED },
    FleetWorld { name: "20, one 5 % slower", hosts: 20, ..ON_SHARED },
    FleetWorld { name: "20, one 10 % slower in a resource", hosts: 20, wrong: Wrong::SlowClass,
        ..ON_SHARED },
    FleetWorld { name: "50, none slow", wrong: Wrong::Nothing, found: 0.0, ..ON_SHARED },
    FleetWorld { name: "50, one 5 % slower", ..ON_SHARED },
    FleetWorld { name: "50, one 10 % slower in a resource", wrong: Wrong::SlowClass, ..ON_SHARED },
];

#[rustfmt::skip]
const MIXED: [FleetWorld; 8] = [
    FleetWorld { name: "25 of 50", wrong: Wrong::Older(25, 1.1), ..BASE },
    FleetWorld { name: "20 of 50", wrong: Wrong::Older(20, 1.1), ..BASE },
    FleetWorld { name: "10 of 50", wrong: Wrong::Older(10, 1.1), ..BASE },
    FleetWorld { name: "4 of 10", hosts: 10, wrong: Wrong::Older(4, 1.1), ..BASE },
    FleetWorld { name: "15 of 50, 5 % apart", wrong: Wrong::Older(15, 1.05), ..BASE },
    FleetWorld { name: "15 of 50, half of the spread in all cases", wrong: Wrong::Older(15, 1.1),
        common: 0.5, ..BASE },
    FleetWorld { name: "20 of 50, and one 8 times slower", wrong: Wrong::OlderAndOne(20, 1.1),
        ..BASE },
    FleetWorld { name: "4 of 10, and one 8 times slower", hosts: 10,
        wrong: Wrong::OlderAndOne(4, 1.1), ..BASE },
];

/// Two hosts of each fleet are checked against the others: the slow one, and a healthy one.
#[rustfmt::skip]
const CHECKED: [FleetWorld; 7] = [
    FleetWorld { name: "0.5 %", spread: FleetSpread::Each(0.005), ..BASE },
    FleetWorld { name: "1 %", spread: FleetSpread::Each(0.01), ..BASE },
    FleetWorld { name: "2 %", spread: FleetSpread::Each(0.02), ..BASE },
    FleetWorld { name: "3 %", spread: FleetSpread::Each(0.03), ..BASE },
    FleetWorld { name: "0.5 % to 3 % by the case", ..BASE },
    FleetWorld { name: "the same, 20 hosts", hosts: 20, ..BASE },
    FleetWorld { name: "the same, half of it in all cases", common: 0.5, ..BASE },
];

impl FleetWorld {
    fn has_slow(&self) -> bool {
        matches!(self.wrong, Wrong::Slow(_) | Wrong::SlowClass)
    }

    fn fleet(&self, source: &mut Source) -> Vec<Document> {
        let deviation = |source: &mut Source| match self.freedom {
            0 => source.normal(),
            freedom => source.student(freedom) / f64::from(freedom).sqrt(),
        };
        let spreads: Vec<f64> = (0..CASES)
            .map(|_| match self.spread {
                FleetSpread::Each(spread) => spread,
                FleetSpread::Mixed => 0.005 * 6_f64.powf(source.uniform()),
            })
            .collect();
        (0..self.hosts)
            .map(|host| {
                let of_host = deviation(source);
                let mut visit = [0.0; PROCESSES];
                let case = |(case, spread): (usize, &f64)| {
                    let own = deviation(source);
                    let off = self.common.sqrt() * of_host + (1.0 - self.common).sqrt() * own;
                    let factor = match self.wrong {
                        Wrong::Slow(cases) if host == 0 && case < cases => SLOW,
                        Wrong::SlowClass if host == 0 && case < OF_CLASS => SLOW_CLASS,
                        Wrong::OlderAndOne(..) if host + 1 == self.hosts => EXTREME,
                        Wrong::Older(hosts, slower) | Wrong::OlderAndOne(hosts, slower)
                            if host < hosts =>
                        {
                            slower
                        }
                        _ => 1.0,
                    };
                    if case.is_multiple_of(2) {
                        visit = std::array::from_fn(|_| source.normal());
                    }
                    self.record(case, 100.0 * factor * (spread * off).exp(), &visit, source)
                };
                let records = spreads.iter().enumerate().map(case).collect();
                let mut run = run_of(records, host as u64);
                run.host.name = format!("node{host}");
                run
            })
            .collect()
    }

    fn record(&self, case: usize, level: f64, visit: &[f64], source: &mut Source) -> Record {
        let id = if self.has_classes { METRICS[case / 2] } else { "os.case" };
        let (metric, params) = (MetricId::new(id), Params::one("case", case as i64));
        let of_visit: f64 = if self.has_classes { OF_VISIT } else { 0.0 };
        let mut process = |shared: &f64| {
            let off = of_visit.sqrt() * shared + (1.0 - of_visit).sqrt() * source.normal();
            level * (self.process * off).exp()
        };
        let process_medians: Vec<f64> = visit.iter().map(&mut process).collect();
        let interval = median_interval(&process_medians);
        Record {
            summary: Some(Summary {
                median: median(&process_medians).unwrap_or(f64::NAN),
                interval: interval.map(|(limits, at)| Interval::new(limits, at, Basis::Processes)),
                process_medians,
                ..Summary::default()
            }),
            ..Record::new(metric, params, "", Unit::Nanoseconds, Better::Lower)
        }
    }
}

/// Counts fleets in which the slow host is named; in which no other host is; and of which all cases
/// together are not judged, and nobody is named.
fn judge_fleet(
    world: &FleetWorld,
    source: &mut Source,
    [found, healthy, abstained]: &mut [ChanceRate; 3],
) {
    let fleet = world.fleet(source);
    let Judgement { groups, .. } = judge(&fleet.iter().collect(), &FleetLimits::default());
    let odd: Vec<&str> = groups.iter().flat_map(|it| &it.odd).map(|it| it.host.as_str()).collect();
    let is_slow = |host: &&str| world.has_slow() && *host == "node0";
    found.count(odd.iter().any(is_slow));
    healthy.count(odd.iter().all(is_slow));
    let reasons = groups.iter().flat_map(|it| &it.not_judged);
    let is_whole = |cases: Option<usize>| cases.is_none_or(|cases| cases == CASES);
    let mut subjects = reasons.map(|it| it.subject.as_ref().and_then(|one| one.cases));
    abstained.count(odd.is_empty() && subjects.any(is_whole));
}

/// Counts checks in which the slow host, and a healthy one, is named.
fn check_hosts(world: &FleetWorld, source: &mut Source, named: &mut [ChanceRate; 2]) {
    let fleet = world.fleet(source);
    let group: FleetRuns = fleet.iter().collect();
    for (host, rate) in fleet.iter().zip(named) {
        rate.count(!judge_host(host, &group, &FleetLimits::default()).odd.numbers.is_empty());
    }
}

/// A network of hosts with something wrong.
struct Network {
    name: &'static str,
    hosts: usize,
    /// Of the link between hosts 1 and 2, each way.
    link: [f64; 2],
    /// Of host 0, each way.
    host: f64,
    /// The share of pairs that are missing.
    missing: f64,
    /// The share of numbers that are noisy: by 10 %, with intervals that say so.
    noisy: f64,
    /// Whether the fault must be found.
    found: bool,
}

/// Deviations of hosts, of links, and of a measurement.
const HOST: f64 = 0.02;
const LINK: f64 = 0.01;
const OWN: f64 = 0.005;
const NOISY: f64 = 0.1;

const HEALTHY: Network = Network {
    name: "healthy",
    hosts: 50,
    link: [1.0; 2],
    host: 1.0,
    missing: 0.0,
    noisy: 0.0,
    found: false,
};

#[rustfmt::skip]
const NETWORKS: [Network; 14] = [
    HEALTHY,
    Network { name: "healthy, 8 hosts", hosts: 8, ..HEALTHY },
    Network { name: "healthy, 6 hosts", hosts: 6, ..HEALTHY },
    Network { name: "healthy, 6 hosts, a tenth of pairs missing", hosts: 6, missing: 0.1,
        ..HEALTHY },
    Network { name: "healthy, 6 hosts, 40 % of numbers noisy", hosts: 6, noisy: 0.4, ..HEALTHY },
    Network { name: "a link at a third, 6 hosts, 40 % of numbers noisy", hosts: 6, link: [3.3; 2],
        noisy: 0.4, found: true, ..HEALTHY },
    Network { name: "healthy, 200 hosts, 63 rounds", hosts: 200, ..HEALTHY },
    Network { name: "a link 10 % slower", link: [1.1; 2], found: true, ..HEALTHY },
    Network { name: "a link 10 % slower one way", link: [1.1, 1.0], found: true, ..HEALTHY },
    Network { name: "a link 10 % slower, a third of pairs missing", link: [1.1; 2],
        missing: 0.33, found: true, ..HEALTHY },
    Network { name: "a host 15 % slower", host: 1.15, found: true, ..HEALTHY },
    Network { name: "a host 30 % slower, 6 hosts, a tenth of pairs missing", hosts: 6, host: 1.3,
        missing: 0.1, found: true, ..HEALTHY },
    Network { name: "a host 15 % and a link 10 % slower", host: 1.15, link: [1.1; 2],
        found: true, ..HEALTHY },
    Network { name: "a link 30 % slower, 8 hosts", hosts: 8, link: [1.3; 2], found: true,
        ..HEALTHY },
];

impl Network {
    /// A link, and a host.
    fn has_bad(&self) -> (bool, bool) {
        (self.link != [1.0; 2], self.host != 1.0)
    }

    fn measured(&self, source: &mut Source) -> Vec<Directed> {
        let mut normal = |spread: f64| spread * source.normal();
        let mut effects = || (0..self.hosts).map(|_| normal(HOST)).collect::<Vec<f64>>();
        let (sends, receives) = (effects(), effects());
        let rounds = tournament(self.hosts, source.bits());
        let mut numbers = Vec::new();
        for [a, b] in rounds.into_iter().flat_map(|round| round.pairs) {
            // Both ways of a link are alike.
            let link = LINK * source.normal();
            let is_missing = source.uniform() < self.missing && !is_link(a, b);
            for (from, to) in [(a, b), (b, a)].into_iter().filter(|_| !is_missing) {
                let own = if source.uniform() < self.noisy { NOISY } else { OWN };
                let off = sends[from] + receives[to] + link + own * source.normal();
                let of_host = if from == 0 || to == 0 { self.host } else { 1.0 };
                let of_link =
                    if is_link(from, to) { self.link[usize::from(from > to)] } else { 1.0 };
                let value = 1e4 * off.exp() * of_host * of_link;
                numbers.extend(Directed::new(from, to, value, own));
            }
        }
        numbers
    }
}

fn is_link(a: usize, b: usize) -> bool {
    [a.min(b), a.max(b)] == [1, 2]
}

/// Counts networks in which the bad link, and the bad host, is named; and in which no other link,
/// and no other host, is.
fn judge_links(
    network: &Network,
    source: &mut Source,
    [link, host, other_links, other_hosts]: &mut [ChanceRate; 4],
) {
    let numbers = network.measured(source);
    let found = pairs::judge(network.hosts, &numbers, Better::Lower);
    let links: BTreeSet<[usize; 2]> = found.bad_links.iter().map(|it| it.hosts).collect();
    let hosts: BTreeSet<usize> = found.bad_hosts.iter().map(|it| it.host).collect();
    let (has_bad_link, has_bad_host) = network.has_bad();
    link.count(has_bad_link && links.contains(&[1, 2]));
    host.count(has_bad_host && hosts.contains(&0));
    other_links.count(links.iter().all(|it| has_bad_link && *it == [1, 2]));
    other_hosts.count(hosts.iter().all(|it| has_bad_host && *it == 0));
}

const WORDS: &str = "\
`fathom fleet` of 50 hosts with 40 cases each, of 9 processes that differ by 1 %. Healthy hosts
differ by the spread in the first column, in each case anew. One host is 5 % slower in all cases.
*Found*: fleets in which it is named. *No healthy host*: fleets in which no other one is. A host
that is slow in one case of forty is mostly found where hosts differ by a tenth of that. What makes
hosts differ in all cases alike hides what is slow in all. With heavy tails (Student's t with 3
degrees of freedom) healthy hosts do differ in single cases. All in per cent.";

const SHARED_WORDS: &str = "\
The same where cores are shared: processes differ by 6.5 %, so that intervals are ± 6 % in the
median. 40 cases are of 20 metrics, whose two cases are one visit, and of 5 resources. Healthy hosts
differ by 1 % in each case, with a quarter of the variance in all alike. One host is 5 % slower in
all cases, or 10 % in the 8 of a resource.";

const GENERATIONS: &str = "\
Two generations of hosts in one group, 10 % apart in all cases, with the spread of 0.5 % to 3 % by
the case, and no fact that distinguishes them; in two of them one host is slower than all. *Not
judged*: fleets of which it is said that they are bimodal or differ, and in which nobody is named.";

const CHECKS: &str = "\
`fathom check --against` of one host, by the stored runs of a group of 50, of which one is 5 %
slower in all cases. *Slow found*: checks of that one in which it is named. *Healthy named*: checks
of another one.";

const PAIRS: &str = "\
Numbers between two hosts, each way, of a tournament. Hosts differ by 2 %, links by 1 %, and
measurements by 0.5 %. *Link*, *host*: the bad one is named. *No other link*, *no other host*: only
that is.";

pub(crate) fn section(trials: Trials) -> Section {
    let mut section = Section::new("Many hosts", WORDS);
    let name = |world: &FleetWorld, (): &()| format!("fleet {}", world.name);
    let title = |world: &FleetWorld| world.name.to_owned();
    one_slow(&mut section, ("spread of healthy hosts", &ONE), trials);
    section.paragraph(SHARED_WORDS);
    one_slow(&mut section, ("hosts on shared cores", &SHARED_CORES), trials);
    section.paragraph(CHECKS);
    Experiment {
        rows: &CHECKED,
        columns: &[()],
        name: |world, ()| format!("check {}", world.name),
        trial: |world, (), source, counts| check_hosts(world, source, counts),
        check: |section, world, (), &[slow_found, healthy_named]| {
            section.at_least(slow_found, 0.9, &format!("check of a slow host, {}", world.name));
            let what = format!("check of a healthy host, {}", world.name);
            section.at_most(healthy_named, 0.05, &what);
        },
        head: "spread of healthy hosts",
        title,
        heads: |()| "slow found | healthy named".to_owned(),
        cells: |_, (), rates| rates.map(|rate| percent(rate.share())).join(" | "),
    }
    .run(&mut section, trials);
    section.paragraph(GENERATIONS);
    Experiment {
        rows: &MIXED,
        columns: &[()],
        name,
        trial: |world, (), source, counts| judge_fleet(world, source, counts),
        check: |section, world, (), &[_, _, abstained]| {
            let what = format!("two generations not judged, {}", world.name);
            section.at_least(abstained, 0.95, &what);
        },
        head: "hosts of another generation",
        title,
        heads: |()| "not judged".to_owned(),
        cells: |_, (), &[_, _, abstained]| percent(abstained.share()),
    }
    .run(&mut section, trials);
    section.paragraph(PAIRS);
    links(&mut section, trials);
    section
}

/// Fleets in which one host may be slow.
fn one_slow(
    section: &mut Section,
    (head, rows): (&'static str, &'static [FleetWorld]),
    trials: Trials,
) {
    Experiment {
        rows,
        columns: &[()],
        name: |world, ()| format!("fleet {}", world.name),
        trial: |world, (), source, counts| judge_fleet(world, source, counts),
        check: |section, world, (), &[found, healthy, _]| {
            section.at_least(found, world.found, &format!("odd host found, {}", world.name));
            let what = format!("no healthy host named, {}", world.name);
            section.at_least(healthy, world.healthy, &what);
        },
        head,
        title: |world| world.name.to_owned(),
        heads: |()| "found | no healthy host".to_owned(),
        cells: |world, (), &[found, healthy, _]| {
            let found = shown(world.has_slow(), found);
            format!("{found} | {}", percent(healthy.share()))
        },
    }
    .run(section, trials);
}

fn links(section: &mut Section, trials: Trials) {
    Experiment {
        rows: &NETWORKS,
        columns: &[()],
        name: |network, ()| format!("network {}", network.name),
        trial: |network, (), source, counts| judge_links(network, source, counts),
        check: |section, network, (), &[link, host, other_links, other_hosts]| {
            let mut named = |is: bool, rate: ChanceRate, what: &str| {
                if is {
                    section.at_least(rate, 0.95, &format!("{what}, {}", network.name));
                }
            };
            let (has_bad_link, has_bad_host) = network.has_bad();
            named(has_bad_link && network.found, link, "bad link named");
            named(has_bad_host && network.found, host, "bad host named");
            named(true, other_links, "no other link");
            named(true, other_hosts, "no other host");
        },
        head: "network",
        title: |network| network.name.to_owned(),
        heads: |()| "link | host | no other link | no other host".to_owned(),
        cells: |network, (), &[link, host, other_links, other_hosts]| {
            let (has_bad_link, has_bad_host) = network.has_bad();
            [
                shown(has_bad_link, link),
                shown(has_bad_host, host),
                shown(true, other_links),
                shown(true, other_hosts),
            ]
            .join(" | ")
        },
    }
    .run(section, trials);
}

fn shown(is: bool, rate: ChanceRate) -> String {
    if is { percent(rate.share()) } else { String::new() }
}
