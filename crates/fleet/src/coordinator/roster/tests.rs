//! Decisions of a roster, with a time that the test says.

use fathom_far::Token;
use fathom_record::Effort;

use super::*;
use crate::protocol::RunOrder;

const SECOND: u64 = 1_000_000_000;

/// From where all have joined.
const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

fn work(_: usize, place: usize, members: &[Option<Present<'_>>]) -> Option<FleetWork> {
    let metrics = vec![format!("{place} of {}", members.len())];
    Some(FleetWork::Run(RunOrder { metrics, effort: Effort::Quick, only: false }))
}

fn plan(expected: usize) -> CoordinatorPlan<'static> {
    CoordinatorPlan {
        token: Token::new("t"),
        expected,
        join_ns: 60 * SECOND,
        same_host: false,
        together: false,
        at_once: usize::MAX,
        rounds: &|_| 1,
        work: &work,
        clock: || 0,
    }
}

fn join(name: &str, rank: Option<u32>) -> Join {
    let mut host = Host { name: name.to_owned(), ..Host::default() };
    (host.id, host.cpu.logical) = (Some(format!("id of {name}")), 1);
    let named_id = Some(format!("id of the name {name}"));
    Join { rank, node: None, boot_id: format!("boot of {name}"), host, named_id }
}

/// A roster with these members.
fn joined<'p>(plan: &'p CoordinatorPlan<'p>, names: &[&str]) -> Roster<'p> {
    let mut roster = Roster::new(plan);
    for name in names {
        roster.admit(join(name, None), HERE, 0).unwrap();
    }
    roster
}

/// The places of the orders among these messages: `a: 0 of 2`.
fn orders(roster: &Roster<'_>, sent: &[(usize, ToMember)]) -> Vec<String> {
    let place = |(at, message): &(usize, ToMember)| match message {
        ToMember::Order(order) => match &order.work {
            FleetWork::Run(run) => Some(format!("{}: {}", roster.member(*at).name, run.metrics[0])),
            _ => None,
        },
        _ => None,
    };
    sent.iter().filter_map(place).collect()
}

fn finishes(roster: &mut Roster<'_>, at: usize, now_ns: u64) {
    assert_eq!(roster.heard(at, ToCoordinator::Finished, now_ns), Ok(None));
}

#[test]
fn work_begins_with_all_in_the_order_of_ranks() {
    let plan = plan(3);
    let mut roster = Roster::new(&plan);
    roster.admit(join("b", None), HERE, 0).unwrap();
    roster.admit(join("c", Some(1)), HERE, 0).unwrap();
    assert_eq!(roster.advance(0, SECOND), []);
    roster.admit(join("a", Some(0)), HERE, 0).unwrap();
    let sent = roster.advance(0, SECOND);
    assert_eq!(orders(&roster, &sent), ["a: 0 of 3", "c: 1 of 3", "b: 2 of 3"]);
    let refused = roster.admit(join("d", None), HERE, SECOND).unwrap_err();
    assert_eq!(refused, "no more are expected");
}

#[test]
fn those_that_cannot_come_or_are_late_are_not_waited_for() {
    let plan = plan(3);
    let mut roster = joined(&plan, &["a", "b"]);
    assert_eq!(roster.advance(0, 59 * SECOND), []);
    // One cannot come.
    let mut other = joined(&plan, &["a", "b"]);
    let sent = other.advance(1, SECOND);
    assert_eq!(orders(&other, &sent), ["a: 0 of 2", "b: 1 of 2"]);
    // Or the time is over.
    let sent = roster.advance(0, 60 * SECOND);
    assert_eq!(orders(&roster, &sent), ["a: 0 of 2", "b: 1 of 2"]);
    // A late one gets its work, too, unless the others have started together.
    roster.admit(join("c", None), HERE, 61 * SECOND).unwrap();
    let sent = roster.advance(0, 61 * SECOND);
    assert_eq!(orders(&roster, &sent), ["c: 2 of 3"]);
    let together = CoordinatorPlan { together: true, ..self::plan(3) };
    let mut roster = joined(&together, &["a"]);
    assert_eq!(roster.advance(2, SECOND).len(), 1);
    assert_eq!(roster.admit(join("c", None), HERE, SECOND).unwrap_err(), "the others have begun");
}

#[test]
fn at_most_so_many_measure_at_once() {
    let plan = CoordinatorPlan { at_once: 2, ..plan(4) };
    let mut roster = joined(&plan, &["a", "b", "c", "d"]);
    assert_eq!(roster.advance(0, 1).len(), 2);
    assert_eq!(roster.advance(0, 2), []);
    // A member that has measured makes room before it delivers; a lost one, too.
    finishes(&mut roster, 0, 3);
    let sent = roster.advance(0, 3);
    assert_eq!(orders(&roster, &sent), ["c: 2 of 4"]);
    assert!(sent.contains(&(0, ToMember::Deliver)));
    assert!(roster.lose(1, "gone"));
    let sent = roster.advance(0, 4);
    assert_eq!(orders(&roster, &sent), ["d: 3 of 4"]);
    assert_eq!(roster.counts().measuring, 2);
}

#[test]
fn eight_deliver_at_a_time() {
    let plan = plan(20);
    let mut roster = Roster::new(&plan);
    for at in 0..20 {
        roster.admit(join(&format!("n{at}"), None), HERE, 0).unwrap();
    }
    roster.advance(0, 1);
    (0..20).for_each(|at| finishes(&mut roster, at, 2));
    let granted = |sent: &[(usize, ToMember)]| {
        assert!(sent.iter().all(|(_, message)| *message == ToMember::Deliver));
        sent.len()
    };
    assert_eq!(granted(&roster.advance(0, 3)), DELIVER_AT_ONCE);
    roster.delivered(0, 4);
    roster.lose(1, "gone");
    assert_eq!(granted(&roster.advance(0, 4)), 2);
    assert!(!roster.is_over());
}

#[test]
fn clones_are_named_and_other_hosts_keep_their_ids() {
    let plan = plan(4);
    let mut roster = Roster::new(&plan);
    for name in ["a", "b", "c", "d"] {
        let mut join = join(name, None);
        match name {
            "c" => {}
            // The coordinator knows a host with its own id.
            "d" => join.host.id.clone_from(&join.named_id),
            _ => join.host.id = Some("id of an image".to_owned()),
        }
        roster.admit(join, HERE, 0).unwrap();
    }
    let sent = roster.advance(0, 1);
    let by_name = sent.iter().map(|(_, message)| match message {
        ToMember::Order(order) => order.by_name,
        other => panic!("{other:?}"),
    });
    assert_eq!(by_name.collect::<Vec<bool>>(), [true, true, false, true]);
    let ids = (0..4).map(|at| roster.member(at).host.identity().to_owned());
    let expected = ["id of the name a", "id of the name b", "id of c", "id of the name d"];
    assert_eq!(ids.collect::<Vec<String>>(), expected);
}

#[test]
fn each_stage_has_a_limit() {
    let plan = plan(2);
    let mut roster = joined(&plan, &["a", "b"]);
    roster.advance(0, 0);
    let alive = |roster: &mut Roster<'_>, at: usize, now_ns: u64| {
        let alive = ToCoordinator::Alive { progress: None };
        assert_eq!(roster.heard(at, alive, now_ns), Ok(Some(ToMember::Alive)));
    };
    // Alive, but it never ends.
    alive(&mut roster, 0, WORK_NS);
    alive(&mut roster, 1, WORK_NS - 1);
    let late = roster.overdue(WORK_NS);
    assert_eq!(late[0], (0, "not finished within 21600 s".to_owned()));
    finishes(&mut roster, 1, WORK_NS);
    roster.advance(0, WORK_NS);
    let now_ns = WORK_NS + DELIVERY_NS;
    roster.hears_bytes(1, now_ns);
    assert_eq!(roster.overdue(now_ns)[1], (1, "its run not delivered within 120 s".to_owned()));
    roster.delivered(1, now_ns);
    assert!(!roster.lose(1, "connection closed"), "it has delivered");
    assert!(roster.lose(0, "late") && roster.is_over());
    let (ended, _) = roster.ended();
    assert_eq!(ended[0].lost.as_deref(), Some("late"));
    assert_eq!(ended[1].lost, None);
}

#[test]
fn facts_need_no_order() {
    let plan = CoordinatorPlan { work: &|_, _, _| Some(FleetWork::Facts), ..plan(2) };
    let mut roster = joined(&plan, &["a", "b"]);
    let end = ToMember::End { reason: None };
    assert_eq!(roster.advance(0, 1), [(0, end.clone()), (1, end)]);
    assert!(roster.is_over());
    assert_eq!(roster.counts().delivered, 2);
}
