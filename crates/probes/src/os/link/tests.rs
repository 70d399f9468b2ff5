use std::fs;

use rustix::net::SocketType;

use super::*;
use crate::os::child::fork;
use crate::os::ping_pong::{ENDS_MAX, PeerKind, PeerOptions, Ring};
use crate::prelude::*;
use crate::smoke;

fn ring<L: Link>(links: Result<Vec<L>, SamplerFault>, cpu: u32) -> Option<Ring<L>> {
    let links = match links {
        Ok(links) => links,
        Err(SamplerFault::Unavailable(..)) => return None,
        Err(fault) => panic!("{fault}"),
    };
    let options = PeerOptions { kind: PeerKind::Process, set_bytes: 0, cpu };
    Some(Ring::join(links, options).unwrap())
}

/// Kills the peer after 300 round trips; the worker must stop waiting.
fn kill_peer<L: Link>(links: fn() -> Result<Vec<L>, SamplerFault>) {
    smoke::pinned(|cpu| {
        let Some(ring) = ring(links(), cpu) else {
            return smoke::skipped("a kind of link is unavailable");
        };
        assert_eq!(ring.round_trips(300), 300);
        ring.kill_peer();
        assert!(ring.round_trips(3) < 3);
        assert!(matches!(ring.finish(), Err(SamplerFault::WrongWork(_))));
        // A ring dropped unused ends its peer.
        drop(self::ring(links(), cpu));
    });
    assert!(smoke::has_no_children());
}

#[test]
fn dead_peer_ends_the_wait_on_every_link() {
    kill_peer(|| pipe::pipes(2));
    kill_peer(|| pipe::pipes(ENDS_MAX));
    kill_peer(|| pipe::libc_pipes(2));
    kill_peer(|| pipe::fifos(2));
    kill_peer(|| socket::sockets(SocketType::STREAM));
    kill_peer(|| socket::sockets(SocketType::DGRAM));
    kill_peer(sysv::semaphores);
    kill_peer(posix::semaphores);
    kill_peer(futex::futexes);
}

fn has_set(id: i32) -> bool {
    let sets = fs::read_to_string("/proc/sysvipc/sem").unwrap();
    sets.lines().skip(1).any(|line| line.split_whitespace().nth(1) == Some(&id.to_string()))
}

#[test]
fn semaphore_set_is_removed_with_its_last_link() {
    let Ok(links) = sysv::semaphores() else {
        return smoke::skipped("no System V semaphores");
    };
    let id = links[0].id();
    assert!(has_set(id));
    drop(links);
    assert!(!has_set(id));
}

#[test]
fn peer_removes_the_set_on_parent_death_signal() {
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
        assert!(ring.round_trips(2) < 2, "removing the set ends the wait");
        let error = ring.finish().unwrap().error.unwrap_or_default();
        assert!(error.contains("worker died"), "{error}");
        assert!(!has_set(id));
    });
    assert!(smoke::has_no_children());
}

#[test]
fn orphaned_peer_removes_the_set() {
    let Ok(links) = sysv::semaphores() else {
        return smoke::skipped("no System V semaphores");
    };
    let started_late = || {
        links[1].remove_persistent();
        0
    };
    // SAFETY: system calls on existing objects.
    let child = unsafe { fork(started_late) };
    child.unwrap().wait_for(0).unwrap();
    assert!(!has_set(links[0].id()));
}

#[test]
fn fifo_has_no_name_once_open() {
    let prefix = format!("fathom-{}-", std::process::id());
    let named = || {
        let names = fs::read_dir(std::env::temp_dir()).unwrap();
        names
            .filter(|name| {
                name.as_ref().unwrap().file_name().to_string_lossy().starts_with(&prefix)
            })
            .count()
    };
    let fifos = pipe::fifos(2).unwrap();
    assert_eq!((fifos.len(), named()), (2, 0));
    assert!(fifos[0].send(7));
    assert_eq!(fifos[1].receive(), Some(7));
}
