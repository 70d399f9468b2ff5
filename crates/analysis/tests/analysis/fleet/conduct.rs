//! Hosts that fail, are noisy or slow where their peers are not.

use fathom_analysis::fleet::{FleetRuns, HostAnswer, OddConduct, judge_host};
use fathom_record::{Cause, Document, State, Verdict};

use super::synthetic::{fleet, group, time};

/// Eight hosts with ten cases, with the state that `state` gives for a host and a case.
fn hosts(state: impl Fn(usize, usize) -> State) -> Vec<Document> {
    fleet(8, |at| {
        let case = |case: usize| {
            let mut record = time(&format!("os.case{case}"), 100.0);
            if state(at, case) != State::Valid {
                record.verdict = Verdict::because(state(at, case), Cause::TimedOut, "why");
            }
            record
        };
        (0..10).map(case).collect()
    })
}

fn odd(fleet: &[Document]) -> Vec<(String, Vec<OddConduct>)> {
    group(fleet).odd.into_iter().map(|odd| (odd.host, odd.conduct)).collect()
}

#[test]
fn host_whose_cases_fail_alone_is_odd() {
    for state in [State::Failed, State::Invalid, State::Unavailable] {
        let fleet = hosts(|at, case| if at == 2 && case < 3 { state } else { State::Valid });
        let [(host, conduct)] = &odd(&fleet)[..] else { panic!("one odd host") };
        let [OddConduct::Cases { state: found, cases, cause, first }] = &conduct[..] else {
            panic!("{conduct:?}")
        };
        assert_eq!((host.as_str(), *found, *cases), ("node3", state, 3));
        assert_eq!((*cause, first.metric.as_str()), (Some(Cause::TimedOut), "os.case0"));
        let all: FleetRuns = fleet.iter().collect();
        let answer = |at: usize| judge_host(&fleet[at], &all, &Default::default()).answer();
        let expected =
            if state == State::Unavailable { HostAnswer::Differs } else { HostAnswer::Odd };
        assert_eq!([answer(2), answer(3)], [expected, HostAnswer::Usual]);
    }
}

#[test]
fn what_fails_on_several_hosts_is_not_odd() {
    let two = hosts(|at, case| if at < 2 && case < 3 { State::Failed } else { State::Valid });
    assert_eq!(odd(&two).len(), 2, "six of seven others have a number");
    let three = hosts(|at, case| if at < 3 && case < 3 { State::Failed } else { State::Valid });
    assert!(odd(&three).is_empty());
    let mut few = hosts(|at, _| if at == 2 { State::Failed } else { State::Valid });
    few.truncate(4);
    assert!(odd(&few).is_empty(), "four hosts do not judge each other");
    // An interrupted run, and what follows a case that failed, say nothing of the host.
    let mut ended = hosts(|_, _| State::Valid);
    for (case, cause) in [(0, Cause::Interrupted), (1, Cause::MissingInput)] {
        ended[2].records[case].verdict = Verdict::because(State::Unavailable, cause, "why");
    }
    assert!(odd(&ended).is_empty());
}

#[test]
fn noisy_host_among_quiet_ones_is_odd() {
    let noisy = |cases: usize, others: usize| {
        hosts(move |at, case| {
            let most = if at == 2 { cases } else { others };
            if (case + at) % 10 < most { State::Noisy } else { State::Valid }
        })
    };
    let found = odd(&noisy(8, 1));
    let [(host, conduct)] = &found[..] else { panic!("{found:?}") };
    assert_eq!(host, "node3");
    assert!(matches!(conduct[..], [OddConduct::Noisy { cases: 8, of: 10, .. }]), "{conduct:?}");
    assert!(odd(&noisy(8, 7)).is_empty(), "all are noisy");
    assert!(odd(&noisy(4, 0)).is_empty(), "four cases are few");
}

#[test]
fn host_that_is_slow_to_answer_is_odd() {
    let timed = |slow: f64| {
        let mut fleet = hosts(|_, _| State::Valid);
        for (at, run) in fleet.iter_mut().enumerate() {
            let seconds = if at == 2 { slow } else { 60.0 + at as f64 / 10.0 };
            run.run.duration_ns = Some(seconds * 1e9);
        }
        fleet
    };
    let found = odd(&timed(120.0));
    let [(host, conduct)] = &found[..] else { panic!("{found:?}") };
    let [OddConduct::Slow { ns, usual_ns }] = &conduct[..] else { panic!("{conduct:?}") };
    assert_eq!((host.as_str(), (ns / 1e9).round()), ("node3", 120.0));
    assert!((60.0..61.0).contains(&(usual_ns / 1e9)));
    assert!(odd(&timed(70.0)).is_empty(), "17 % longer");
    assert!(odd(&timed(20.0)).is_empty(), "faster");
    // Another number of cases takes another time.
    let mut other = timed(120.0);
    other[2].run.planned = 99;
    assert!(odd(&other).is_empty());
}
