//! The two ends: one switch a turn, and an end on every way out.

use std::fs;
use std::os::fd::RawFd;
use std::path::PathBuf;

use super::*;
use crate::os::child::{close_all_but, fork};
use crate::os::link::futex::futexes;
use crate::smoke;

#[test]
fn each_end_is_switched_out_once_a_round_trip() {
    let _alone = smoke::alone();
    let all = |switches: Switches| switches.voluntary + switches.involuntary;
    smoke::pinned(|cpu| {
        for kind in [Kind::Thread, Kind::Process] {
            let pair = Pair::start(kind, 256, cpu).unwrap();
            let before = switches_of_this_thread();
            assert_eq!(pair.round_trips(1000), 1000);
            let own = switches_of_this_thread().since(&before);
            assert!(all(own) >= 1000, "{own:?} in 1000 round trips");
            assert_eq!(pair.alone(1000), 1000);
            let report = pair.finish().unwrap();
            assert_eq!((report.trips, report.wrong), (1000, None));
            let theirs = report.peer_switches[0];
            assert!(all(theirs) >= 1000, "{theirs:?} in 1000 round trips");
        }
    });
    assert!(smoke::has_no_children());
}

#[test]
fn a_dead_end_gives_fewer_round_trips_and_no_report() {
    let _alone = smoke::alone();
    smoke::pinned(|cpu| {
        let pair = Pair::start(Kind::Process, 0, cpu).unwrap();
        assert_eq!(pair.round_trips(3), 3);
        pair.kill_peer();
        assert!(pair.round_trips(5) < 5);
        assert!(matches!(pair.finish(), Err(Fault::WrongWork(_))));
    });
    assert!(smoke::has_no_children());
}

#[test]
fn an_end_on_another_cpu_than_it_was_meant_for_is_found() {
    let _alone = smoke::alone();
    smoke::pinned(|cpu| {
        for kind in [Kind::Thread, Kind::Process] {
            let pair = Pair::start(kind, 0, cpu + 1).unwrap();
            assert_eq!(pair.round_trips(2), 2);
            let wrong = pair.finish().unwrap().wrong.unwrap_or_default();
            assert!(wrong.contains("another CPU"), "{wrong}");
        }
    });
}

#[test]
fn several_ends_can_be_dropped_in_any_order() {
    let _alone = smoke::alone();
    smoke::pinned(|cpu| {
        let start = |kind| Pair::start(kind, 64, cpu).unwrap();
        let kinds = [Kind::Process, Kind::Thread, Kind::Process, Kind::Process];
        let pairs: Vec<Pair> = kinds.into_iter().map(start).collect();
        drop(pairs);
    });
    assert!(smoke::has_no_children());
}

fn others(cpu: u32) -> Others {
    Others { kind: Kind::Process, set_bytes: 64, cpu }
}

#[test]
fn every_end_of_a_ring_has_the_token_once_each_time() {
    let _alone = smoke::alone();
    smoke::pinned(|cpu| {
        let ring = Ring::piped(5, others(cpu)).unwrap();
        assert_eq!((ring.ends(), ring.processes().count()), (5, 4));
        assert_eq!((ring.round_trips(100), ring.alone(100)), (100, 100));
        let report = ring.finish().unwrap();
        assert_eq!((report.trips, report.wrong), (100, None));
        assert_eq!(report.peer_switches.len(), 4);
    });
    assert!(smoke::has_no_children());
}

#[test]
fn one_dead_end_of_a_ring_stops_the_token_and_all_others_leave() {
    let _alone = smoke::alone();
    smoke::pinned(|cpu| {
        let ring = Ring::piped(ENDS_MAX, others(cpu)).unwrap();
        assert_eq!(ring.round_trips(3), 3);
        ring.kill_peer();
        assert!(ring.round_trips(5) < 5);
        assert!(matches!(ring.finish(), Err(Fault::WrongWork(_))));
    });
    assert!(smoke::has_no_children());
}

#[test]
fn a_ring_of_one_and_of_too_many_is_refused() {
    for ends in [0, 1, ENDS_MAX + 1] {
        let fault = Ring::piped(ends, others(0)).err();
        assert!(matches!(fault, Some(Fault::Failed(text)) if text.contains("make no ring")));
    }
}

#[test]
fn an_end_whose_turns_differ_from_the_round_trips_is_found() {
    let _alone = smoke::alone();
    smoke::pinned(|cpu| {
        let ring = Ring::join(futexes().unwrap(), others(cpu)).unwrap();
        assert_eq!(ring.round_trips(10), 10);
        ring.trips.set(11);
        let wrong = ring.finish().unwrap().wrong.unwrap_or_default();
        assert!(wrong.contains("10 turns in 11"), "{wrong}");
    });
}

#[test]
fn a_child_keeps_its_own_descriptors_and_no_others() {
    let _alone = smoke::alone();
    let links = pipes(3).unwrap();
    let kept = links[1].descriptors();
    let open = |descriptor: RawFd| {
        // SAFETY: asks for flags and changes nothing.
        unsafe { libc::fcntl(descriptor, libc::F_GETFD) >= 0 }
    };
    let all: Vec<RawFd> = links.iter().flat_map(Link::descriptors).collect();
    // SAFETY: bare system calls.
    let child = unsafe {
        fork(|| {
            let closed = close_all_but(&kept).is_ok();
            let right = closed && all.iter().all(|one| open(*one) == kept.contains(one));
            i32::from(!(right && !open(0) && !open(2)))
        })
    };
    child.unwrap().wait_for(0).unwrap();
}

#[test]
fn thread_end_has_its_own_descriptors() {
    let _alone = smoke::alone();
    smoke::pinned(|cpu| {
        let pair = Pair::start(Kind::Thread, 0, cpu).unwrap();
        assert_eq!(pair.round_trips(3), 3);
        let tasks = fs::read_dir("/proc/self/task").unwrap();
        let mut tasks = tasks.map(|task| task.unwrap().path());
        let is_end = |task: &PathBuf| {
            fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == "switch")
        };
        let end = tasks.find(is_end).expect("the other end");
        assert_eq!(fs::read_dir(end.join("fd")).unwrap().count(), 2, "it shares the worker's");
    });
}

/// A pipe that changes what passes through it.
struct Garbled(Piped);

impl Link for Garbled {
    fn pass(&self, token: u8) -> bool {
        self.0.pass(token.wrapping_add(1))
    }

    fn take(&self) -> Option<u8> {
        self.0.take()
    }

    fn hang_up(self) {
        self.0.hang_up();
    }

    fn descriptors(&self) -> Vec<RawFd> {
        self.0.descriptors()
    }
}

#[test]
fn a_token_that_comes_back_changed_is_no_round_trip() {
    let _alone = smoke::alone();
    smoke::pinned(|cpu| {
        let links = pipes(2).unwrap().into_iter().map(Garbled).collect();
        let ring = Ring::join(links, others(cpu)).unwrap();
        assert_eq!(ring.round_trips(3), 0);
    });
    assert!(smoke::has_no_children());
}
