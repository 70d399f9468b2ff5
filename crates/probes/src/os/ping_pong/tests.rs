use std::fs;
use std::os::fd::RawFd;
use std::path::PathBuf;

use super::*;
use crate::os::child::{close_all_but, fork};
use crate::os::link::futex::futexes;
use crate::smoke;

fn pair(kind: PeerKind, cpu: u32) -> Ring<Piped> {
    Ring::piped(2, PeerOptions { kind, set_bytes: 256, cpu }).unwrap()
}

fn processes(cpu: u32) -> PeerOptions {
    PeerOptions { kind: PeerKind::Process, set_bytes: 64, cpu }
}

#[test]
fn each_end_switches_once_a_round_trip() {
    smoke::pinned(|cpu| {
        for kind in [PeerKind::Thread, PeerKind::Process] {
            let pair = pair(kind, cpu);
            let before = Switches::of_this_thread();
            assert_eq!(pair.round_trips(1000), 1000);
            let own = Switches::of_this_thread().since(&before);
            assert!(own.total() >= 1000, "{own:?} in 1000 round trips");
            assert_eq!(pair.loopback_trips(1000), 1000);
            let report = pair.finish().unwrap();
            assert_eq!((report.trips, report.error), (1000, None));
            let peer = report.peer_switches[0];
            assert!(peer.total() >= 1000, "{peer:?} in 1000 round trips");
        }
    });
    assert!(smoke::has_no_children());
}

#[test]
fn peer_on_wrong_cpu_is_reported() {
    smoke::pinned(|cpu| {
        for kind in [PeerKind::Thread, PeerKind::Process] {
            let pair = pair(kind, cpu + 1);
            assert_eq!(pair.round_trips(2), 2);
            let error = pair.finish().unwrap().error.unwrap_or_default();
            assert!(error.contains("another CPU"), "{error}");
        }
    });
}

#[test]
fn several_rings_can_be_dropped_in_any_order() {
    smoke::pinned(|cpu| {
        let kinds = [PeerKind::Process, PeerKind::Thread, PeerKind::Process, PeerKind::Process];
        let pairs: Vec<_> = kinds.into_iter().map(|kind| pair(kind, cpu)).collect();
        drop(pairs);
    });
    assert!(smoke::has_no_children());
}

#[test]
fn every_member_has_the_token_once_a_trip() {
    smoke::pinned(|cpu| {
        let ring = Ring::piped(5, processes(cpu)).unwrap();
        assert_eq!((ring.ends, ring.processes().count()), (5, 4));
        assert_eq!((ring.round_trips(100), ring.loopback_trips(100)), (100, 100));
        let report = ring.finish().unwrap();
        assert_eq!((report.trips, report.error), (100, None));
        assert_eq!(report.peer_switches.len(), 4);
    });
    assert!(smoke::has_no_children());
}

#[test]
fn ring_of_one_or_too_many_is_rejected() {
    for ends in [0, 1, ENDS_MAX + 1] {
        let fault = Ring::piped(ends, processes(0)).err();
        assert!(matches!(fault, Some(SamplerFault::Failed(text)) if text.contains("must be 2")));
    }
}

#[test]
fn missing_turn_is_reported() {
    smoke::pinned(|cpu| {
        let ring = Ring::join(futexes().unwrap(), processes(cpu)).unwrap();
        assert_eq!(ring.round_trips(10), 10);
        ring.trips.set(11);
        let error = ring.finish().unwrap().error.unwrap_or_default();
        assert!(error.contains("10 turns in 11"), "{error}");
    });
}

#[test]
fn child_keeps_only_its_own_descriptors() {
    let links = pipes(3).unwrap();
    let kept = links[1].descriptors();
    let is_open = |descriptor: RawFd| {
        // SAFETY: reads flags and changes nothing.
        unsafe { libc::fcntl(descriptor, libc::F_GETFD) >= 0 }
    };
    let all: Vec<RawFd> = links.iter().flat_map(Link::descriptors).collect();
    // SAFETY: system calls only.
    let child = unsafe {
        fork(|| {
            let closed = close_all_but(&kept).is_ok();
            let right = closed && all.iter().all(|one| is_open(*one) == kept.contains(one));
            i32::from(!(right && !is_open(0) && !is_open(2)))
        })
    };
    child.unwrap().wait_for(0).unwrap();
}

#[test]
fn peer_thread_has_its_own_descriptor_table() {
    smoke::pinned(|cpu| {
        let pair = pair(PeerKind::Thread, cpu);
        assert_eq!(pair.round_trips(3), 3);
        let tasks = fs::read_dir("/proc/self/task").unwrap();
        let mut tasks = tasks.map(|task| task.unwrap().path());
        let is_peer = |task: &PathBuf| {
            fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == "switch")
        };
        let peer = tasks.find(is_peer).expect("the peer thread");
        assert_eq!(fs::read_dir(peer.join("fd")).unwrap().count(), 2, "shares the worker's table");
    });
}

/// A pipe that changes what is sent.
struct Garbled(Piped);

impl Link for Garbled {
    fn send(&self, token: u8) -> bool {
        self.0.send(token.wrapping_add(1))
    }

    fn receive(&self) -> Option<u8> {
        self.0.receive()
    }

    fn close(self) {
        self.0.close();
    }

    fn descriptors(&self) -> Vec<RawFd> {
        self.0.descriptors()
    }
}

#[test]
fn changed_token_is_no_round_trip() {
    smoke::pinned(|cpu| {
        let links = pipes(2).unwrap().into_iter().map(Garbled).collect();
        let ring = Ring::join(links, processes(cpu)).unwrap();
        assert_eq!(ring.round_trips(3), 0);
    });
    assert!(smoke::has_no_children());
}
