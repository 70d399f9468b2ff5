//! Two groups of hosts side by side: each as a whole, and the hosts that are in both.

use fathom_record::quantity::counted;
use fathom_record::{RunState, State};
use serde::Serialize;

use super::facts::{Facts, dividing};
use super::rows::{AnalysisRow, cases, rows};
use super::series::{FALSE_DISCOVERY_RATE, SeriesSide as Number};
use super::{Fleet, FleetLimits, FleetMember, FleetRuns, FleetSubject, key, names};
use crate::classes::class;
use crate::compare::{
    Compared, Comparison, ComparisonSide, ComparisonWord, NotComparable, Share, of_rows, word_for,
    word_of,
};
use crate::differences::Difference;
use crate::statistics::{
    Ratio, benjamini_hochberg, mann_whitney, median, median_interval, ratio_of_medians, sign_test,
    student_tails,
};

/// Group B compared with group A.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupComparison {
    /// The groups as wholes: the "processes" of its rows are hosts with valid numbers. If hosts are
    /// in both, a ratio is the median over these of B ÷ A on each.
    pub whole: Comparison,
    /// Hosts in both, those that changed most first. Without one, the groups are compared by the
    /// medians of their hosts.
    pub hosts: Vec<HostChange>,
    pub only_a: Vec<String>,
    pub only_b: Vec<String>,
}

/// What changed on a host.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HostChange {
    pub host: String,
    /// Its newest runs in A and B.
    pub runs: [String; 2],
    /// Cases with valid numbers in both.
    pub cases: usize,
    /// Cases that changed by more than 3 % and the noise limit, and by more than its own
    /// uncertainty, allowing for the number of cases; the largest change first.
    pub changed: Vec<CaseChange>,
    /// The median over all cases of how many times slower it is in B.
    pub slower: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CaseChange {
    #[serde(flatten)]
    pub subject: FleetSubject,
    /// B ÷ A.
    pub ratio: f64,
    pub word: ComparisonWord,
}

/// A host by its places among all members: in A and in B.
type Twin = [usize; 2];

/// Compares two groups, which are called `names`.
#[must_use]
pub fn compare_groups(
    (a, b): (&FleetRuns, &FleetRuns),
    names: [&str; 2],
    limits: &FleetLimits,
    seed: u64,
) -> GroupComparison {
    let (in_a, in_b) = (Fleet::from_runs(&a.runs), Fleet::from_runs(&b.runs));
    let all: Vec<&FleetMember<'_>> = in_a.members.iter().chain(&in_b.members).collect();
    let is_in_a = |at: usize| at < in_a.members.len();
    let twin = |at: usize| {
        let other =
            (in_a.members.len()..all.len()).find(|it| key(all[*it].host()) == key(all[at].host()));
        Some([at, other?])
    };
    let twins: Vec<Twin> = (0..in_a.members.len()).filter_map(twin).collect();
    let rows = rows(&cases(&all), limits);
    let (mut compared, mut not_comparable) = (Vec::new(), Vec::new());
    for row in &rows {
        match of_row(row, &twins, &is_in_a, limits, seed) {
            Ok(row) => compared.push(row),
            Err(reason) => not_comparable.push(NotComparable {
                metric: row.subject.metric.clone(),
                params: row.subject.params.clone(),
                reason,
            }),
        }
    }
    let alone = |fleet: &Fleet<'_>, from: usize| -> Vec<String> {
        let is_alone = |at: &usize| !twins.iter().flatten().any(|it| *it == from + at);
        (0..fleet.members.len()).filter(is_alone).map(|at| fleet.members[at].name.clone()).collect()
    };
    let differences = dividing(&facts(&in_b), &facts(&in_a)).into_iter();
    let differences = differences.map(|it| Difference { what: it.fact, a: it.usual, b: it.value });
    let sides = [side(names[0], &in_a), side(names[1], &in_b)];
    GroupComparison {
        whole: of_rows(sides, differences.collect(), (compared, not_comparable), seed),
        hosts: hosts(&rows, &twins, &all),
        only_a: alone(&in_a, 0),
        only_b: alone(&in_b, in_a.members.len()),
    }
}

fn facts<'f>(fleet: &'f Fleet<'_>) -> Vec<&'f Facts> {
    fleet.facts.iter().collect()
}

fn side(name: &str, fleet: &Fleet<'_>) -> ComparisonSide {
    let hosts = fleet.members.len();
    let runs = || fleet.members.iter().flat_map(|member| &member.runs);
    let entries = || fleet.members.iter().flat_map(|member| member.entries());
    let folded = names::fold(fleet.members.iter().map(|member| member.name.as_str()));
    ComparisonSide {
        id: name.to_owned(),
        label: None,
        started: runs().map(|run| run.head.run.started.clone()).max().unwrap_or_default(),
        host: format!("{}: {folded}", counted(hosts, "host")),
        state: RunState::Complete,
        records: entries().count(),
        planned: runs().map(|run| run.head.run.planned).sum(),
        valid: entries().filter(|it| it.state == State::Valid).count(),
        in_part: entries().filter(|it| it.is_cut_short).count(),
        noisy: None,
    }
}

/// A case of both groups; why not, without valid numbers on a side.
fn of_row(
    row: &AnalysisRow<'_>,
    twins: &[Twin],
    is_in_a: &dyn Fn(usize) -> bool,
    limits: &FleetLimits,
    seed: u64,
) -> Result<Compared, String> {
    let pairs = pairs(row, twins);
    let values = |wanted: bool| -> Vec<f64> {
        let all = row.sides.iter().filter(|side| is_in_a(side.member) == wanted);
        all.map(|side| side.ln.exp()).collect()
    };
    let of_pairs = |at: usize| pairs.iter().map(|pair| pair[at].ln.exp()).collect::<Vec<f64>>();
    let (a, b) = match twins.is_empty() {
        true => (values(true), values(false)),
        false => (of_pairs(0), of_pairs(1)),
    };
    if a.is_empty() || b.is_empty() {
        return Err(match (twins.is_empty(), a.is_empty()) {
            (false, _) => "no host has a valid number in both".to_owned(),
            (true, true) => "no valid number in A".to_owned(),
            (true, false) => "no valid number in B".to_owned(),
        });
    }
    let (ratio, p) = match twins.is_empty() {
        true => (ratio_of_medians(&a, &b, seed), mann_whitney(&a, &b).map(|test| test.p)),
        false => of_twins(&pairs, seed).unzip(),
    };
    let first = &row.found[0].entry.case;
    let few = a.len().min(b.len());
    let limit = limits.get(first.metric.as_str()).copied();
    let of = (first.better, first.unit);
    let (word, unchanged_within) = ratio
        .as_ref()
        .map_or((ComparisonWord::Inconclusive, None), |it| word_of(it, few, of, limit));
    Ok(Compared {
        metric: first.metric.clone(),
        params: first.params.clone(),
        unit: first.unit,
        better: first.better,
        class: class(&first.metric, &first.params),
        stratum: row.stratum,
        a: median(&a).unwrap_or(f64::NAN),
        b: median(&b).unwrap_or(f64::NAN),
        runs_a: 1,
        processes_a: a.len(),
        processes_b: b.len(),
        visits_a: 0,
        visits_b: 0,
        noisy_a: false,
        noisy_b: false,
        ratio: ratio.map(|it| it.ratio),
        interval: ratio.map(|it| [it.low, it.high]),
        p,
        p_adjusted: None,
        // Between runs it is in the interval over hosts.
        noise: Some(0.0),
        noise_by: None,
        core: None,
        distances: None,
        on_edge: false,
        unchanged_within,
        word,
        net: None,
        share: Share::default(),
        split: None,
    })
}

/// The numbers of hosts that have a valid one in both.
fn pairs(row: &AnalysisRow<'_>, twins: &[Twin]) -> Vec<[Number; 2]> {
    let of = |member: usize| row.sides.iter().find(|side| side.member == member).copied();
    twins.iter().filter_map(|[a, b]| Some([of(*a)?, of(*b)?])).collect()
}

/// The median over hosts of B ÷ A on each, with the exact interval of a median, and the p of no
/// change. What hosts differ in is not in it. `None` below five hosts.
fn of_twins(pairs: &[[Number; 2]], seed: u64) -> Option<(Ratio, f64)> {
    let effects: Vec<f64> = pairs.iter().map(|[a, b]| b.ln - a.ln).collect();
    let ratios: Vec<f64> = effects.iter().map(|effect| effect.exp()).collect();
    let (ratio, ([low, high], _)) = (median(&ratios)?, median_interval(&ratios)?);
    // Against a number without error: the bootstrap of the median alone.
    let drawn = ratio_of_medians(&vec![1.0; ratios.len()], &ratios, seed)?;
    let ratio = Ratio { ratio, low, high, equivalence: drawn.equivalence };
    Some((ratio, sign_test(&effects).unwrap_or(1.0)))
}

/// Each host in both, those that changed most first: by what surely changed, then by the median
/// over all cases.
fn hosts(rows: &[AnalysisRow<'_>], twins: &[Twin], all: &[&FleetMember<'_>]) -> Vec<HostChange> {
    let mut hosts: Vec<HostChange> =
        twins.iter().map(|[a, b]| host(rows, [*a, *b], [all[*a], all[*b]])).collect();
    let largest = |it: &HostChange| it.changed.first().map_or(0.0, |it| it.ratio.ln().abs());
    let slower = |it: &HostChange| it.slower.map_or(0.0, |it| it.ln().abs());
    hosts.sort_by(|x, y| largest(y).total_cmp(&largest(x)).then(slower(y).total_cmp(&slower(x))));
    hosts
}

fn host(rows: &[AnalysisRow<'_>], twin: Twin, members: [&FleetMember<'_>; 2]) -> HostChange {
    let mut tested: Vec<(CaseChange, f64)> = Vec::new();
    let mut slower = Vec::new();
    for row in rows {
        let Some([a, b]) = pairs(row, &[twin]).pop() else { continue };
        let (effect, own) = (b.ln - a.ln, a.own.hypot(b.own));
        let case = &row.found[0].entry.case;
        slower.extend(case.better.improves(true).map(|up| if up { -effect } else { effect }));
        let is_large = effect.exp_m1().abs() > row.effect_min;
        let freedom = row.processes(twin).saturating_sub(1).max(1) as f64;
        let p = student_tails(effect / own, freedom).filter(|_| is_large).unwrap_or(1.0);
        let word = word_for(effect > 0.0, false, case.better, case.unit);
        tested.push((CaseChange { subject: row.subject.clone(), ratio: effect.exp(), word }, p));
    }
    let cases = tested.len();
    let adjusted = benjamini_hochberg(&tested.iter().map(|(_, p)| *p).collect::<Vec<f64>>());
    let found = tested.into_iter().zip(adjusted).filter(|(_, p)| *p <= FALSE_DISCOVERY_RATE);
    let mut changed: Vec<CaseChange> = found.map(|((case, _), _)| case).collect();
    changed.sort_by(|x, y| y.ratio.ln().abs().total_cmp(&x.ratio.ln().abs()));
    HostChange {
        host: members[1].name.clone(),
        runs: members.map(|member| member.runs[0].head.run.id.clone()),
        cases,
        changed,
        slower: median(&slower).map(f64::exp),
    }
}
