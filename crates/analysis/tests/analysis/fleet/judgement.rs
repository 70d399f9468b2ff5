//! Numbers in which a host differs, and what all hosts have in common.

use std::collections::BTreeMap;

use fathom_analysis::compare::ComparisonWord;
use fathom_analysis::fleet::{FleetLimits, judge};
use fathom_record::{Better, Cause, Document, Prediction, State, Unit, Verdict};

use super::synthetic::{deviation, fleet, group, judged, time};
use crate::decisions::runs::bare;

const METRICS: [&str; 6] = ["os.a", "os.b", "os.c", "os.d", "os.e", "cpu.f"];

/// Hosts within ± 1 % in one case, but for the slow one.
fn one_slow(hosts: usize, times: f64) -> Vec<Document> {
    fleet(hosts, |at| {
        let factor = if at == 2 { times } else { 1.0 };
        vec![time("os.a", 100.0 * factor * (1.0 + 0.01 * deviation(at, hosts)))]
    })
}

#[test]
fn slow_host_is_named_with_its_ratio() {
    let group = group(&one_slow(20, 1.2));
    assert_eq!(group.odd.len(), 1);
    let odd = &group.odd[0];
    assert_eq!((odd.host.as_str(), odd.numbers.len(), odd.facts.len()), ("node3", 1, 0));
    let number = &odd.numbers[0];
    assert_eq!((number.word, number.subject.metric.as_str()), (ComparisonWord::Slower, "os.a"));
    assert!((number.ratio - 1.19).abs() < 0.01 && number.z > 10.0, "{number:?}");
    assert!((number.value.unwrap() / number.usual.unwrap() - number.ratio).abs() < 1e-9);
    assert!(group.not_judged.is_empty());
    // A host that is faster is odd, too.
    let fast = self::group(&one_slow(20, 0.8));
    assert_eq!(fast.odd[0].numbers[0].word, ComparisonWord::Faster);
}

#[test]
fn small_effects_are_not_odd_however_certain() {
    let tight = |times: f64| {
        fleet(20, |at| {
            let factor = if at == 2 { times } else { 1.0 };
            vec![time("os.a", 100.0 * factor * (1.0 + 0.0001 * deviation(at, 20)))]
        })
    };
    assert!(group(&tight(1.025)).odd.is_empty(), "below 3 %");
    assert_eq!(group(&tight(1.035)).odd.len(), 1);
    let limits = FleetLimits::from([("os.a", 0.1)]);
    let odd = |times: f64| {
        let fleet = tight(times);
        judge(&fleet.iter().collect(), &limits).groups[0].odd.len()
    };
    assert_eq!([odd(1.09), odd(1.11)], [0, 1], "below the noise limit of the metric");
}

#[test]
fn uncertain_hosts_are_not_odd() {
    let mut fleet = one_slow(20, 1.2);
    assert_eq!(group(&fleet).odd.len(), 1);
    let summary = fleet[2].records[0].summary.as_mut().unwrap();
    let interval = summary.interval.as_mut().unwrap();
    (interval.low, interval.high) = (100.0, 140.0);
    assert!(group(&fleet).odd.is_empty());
}

#[test]
fn noisy_numbers_neither_judge_nor_are_judged() {
    let mut fleet = one_slow(20, 1.2);
    for host in [2, 4] {
        fleet[host].records[0].verdict = Verdict::because(State::Noisy, Cause::Spread, "wide");
    }
    let judged = group(&fleet);
    assert!(judged.odd.is_empty());
    assert_eq!((judged.cases[0].valid, judged.cases[0].noisy), (18, 2));
    assert_eq!((judged.records.valid, judged.records.noisy), (18, 2));
    fleet[2].records[0].verdict = Verdict::because(State::Invalid, Cause::WrongWork, "wrong");
    assert_eq!(group(&fleet).cases[0].noisy, 1);
}

#[test]
fn fewer_than_five_hosts_are_not_judged() {
    let group_of = |hosts| group(&one_slow(hosts, 3.0));
    let four = group_of(4);
    assert!(four.odd.is_empty() && four.uniform.is_empty());
    assert_eq!(four.not_judged[0].reason, "4 hosts: at least 5 are needed");
    assert_eq!(group_of(6).odd.len(), 1);
    // Five hosts, of which one has no number, are four.
    let mut five = one_slow(5, 3.0);
    assert!(group(&five).not_judged.is_empty());
    five[4].records.clear();
    assert!(group(&five).odd.is_empty());
}

/// In each case hosts differ in another order by ± 2 %, times what `factor` says of a host in a
/// case.
fn of_many_cases(factor: impl Fn(usize, usize) -> f64) -> Vec<Document> {
    fleet(20, |at| {
        let case = |(case, metric): (usize, &&str)| {
            let off = 0.02 * deviation((7 * at + 3 * case * at + case) % 20, 20);
            time(metric, 100.0 * (1.0 + off) * factor(at, case))
        };
        METRICS.iter().enumerate().map(case).collect()
    })
}

#[test]
fn cases_of_one_host_are_one_finding() {
    let group = group(&of_many_cases(|at, _| if at == 2 { 1.06 } else { 1.0 }));
    assert_eq!(group.odd.len(), 1, "{:#?}", group.odd);
    let numbers = &group.odd[0].numbers;
    let together: Vec<_> =
        numbers.iter().map(|it| (it.subject.metric.as_str(), it.subject.cases)).collect();
    assert!(together.contains(&("kernel entry", Some(5))), "{together:?}");
}

#[test]
fn host_that_is_slow_in_all_cases_stands_out_among_many_that_are_in_one() {
    let group = group(&of_many_cases(|at, case| match at {
        2 => 1.06,
        6..14 if at % 5 == case => 1.3,
        _ => 1.0,
    }));
    let odd: Vec<&str> = group.odd.iter().map(|it| it.host.as_str()).collect();
    assert_eq!(odd, ["node3"]);
    assert!(group.odd[0].numbers.iter().all(|it| it.subject.cases >= Some(5)));
    let reason = &group.not_judged[0].reason;
    assert!(reason.contains(" of 20 hosts differ in single cases"), "{reason}");
}

#[test]
fn two_levels_are_not_judged() {
    let mixed = |older: usize, kernel: &str| {
        let mut fleet = fleet(20, |at| {
            let off = 0.003 * deviation((7 * at) % 20, 20);
            vec![time("os.a", 100.0 * (1.0 + off) * if at < older { 1.1 } else { 1.0 })]
        });
        fleet[..older].iter_mut().for_each(|run| run.host.kernel = kernel.to_owned());
        group(&fleet)
    };
    let group = mixed(8, "6.1");
    assert!(group.odd.is_empty());
    let reason = &group.not_judged[0];
    assert!(reason.reason.starts_with("bimodal across 20 hosts (40 % / 60 %, "), "{reason:?}");
    assert_eq!((reason.part.len(), reason.part[7].as_str()), (8, "node8"));
    let causes: Vec<&str> = reason.facts.iter().map(|it| it.fact.as_str()).collect();
    assert_eq!(causes, ["kernel"], "what divides it alike");
    // Fewer than a fifth are odd hosts.
    assert_eq!(mixed(2, "6.1").odd.len(), 2);
}

#[test]
fn many_odd_hosts_are_a_mixture() {
    // Three levels, which are not two.
    let fleet = fleet(30, |at| {
        let level = [1.0, 1.3, 1.7][if at < 18 { 0 } else { 1 + at % 2 }];
        vec![time("os.a", 100.0 * level * (1.0 + 0.002 * deviation(at, 30)))]
    });
    let group = group(&fleet);
    assert!(group.odd.is_empty(), "{:?}", group.odd.len());
    assert!(!group.not_judged.is_empty());
}

#[test]
fn newest_run_of_a_host_counts_and_clones_are_two_hosts() {
    let mut fleet = one_slow(20, 1.2);
    let mut again = fleet[2].clone();
    again.run.id = format!("{:016x}", 99);
    again.records = vec![time("os.a", 100.0)];
    fleet.push(again);
    let judged = group(&fleet);
    assert_eq!((judged.hosts.len(), judged.odd.len()), (20, 0));
    // A case that only the older run has is of the host, too.
    fleet[20].records[0] = time("os.b", 100.0);
    assert_eq!(group(&fleet).odd.len(), 1);
    fleet.truncate(20);
    fleet.iter_mut().for_each(|run| run.host.id = Some("0123456789abcdef".to_owned()));
    assert_eq!(group(&fleet).hosts.len(), 20, "clones share an id");
    assert_eq!(judged.hosts[..3], ["node1", "node2", "node3"]);
    assert_eq!(judged.hosts[19], "node20");
}

#[test]
fn noisy_run_makes_its_host_look_slower_only() {
    let mut fleet = one_slow(20, 1.2);
    fleet[2].run.verdict = Verdict::because(State::Noisy, Cause::Drift, "drifted");
    assert_eq!(group(&fleet).odd[0].numbers[0].word, ComparisonWord::LooksSlower);
}

#[test]
fn group_is_slower_than_predicted_as_a_whole() {
    let slow = |times: f64, prediction: Prediction| {
        let fleet = fleet(20, |at| {
            let mut record = time("os.a", 100.0 * times * (1.0 + 0.01 * deviation(at, 20)));
            record.prediction = Some(prediction.clone());
            vec![record]
        });
        group(&fleet).uniform
    };
    let value = || Prediction::sum(100.0, 0.0, 0.1, "", "");
    let found = slow(1.3, value());
    let missed = found[0].predicted.as_ref().unwrap();
    assert!((missed.ratio - 1.3).abs() < 0.01 && missed.is_value && missed.hosts == 20);
    assert!(slow(1.05, value()).is_empty(), "within");
    assert!(slow(0.7, value()).is_empty(), "faster");
    assert!(slow(1.3, value().self_consistent()).is_empty(), "says nothing of the machine");
    let bound = slow(1.3, Prediction::at_most(100.0, "", ""));
    assert!(!bound[0].predicted.as_ref().unwrap().is_value);
    assert!(slow(1.3, Prediction::at_least(100.0, "", "")).is_empty());
}

#[test]
fn group_is_worse_than_typical_as_a_whole() {
    let at = |ns: f64| {
        let mut fleet = fleet(40, |at| {
            let mut record = time("memory.latency.dram", ns * (1.0 + 0.01 * deviation(at, 40)));
            record.unit = Unit::Nanoseconds;
            record.better = Better::Lower;
            vec![record]
        });
        for run in &mut fleet {
            let cpu = &mut run.host.cpu;
            (cpu.vendor, cpu.family, cpu.model_number) =
                (Some("AuthenticAMD".into()), Some(25), Some(17));
        }
        group(&fleet).uniform
    };
    let slow = at(1_000.0);
    let typical = slow[0].typical.as_ref().unwrap();
    assert_eq!((slow[0].hosts, typical.better), (40, typical.n), "worse than all");
    assert!(at(1.0).is_empty(), "better is not slow");
}

#[test]
fn same_runs_give_the_same_judgement_in_any_order() {
    let fleet = one_slow(20, 1.2);
    let mut turned = fleet.clone();
    turned.reverse();
    let [a, b] = [judged(&fleet), judged(&turned)].map(|it| serde_json::to_string(&it).unwrap());
    assert_eq!(a, b);
    let counts: BTreeMap<&str, usize> = BTreeMap::from([("node3", a.matches("node3").count())]);
    assert_eq!(counts["node3"], 2, "in the list of hosts, and as the odd one");
}

#[test]
fn copies_of_a_recorded_run_are_alike() {
    let copy = |at: usize| Document { records: Document::fixture().records, ..bare(at) };
    let name = |(at, mut run): (usize, Document)| {
        run.host.name = format!("node{at}");
        run
    };
    let fleet: Vec<Document> = (0..8).map(copy).enumerate().map(name).collect();
    let group = group(&fleet);
    assert!(group.odd.is_empty() && group.not_judged.is_empty());
    assert!(group.cases.iter().any(|case| case.valid == 8 && case.spread == Some(0.0)));
}
