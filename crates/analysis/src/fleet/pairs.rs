//! Numbers between two hosts, each way: what is the hosts' and what is the link's.
//!
//! The logarithm of a number is a sum: of what is common, of the host that sends, of the host that
//! receives, and of the link between them. Medians of rows and columns find the terms (median
//! polish: Tukey, Exploratory Data Analysis, 1977), so that a slow host is blamed once and not with
//! each of its links, and a bad link blames no host. Pairs can be missing.

use std::collections::BTreeSet;

use fathom_record::{Better, Protocol, Record, State};
use serde::Serialize;

use super::series::{SeriesSide, Test, are_many, bimodal, discoveries, logarithm, tests};
use crate::statistics::{median, qn};

/// Smaller effects are not odd.
const EFFECT_MIN: f64 = 0.03;
/// Fewer hosts are not divided.
const HOSTS_MIN: usize = 6;
/// With fewer links a host's effect is not apart from theirs: the median of three bears a bad one.
const LINKS_MIN: usize = 3;
/// What makes a number noisy disturbs its processes alike, so that they show it only in part.
const NOISY_WIDER: f64 = 2.0;
/// Median polish is near its end after two or three sweeps.
const SWEEPS_MAX: usize = 30;
const CHANGE_MIN: f64 = 1e-9;
/// The standard error of a median ÷ that of a mean, of normal values.
const MEDIAN_ERROR: f64 = 1.2533;

/// The number from one host to another, by index.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Directed {
    pub from: usize,
    pub to: usize,
    /// Its logarithm.
    ln: f64,
    /// The standard error of the logarithm.
    own: f64,
    /// Whether the number is noisy.
    pub is_noisy: bool,
}

impl Directed {
    /// A positive number with the standard error of its logarithm; `None` for one that is not.
    pub fn new(from: usize, to: usize, value: f64, own: f64) -> Option<Self> {
        let ln = value.ln();
        let is_number = from != to && ln.is_finite() && own.is_finite();
        is_number.then_some(Self { from, to, ln, own, is_noisy: false })
    }

    pub fn value(&self) -> f64 {
        self.ln.exp()
    }

    /// The number of a record: a noisy one is less certain.
    pub fn between(from: usize, to: usize, record: &Record) -> Option<Self> {
        let summary = record.summary.as_ref().filter(|_| record.verdict.shows_number())?;
        let value = record.number(Protocol::Median)?;
        let (_, own) = logarithm(value, summary.interval, &summary.process_medians)?;
        let is_noisy = record.verdict.state == State::Noisy;
        let own = if is_noisy { NOISY_WIDER * own } else { own };
        Some(Self { is_noisy, ..Self::new(from, to, value, own)? })
    }

    /// The number between two others.
    pub(super) fn with_ends(self, from: usize, to: usize) -> Self {
        Self { from, to, ..self }
    }

    /// Whether it says more of its link than another number.
    pub(super) fn is_better(&self, other: &Self) -> bool {
        (self.is_noisy, self.own) < (other.is_noisy, other.own)
    }
}

/// Hosts and links apart.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pairs {
    pub hosts: usize,
    /// Pairs with a number in at least one direction.
    pub links: usize,
    /// The number between two hosts without effects.
    pub usual: Option<f64>,
    /// Worse hosts, the worst first.
    pub bad_hosts: Vec<BadHost>,
    /// Worse links, the worst first.
    pub bad_links: Vec<BadLink>,
    /// Why hosts or links were not judged.
    pub not_judged: Vec<String>,
    /// Hosts with too few links to be judged, by index.
    pub few_links: Vec<usize>,
}

/// A host whose links are worse than those of others.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BadHost {
    pub host: usize,
    /// Its numbers ÷ the usual ones where it sends, if they are worse.
    pub sends: Option<f64>,
    /// The same where it receives.
    pub receives: Option<f64>,
}

/// A link that is worse than both its hosts explain.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BadLink {
    /// The hosts, in ascending order.
    pub hosts: [usize; 2],
    /// Its number from the first to the second ÷ what both hosts explain, if it is worse.
    pub there: Option<f64>,
    /// The same from the second to the first.
    pub back: Option<f64>,
}

/// The terms of the logarithms.
struct Terms {
    common: f64,
    /// Of each host, where it sends and where it receives.
    of_hosts: [Vec<f64>; 2],
    /// What remains of each number.
    rest: Vec<f64>,
}

/// Takes hosts and links apart. The spread of a host's links shows the noise of the network, so the
/// noise limit of the metric, which is that of a busy CPU, is no least effect.
///
/// # Panics
/// With an index of no host.
#[must_use]
pub fn judge(hosts: usize, numbers: &[Directed], better: Better) -> Pairs {
    let mut pairs = Pairs {
        hosts,
        links: links(numbers).len(),
        usual: None,
        bad_hosts: Vec::new(),
        bad_links: Vec::new(),
        not_judged: Vec::new(),
        few_links: Vec::new(),
    };
    let numbers = enough(hosts, numbers, &mut pairs.few_links);
    let known = hosts - pairs.few_links.len();
    if known < HOSTS_MIN {
        let have = format!("{known} of {hosts} hosts have at least {LINKS_MIN} links each way");
        pairs.not_judged.push(format!("{have}: at least {HOSTS_MIN} are needed"));
        return pairs;
    }
    let terms = polish(hosts, &numbers);
    pairs.usual = Some(terms.common.exp());
    let worse = Worse { better };
    let judged: Vec<usize> = (0..hosts).filter(|it| !pairs.few_links.contains(it)).collect();
    let mut unless_many = |why: String| pairs.not_judged.push(why);
    let bad = bad_hosts(&terms, &numbers, &judged, &worse);
    pairs.bad_hosts = bad.map_err(&mut unless_many).unwrap_or_default();
    let links = bad_links(&terms, &numbers, &judged, &worse);
    pairs.bad_links = links.map_err(unless_many).unwrap_or_default();
    pairs
}

fn links(numbers: &[Directed]) -> Vec<[usize; 2]> {
    let links: BTreeSet<[usize; 2]> = numbers.iter().map(link).collect();
    links.into_iter().collect()
}

fn link(one: &Directed) -> [usize; 2] {
    [one.from.min(one.to), one.from.max(one.to)]
}

/// Without the numbers of hosts that have too few, and so on until all others have enough.
fn enough(hosts: usize, numbers: &[Directed], few: &mut Vec<usize>) -> Vec<Directed> {
    let mut kept = numbers.to_vec();
    loop {
        let mut counts = vec![[0; 2]; hosts];
        for one in &kept {
            counts[one.from][0] += 1;
            counts[one.to][1] += 1;
        }
        let is_few = |host: &usize| counts[*host].iter().any(|count| *count < LINKS_MIN);
        let all: Vec<usize> = (0..hosts).filter(is_few).collect();
        if all.len() == few.len() {
            return kept;
        }
        *few = all;
        kept.retain(|one| !few.contains(&one.from) && !few.contains(&one.to));
    }
}

/// The host that sends, and the one that receives.
const WAYS: [fn(&Directed) -> usize; 2] = [|one| one.from, |one| one.to];

fn by_host(
    hosts: usize,
    numbers: &[Directed],
    rest: &[f64],
    host_of: fn(&Directed) -> usize,
) -> Vec<Vec<f64>> {
    let mut by_host: Vec<Vec<f64>> = vec![Vec::new(); hosts];
    for (one, residual) in numbers.iter().zip(rest) {
        by_host[host_of(one)].push(*residual);
    }
    by_host
}

fn polish(hosts: usize, numbers: &[Directed]) -> Terms {
    let mut terms = Terms {
        common: 0.0,
        of_hosts: [vec![0.0; hosts], vec![0.0; hosts]],
        rest: numbers.iter().map(|one| one.ln).collect(),
    };
    for _ in 0..SWEEPS_MAX {
        let mut change = 0.0_f64;
        for (effects, host_of) in terms.of_hosts.iter_mut().zip(WAYS) {
            let by_host = by_host(hosts, numbers, &terms.rest, host_of);
            let steps: Vec<Option<f64>> = by_host.iter().map(|rest| median(rest)).collect();
            let step = |host: usize| steps[host].unwrap_or(0.0);
            for (one, rest) in numbers.iter().zip(&mut terms.rest) {
                *rest -= step(host_of(one));
            }
            effects.iter_mut().enumerate().for_each(|(host, effect)| *effect += step(host));
            change = (0..hosts).map(|host| step(host).abs()).fold(change, f64::max);
            // Hosts without numbers have no effect.
            let known = |host: &usize| steps[*host].is_some();
            let of_known: Vec<f64> = (0..hosts).filter(known).map(|host| effects[host]).collect();
            let centre = median(&of_known).unwrap_or(0.0);
            (0..hosts).filter(known).for_each(|host| effects[host] -= centre);
            terms.common += centre;
        }
        if change < CHANGE_MIN {
            break;
        }
    }
    terms
}

/// The standard error of the effect of each host, from those of its numbers.
fn errors(hosts: usize, numbers: &[Directed], host_of: fn(&Directed) -> usize) -> Vec<f64> {
    let own: Vec<f64> = numbers.iter().map(|one| one.own).collect();
    let of_host = |own: &Vec<f64>| {
        MEDIAN_ERROR * median(own).unwrap_or(0.0) / (own.len().max(1) as f64).sqrt()
    };
    by_host(hosts, numbers, &own, host_of).iter().map(of_host).collect()
}

/// A host is judged by what it sends and what it receives.
fn bad_hosts(
    terms: &Terms,
    numbers: &[Directed],
    judged: &[usize],
    worse: &Worse,
) -> Result<Vec<BadHost>, String> {
    let mut all = Vec::new();
    for (way, (effects, host_of)) in terms.of_hosts.iter().zip(WAYS).enumerate() {
        let by_host = by_host(effects.len(), numbers, &terms.rest, host_of);
        let errors = errors(effects.len(), numbers, host_of);
        let side = |(member, host): (usize, &usize)| {
            let rest = &by_host[*host];
            let own = MEDIAN_ERROR * qn(rest).unwrap_or(0.0) / (rest.len() as f64).sqrt();
            SeriesSide { member, ln: effects[*host], own: own.hypot(errors[*host]) }
        };
        let sides: Vec<SeriesSide> = judged.iter().enumerate().map(side).collect();
        if let Some(found) = bimodal(&sides, EFFECT_MIN) {
            let way = ["sending", "receiving"][way];
            return Err(format!("{way}: {}", found.words(sides.len(), "hosts")));
        }
        all.extend(tests(way, (&sides, &sides), EFFECT_MIN, [sides.len(), 0], None));
    }
    let found = worse.named(&all, judged.len(), "hosts")?;
    let bad =
        |(at, [sends, receives]): (usize, Ways)| BadHost { host: judged[at], sends, receives };
    Ok(found.into_iter().map(bad).collect())
}

/// A link is judged by what remains of it both ways, as certain as it and the effects of its hosts.
fn bad_links(
    terms: &Terms,
    numbers: &[Directed],
    judged: &[usize],
    worse: &Worse,
) -> Result<Vec<BadLink>, String> {
    let links = links(numbers);
    let [sends, receives] = WAYS.map(|way| errors(terms.of_hosts[0].len(), numbers, way));
    let side = |(one, rest): (&Directed, &f64)| {
        let member = links.binary_search(&link(one)).ok()?;
        let own = one.own.hypot(sends[one.from]).hypot(receives[one.to]);
        Some(SeriesSide { member, ln: *rest, own })
    };
    let sides: Vec<SeriesSide> = numbers.iter().zip(&terms.rest).filter_map(side).collect();
    if let Some(found) = bimodal(&sides, EFFECT_MIN) {
        return Err(format!("links: {}", found.words(sides.len(), "numbers")));
    }
    // Both ways are mostly alike: as many as there are links are independent, of which each host
    // took one. They are two tests of a link.
    let mut all = tests(0, (&sides, &sides), EFFECT_MIN, [links.len(), judged.len()], None);
    for (test, one) in all.iter_mut().zip(numbers) {
        test.series = usize::from(one.from > one.to);
    }
    let found = worse.named(&all, links.len(), "links")?;
    let bad = |(at, [there, back]): (usize, Ways)| BadLink { hosts: links[at], there, back };
    Ok(found.into_iter().map(bad).collect())
}

/// The ratio of each way that is bad.
type Ways = [Option<f64>; 2];

/// Which effects are bad.
struct Worse {
    better: Better,
}

impl Worse {
    fn is(&self, (test, _): &(Test, f64)) -> bool {
        self.better.improves(test.effect > 0.0) != Some(true)
    }

    /// Bad members with their ratios by series, the worst first.
    fn named(
        &self,
        all: &[Test],
        members: usize,
        what: &str,
    ) -> Result<Vec<(usize, Ways)>, String> {
        let mut found = discoveries(all, members);
        found.iter_mut().for_each(|(_, tests)| tests.retain(|test| self.is(test)));
        found.retain(|(_, tests)| !tests.is_empty());
        if are_many(found.len(), members) {
            return Err(format!("{} of {members} {what} differ: more than a quarter", found.len()));
        }
        // The tests of a member begin with its largest effect.
        let worst = |(_, tests): &(usize, Vec<(Test, f64)>)| tests[0].0.effect.abs();
        found.sort_by(|a, b| worst(b).total_cmp(&worst(a)));
        let ratio = |tests: &[(Test, f64)], way| {
            tests.iter().find(|(test, _)| test.series == way).map(|(test, _)| test.effect.exp())
        };
        let ratios = |tests: &[(Test, f64)]| [ratio(tests, 0), ratio(tests, 1)];
        Ok(found.iter().map(|(member, tests)| (*member, ratios(tests))).collect())
    }
}
