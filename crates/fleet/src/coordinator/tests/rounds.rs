//! Members that stay for several rounds: far ends first, then a pair each way.

use super::*;
use crate::protocol::{FleetProgress, PairOrder};

/// The first round starts far ends. Then each of the first two measures to the other, and the third
/// one waits.
fn work(round: usize, place: usize, members: &[Option<Present<'_>>]) -> Option<FleetWork> {
    if round == 0 {
        return Some(FleetWork::Serve);
    }
    let Present { name, serves } = members[[1, 0][round - 1]]?;
    let pair = || Some(PairOrder { run: run(), to: serves?, name: name.to_owned() });
    (place == round - 1).then(pair)?.map(FleetWork::Pair)
}

fn of_rounds(expected: usize, clock: fn() -> u64) -> (SocketAddr, JoinHandle<CoordinatorEnded>) {
    coordinator_of((expected, false, clock), |_| 3, work)
}

/// On one machine, as their connections over loopback show.
fn joined(address: SocketAddr, name: &str) -> CoordinatorScripted {
    CoordinatorScripted::joined_as(address, &join_on(name, "one boot".to_owned()))
}

impl CoordinatorScripted {
    fn serves(&mut self, port: u16) {
        let ToMember::Order(order) = self.hears() else { panic!("no order") };
        assert_eq!(order.work, FleetWork::Serve);
        self.says(&ToCoordinator::Serving { port });
    }

    /// Where it is to measure to, and whom.
    fn pair(&mut self) -> (SocketAddr, String) {
        let ToMember::Order(order) = self.hears() else { panic!("no order") };
        let FleetWork::Pair(PairOrder { to, name, .. }) = order.work else { panic!("no pair") };
        (to, name)
    }

    /// It is still there: the answer to a sign of life comes next.
    fn is_idle(&mut self) {
        self.says(&ToCoordinator::Alive { progress: Some(FleetProgress::default()) });
        assert_eq!(self.hears(), ToMember::Alive);
    }
}

#[test]
fn next_round_begins_when_all_have_done_the_last() {
    let (address, coordinator) = of_rounds(3, monotonic_raw_ns);
    let [mut a, mut b, mut c] = ["a", "b", "c"].map(|name| joined(address, name));
    c.serves(40_003);
    a.serves(40_001);
    // The far end of one is missing.
    a.is_idle();
    b.serves(40_002);
    assert_eq!(a.pair(), (([127, 0, 0, 1], 40_002).into(), "b".to_owned()));
    b.is_idle();
    a.delivers(b"there");
    assert_eq!(b.pair(), (([127, 0, 0, 1], 40_001).into(), "a".to_owned()));
    // It has delivered in this tournament, and still serves.
    a.is_idle();
    c.is_idle();
    b.delivers(b"back");
    for mut member in [a, b, c] {
        assert_eq!(member.refused(), "");
    }
    let (outcome, events) = coordinator.join().unwrap();
    assert_eq!(events[3..], ["delivered a to b: there", "delivered b to a: back"]);
    assert!(outcome.members.iter().all(|it| it.lost.is_none()) && outcome.failures.is_empty());
}

#[test]
fn pair_that_fails_loses_nobody() {
    let (address, coordinator) = of_rounds(2, monotonic_raw_ns);
    let [mut a, mut b] = ["a", "b"].map(|name| joined(address, name));
    a.serves(40_001);
    b.serves(40_002);
    a.pair();
    a.says(&ToCoordinator::Failed { text: "connection\u{1b} refused".to_owned() });
    b.pair();
    b.delivers(b"back");
    assert_eq!([a.refused(), b.refused()], ["", ""]);
    let (outcome, events) = coordinator.join().unwrap();
    assert_eq!(events[2..], ["delivered b to a: back"]);
    assert!(outcome.members.iter().all(|it| it.lost.is_none()));
    let reason = "connection refused".to_owned();
    assert_eq!(outcome.failures, [Failure { round: 1, place: 0, reason }]);
}

#[test]
fn lost_member_leaves_its_later_pairs_out() {
    let (address, coordinator) = of_rounds(3, monotonic_raw_ns);
    let [mut a, mut b, mut c] = ["a", "b", "c"].map(|name| joined(address, name));
    for (member, port) in [(&mut a, 40_001), (&mut b, 40_002), (&mut c, 40_003)] {
        member.serves(port);
    }
    a.pair();
    // In a round in which it has nothing to do.
    drop(b);
    a.delivers(b"there");
    // Nobody has work in the last round: it is over at once.
    assert_eq!([a.refused(), c.refused()], ["", ""]);
    let (outcome, events) = coordinator.join().unwrap();
    assert_eq!(events[3..], ["lost b: connection closed", "delivered a to b: there"]);
    let lost: Vec<bool> = outcome.members.iter().map(|it| it.lost.is_some()).collect();
    assert_eq!(lost, [false, true, false]);
}

#[test]
fn wrong_far_ends_lose_their_members() {
    type Case = (&'static str, fn(&mut CoordinatorScripted));
    let cases: [Case; 4] = [
        // It serves already.
        ("a message out of turn: serving", |it| {
            it.says(&ToCoordinator::Serving { port: 40_000 });
            it.says(&ToCoordinator::Serving { port: 40_000 });
        }),
        ("a message out of turn: serving", |it| it.says(&ToCoordinator::Serving { port: 80 })),
        ("a message out of turn: finished", |it| it.says(&ToCoordinator::Finished)),
        ("no such address", |it| {
            it.says(&ToCoordinator::Failed { text: "no such address".to_owned() });
        }),
    ];
    let (address, coordinator) = of_rounds(cases.len(), monotonic_raw_ns);
    let mut members: Vec<CoordinatorScripted> =
        (0..cases.len()).map(|at| joined(address, &format!("m{at}"))).collect();
    for (member, (why, wrong)) in members.iter_mut().zip(cases) {
        wrong(member.ordered());
        assert_eq!(member.refused(), why);
    }
    let (outcome, _) = coordinator.join().unwrap();
    assert!(outcome.members.iter().all(|it| it.lost.is_some()));
}

#[test]
fn loopback_of_another_machine_is_no_far_end() {
    let (address, coordinator) = of_rounds(2, monotonic_raw_ns);
    // Through a tunnel: their connections come over loopback, but they are two machines.
    let [mut a, mut b] = ["a", "b"].map(|name| CoordinatorScripted::joined(address, name));
    for member in [&mut a, &mut b] {
        member.ordered().says(&ToCoordinator::Serving { port: 40_000 });
        assert!(member.refused().starts_with("others cannot reach it: its connection comes over"));
    }
    assert!(coordinator.join().unwrap().0.members.iter().all(|it| it.lost.is_some()));
}

#[test]
fn idle_member_that_is_silent_is_lost() {
    static LATER_NS: AtomicU64 = AtomicU64::new(0);
    let clock = || monotonic_raw_ns() + LATER_NS.load(Ordering::Relaxed);
    let (address, coordinator) = of_rounds(3, clock);
    let [mut a, mut b, mut silent] = ["a", "b", "c"].map(|name| joined(address, name));
    for (member, port) in [(&mut a, 40_001), (&mut b, 40_002), (&mut silent, 40_003)] {
        member.serves(port);
    }
    a.pair();
    for _ in 0..2 {
        LATER_NS.fetch_add(20_000_000_000, Ordering::Relaxed);
        a.is_idle();
        b.is_idle();
    }
    assert_eq!(silent.refused(), "no sign of life for 30 s");
    a.delivers(b"there");
    b.pair();
    b.delivers(b"back");
    assert_eq!([a.refused(), b.refused()], ["", ""]);
    let lost = coordinator.join().unwrap().0.members.pop().unwrap().lost;
    assert_eq!(lost.as_deref(), Some("no sign of life for 30 s"));
}
