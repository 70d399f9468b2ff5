//! One host beside the stored runs of its group.

use fathom_analysis::fleet::{FleetLimits, FleetRuns, HostAnswer, HostJudgement, judge_host};
use fathom_record::{Cause, Document, FarHost, State, Verdict};

use super::synthetic::{deviation, fleet, group, time};
use crate::decisions::runs::bare;

fn checked(fleet: &[Document], at: usize) -> HostJudgement {
    judge_host(&fleet[at], &fleet.iter().collect(), &FleetLimits::default())
}

/// Twelve hosts within ± 1 % in two cases, but for the third in one of them.
fn one_slow(times: f64) -> Vec<Document> {
    fleet(12, |at| {
        let factor = if at == 2 { times } else { 1.0 };
        let off = 1.0 + 0.01 * deviation(at, 12);
        vec![time("os.a", 100.0 * factor * off), time("os.b", 50.0 * off)]
    })
}

#[test]
fn slow_host_is_odd_and_others_are_not() {
    let fleet = one_slow(1.2);
    let slow = checked(&fleet, 2);
    assert_eq!((slow.answer(), slow.hosts), (HostAnswer::Odd, 12));
    assert_eq!((slow.cases, slow.judged, slow.odd.host.as_str()), (2, 2, "node3"));
    let numbers = &slow.odd.numbers;
    assert_eq!((numbers.len(), numbers[0].subject.metric.as_str()), (1, "os.a"));
    // The same number as among all hosts.
    let among_all = &group(&fleet).odd[0].numbers[0];
    assert_eq!((numbers[0].z, numbers[0].ratio), (among_all.z, among_all.ratio));
    let healthy = checked(&fleet, 7);
    assert_eq!((healthy.answer(), healthy.odd.numbers.len()), (HostAnswer::Usual, 0));
    assert_eq!(checked(&one_slow(0.8), 2).answer(), HostAnswer::Differs, "faster is not sick");
}

#[test]
fn odd_fact_alone_is_no_odd_number() {
    let mut fleet = one_slow(1.0);
    fleet[4].host.kernel = "5.4".to_owned();
    let found = checked(&fleet, 4);
    assert_eq!((found.answer(), found.odd.facts[0].fact.as_str()), (HostAnswer::Differs, "kernel"));
    assert_eq!(checked(&fleet, 5).answer(), HostAnswer::Usual);
}

#[test]
fn older_run_of_the_host_is_not_its_peer() {
    let mut fleet = one_slow(1.2);
    // Stored runs in which it was as the others do not speak for it, whatever their ids.
    for at in 20..40 {
        let mut before = one_slow(1.0).remove(2);
        before.run.id = format!("{at:016x}");
        fleet.push(before);
    }
    let found = checked(&fleet, 2);
    assert_eq!((found.answer(), found.hosts), (HostAnswer::Odd, 12));
    // A run that is in no stored group is judged as well.
    let run = fleet[2].clone();
    fleet.retain(|other| other.host.name != "node3");
    let group: FleetRuns = fleet.iter().collect();
    assert_eq!(judge_host(&run, &group, &FleetLimits::default()), found);
}

#[test]
fn few_hosts_of_the_hardware_are_unknown() {
    let mut fleet = one_slow(1.2);
    fleet.truncate(4);
    let four = checked(&fleet, 2);
    assert_eq!((four.answer(), four.hosts), (HostAnswer::Unknown, 4));
    assert_eq!(four.not_judged[0].reason, "4 hosts: at least 5 are needed");
    let mut other = one_slow(1.2);
    other[2].host.cpu.model = "Another CPU".to_owned();
    assert_eq!(checked(&other, 2).hosts, 1);
    // No case in common.
    let mut apart = one_slow(1.2);
    apart[2].records = vec![time("os.c", 1.0)];
    assert_eq!(checked(&apart, 2).answer(), HostAnswer::Unknown);
}

#[test]
fn noisy_host_is_undecided() {
    let mut fleet = one_slow(1.0);
    let noisy = || Verdict::because(State::Noisy, Cause::Spread, "wide");
    fleet[2].records[0].verdict = noisy();
    let half = checked(&fleet, 2);
    assert_eq!((half.answer(), half.cases, half.judged), (HostAnswer::Usual, 2, 1));
    fleet[2].records[1].verdict = noisy();
    assert_eq!(checked(&fleet, 2).answer(), HostAnswer::Undecided);
}

#[test]
fn mixture_decides_nothing() {
    // Three levels, which are not two.
    let fleet = fleet(30, |at| {
        let level = [1.0, 1.3, 1.7][if at < 18 { 0 } else { 1 + at % 2 }];
        vec![time("os.a", 100.0 * level * (1.0 + 0.002 * deviation(at, 30)))]
    });
    assert_eq!(checked(&fleet, 29).answer(), HostAnswer::Undecided);
}

#[test]
fn numbers_to_two_far_hosts_are_two_cases() {
    let far = |run: &mut Document, id: &str| {
        let mut host = bare(99).host;
        (host.name, host.id) = ("server".to_owned(), Some(id.repeat(32)));
        run.far = vec![FarHost { name: "server".to_owned(), host, clock: None }];
        run.records.iter_mut().for_each(|record| {
            record.params = fathom_record::Params::one("to", "server");
        });
    };
    let mut fleet = one_slow(1.0);
    fleet.iter_mut().for_each(|run| far(run, "a"));
    assert_eq!(group(&fleet).cases.len(), 2);
    // Three hosts measured another server of this name, which is twice as far.
    for run in &mut fleet[..3] {
        far(run, "b");
        for record in &mut run.records {
            *record = fathom_record::Record {
                params: record.params.clone(),
                ..time(record.metric.as_str(), 250.0)
            };
        }
    }
    let group = group(&fleet);
    assert!(group.odd.is_empty(), "{:?}", group.odd);
    let cases: Vec<_> = group.cases.iter().map(|case| (case.valid, case.far.as_deref())).collect();
    let [a, b] = ["server (aaaaaaaa)", "server (bbbbbbbb)"].map(Some);
    assert_eq!(cases, [(9, a), (3, b), (9, a), (3, b)]);
}
