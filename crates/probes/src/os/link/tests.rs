//! Every kind of link: tokens go round, and no end waits for a dead one.

use std::fs;

use fathom_measure::sampler::Fault;
use rustix::net::SocketType;

use super::*;
use crate::os::child::fork;
use crate::os::ping_pong::{Kind, Others, Ring};
use crate::smoke;

fn ring<L: Link>(links: Result<Vec<L>, Fault>, cpu: u32) -> Option<Ring<L>> {
    let links = match links {
        Ok(links) => links,
        Err(Fault::Unavailable(..)) => return None,
        Err(fault) => panic!("{fault}"),
    };
    Some(Ring::join(links, Others { kind: Kind::Process, set_bytes: 0, cpu }).unwrap())
}

/// Tokens go round, and when the other end is killed the worker's wait ends with fewer.
fn dies_alone<L: Link>(links: fn() -> Result<Vec<L>, Fault>) {
    smoke::pinned(|cpu| {
        let Some(ring) = ring(links(), cpu) else {
            return smoke::skipped("a kind of link cannot be had here");
        };
        assert_eq!(ring.round_trips(300), 300);
        ring.kill_peer();
        assert!(ring.round_trips(3) < 3);
        assert!(matches!(ring.finish(), Err(Fault::WrongWork(_))));
        // And one that is dropped unused ends its other end.
        drop(self::ring(links(), cpu));
    });
    assert!(smoke::has_no_children());
}

#[test]
fn a_dead_end_is_noticed_through_every_kind() {
    let _alone = smoke::alone();
    dies_alone(|| pipe::pipes(2));
    dies_alone(|| pipe::called(2));
    dies_alone(|| pipe::fifos(2));
    dies_alone(|| socket::sockets(SocketType::STREAM));
    dies_alone(|| socket::sockets(SocketType::DGRAM));
    dies_alone(sysv::semaphores);
    dies_alone(posix::semaphores);
    dies_alone(futex::futexes);
}

/// Whether the kernel has a set of semaphores of this number.
fn has_set(id: i32) -> bool {
    let sets = fs::read_to_string("/proc/sysvipc/sem").unwrap();
    sets.lines().skip(1).any(|line| line.split_whitespace().nth(1) == Some(&id.to_string()))
}

#[test]
fn a_set_of_semaphores_is_removed_with_its_last_link() {
    let _alone = smoke::alone();
    let Ok(links) = sysv::semaphores() else {
        return smoke::skipped("no System V semaphores");
    };
    let id = links[0].id();
    assert!(has_set(id));
    drop(links);
    assert!(!has_set(id));
}

#[test]
fn the_other_end_removes_the_set_when_it_is_told_that_the_worker_is_gone() {
    let _alone = smoke::alone();
    smoke::pinned(|cpu| {
        let Ok(links) = sysv::semaphores() else {
            return smoke::skipped("no System V semaphores");
        };
        let id = links[0].id();
        let ring = ring(Ok(links), cpu).unwrap();
        assert_eq!(ring.round_trips(2), 2);
        let process =
            ring.processes().next().and_then(|id| rustix::process::Pid::from_raw(id as i32));
        rustix::process::kill_process(process.unwrap(), Signal::TERM).unwrap();
        assert!(ring.round_trips(2) < 2, "a set that is gone wakes who waits for it");
        let wrong = ring.finish().unwrap().wrong.unwrap_or_default();
        assert!(wrong.contains("the worker gone"), "{wrong}");
        assert!(!has_set(id));
    });
    assert!(smoke::has_no_children());
}

#[test]
fn without_a_worker_the_other_end_removes_the_set_by_itself() {
    let _alone = smoke::alone();
    let removed_by = |other_end: fn(&sysv::SystemV) -> i32, status| {
        let Ok(links) = sysv::semaphores() else {
            return smoke::skipped("no System V semaphores");
        };
        // SAFETY: system calls on what is there already.
        let child = unsafe { fork(|| other_end(&links[1])) };
        child.unwrap().wait_for(status).unwrap();
        assert!(!has_set(links[0].id()));
    };
    let told = |link: &sysv::SystemV| {
        assert_eq!(link.signal_of_death(), Signal::TERM);
        // SAFETY: sends this process a signal.
        unsafe { libc::raise(libc::SIGTERM) };
        0
    };
    removed_by(told, sysv::REMOVED);
    let too_late = |link: &sysv::SystemV| {
        link.remove_remains();
        0
    };
    removed_by(too_late, 0);
}

#[test]
fn a_fifo_has_no_name_once_it_is_open() {
    let ours = format!("fathom-{}-", std::process::id());
    let named = || {
        let names = fs::read_dir(std::env::temp_dir()).unwrap();
        names
            .filter(|name| name.as_ref().unwrap().file_name().to_string_lossy().starts_with(&ours))
            .count()
    };
    let _alone = smoke::alone();
    let fifos = pipe::fifos(2).unwrap();
    assert_eq!((fifos.len(), named()), (2, 0));
    assert!(fifos[0].pass(7));
    assert_eq!(fifos[1].take(), Some(7));
}
