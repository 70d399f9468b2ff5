//! Two groups of hosts side by side.

use fathom_analysis::compare::ComparisonWord;
use fathom_analysis::fleet::{FleetLimits, GroupComparison, compare_groups};
use fathom_record::{Cause, Document, State, Verdict};

use super::synthetic::{deviation, fleet, time};

/// Hosts that differ by ± 5 %; in B all are `all` times slower in one of two cases, and the third
/// `one` times.
fn group(hosts: usize, [all, one]: [f64; 2]) -> Vec<Document> {
    fleet(hosts, |at| {
        let host = 1.0 + 0.05 * deviation(at, hosts);
        let own = 1.0 + 0.001 * deviation((5 * at) % hosts, hosts);
        let factor = all * if at == 2 { one } else { 1.0 };
        vec![time("os.a", 100.0 * host * own * factor), time("os.b", 50.0 * host)]
    })
}

fn compared(a: &[Document], b: &[Document]) -> GroupComparison {
    let [a, b] = [a, b].map(|runs| runs.iter().collect());
    compare_groups((&a, &b), ["before", "after"], &FleetLimits::default(), 1)
}

#[test]
fn small_change_of_all_hosts_is_found_by_pairs() {
    let (a, b) = (group(20, [1.0, 1.0]), group(20, [1.03, 1.2]));
    let found = compared(&a, &b);
    let row = &found.whole.rows[0];
    // 3 % less than hosts differ by.
    assert_eq!((row.metric.as_str(), row.word), ("os.a", ComparisonWord::Slower));
    let [low, high] = row.interval.unwrap();
    assert!((row.ratio.unwrap() - 1.03).abs() < 0.002 && low > 1.02 && high < 1.04, "{row:?}");
    assert_eq!((row.processes_a, row.processes_b), (20, 20));
    assert_eq!(found.whole.rows[1].word, ComparisonWord::Unchanged);
    assert_eq!(found.whole.a.host, "20 hosts: node[1-20]");
    // The host that changed most, by its own uncertainty.
    let first = &found.hosts[0];
    assert_eq!((first.host.as_str(), first.cases, first.changed.len()), ("node3", 2, 1));
    assert!((first.changed[0].ratio - 1.236).abs() < 0.01, "{first:?}");
    assert!(found.hosts[1..].iter().all(|host| host.changed.len() <= 1));
}

#[test]
fn hosts_in_one_group_only_are_named() {
    let (a, mut b) = (group(12, [1.0, 1.0]), group(12, [1.0, 1.0]));
    b.remove(11);
    b[0].host.name = "new1".to_owned();
    let found = compared(&a, &b);
    assert_eq!(
        (found.only_a, found.only_b),
        (vec!["node1".into(), "node12".into()], vec!["new1".into()])
    );
    assert_eq!(found.hosts.len(), 10);
    assert!(found.whole.rows.iter().all(|row| row.word == ComparisonWord::Unchanged));
}

#[test]
fn other_hosts_are_compared_by_the_medians() {
    let (a, mut b) = (group(20, [1.0, 1.0]), group(20, [1.3, 1.0]));
    b.iter_mut().for_each(|run| run.host.name.insert_str(0, "new-"));
    let found = compared(&a, &b);
    assert!(found.hosts.is_empty());
    let row = &found.whole.rows[0];
    assert_eq!(row.word, ComparisonWord::Slower);
    assert!((row.ratio.unwrap() - 1.3).abs() < 0.01);
    let [low, high] = row.interval.unwrap();
    assert!(high - low > 0.02, "hosts differ: {low} {high}");
}

#[test]
fn invalid_numbers_and_few_hosts_prove_nothing() {
    let (a, mut b) = (group(4, [1.0, 1.0]), group(4, [1.3, 1.0]));
    let found = compared(&a, &b);
    assert!(
        found
            .whole
            .rows
            .iter()
            .all(|row| row.word == ComparisonWord::Inconclusive && row.ratio.is_none())
    );
    for record in b.iter_mut().flat_map(|run| &mut run.records) {
        record.verdict = Verdict::because(State::Invalid, Cause::WrongWork, "wrong");
    }
    let found = compared(&a, &b);
    assert!(found.whole.rows.is_empty());
    assert_eq!(found.whole.not_comparable[0].reason, "no host has a valid number in both");
}

#[test]
fn fact_that_most_hosts_changed_is_named() {
    let (a, mut b) = (group(12, [1.0, 1.0]), group(12, [1.0, 1.0]));
    b[1..].iter_mut().for_each(|run| run.host.kernel = "6.99".to_owned());
    let differences = compared(&a, &b).whole.differences;
    assert_eq!((differences.len(), differences[0].what.as_str()), (1, "kernel"));
    assert_eq!(differences[0].b, "6.99");
}
