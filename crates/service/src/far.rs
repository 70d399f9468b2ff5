//! Far ends: each upgraded connection goes to a fresh process.

use std::net::IpAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use fathom_far::{Orders, Program, Token};
use fathom_measure::process::Limits;
use rustix::event::{EventfdFlags, eventfd};
use rustix::net::{SendFlags, send};

use crate::refusal::Refusal;
use crate::shared::Shared;

/// Far ends at a time.
const FAR_ENDS_MAX: usize = 8;
/// Of one address beyond loopback: the others stay free for other hosts.
const FAR_ENDS_PER_ADDRESS_MAX: usize = 4;
/// Longest life of a far end; without work it ends much earlier.
const LIFE_NS: u64 = 600_000_000_000;

const SWITCHING: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nServer: fathom\r\n\
    Connection: Upgrade\r\nUpgrade: fathom-far/1\r\n\r\n";
const FAILED: &[u8] = b"HTTP/1.1 500 Internal Server Error\r\nServer: fathom\r\n\
    Content-Length: 0\r\nConnection: close\r\n\r\n";

#[derive(Debug)]
pub(crate) struct FarEnds {
    program: Option<Program>,
    /// Where they write files that they receive.
    folder: Option<PathBuf>,
    running: Places,
    /// Readable once the service stops.
    stop: OwnedFd,
}

impl FarEnds {
    pub(crate) fn new(program: Option<Program>, folder: Option<PathBuf>) -> std::io::Result<Self> {
        let stop = eventfd(0, EventfdFlags::CLOEXEC)?;
        Ok(Self { program, folder, running: Places::default(), stop })
    }

    pub(crate) fn is_offered(&self) -> bool {
        self.program.is_some()
    }

    /// Starts a far end in a thread of its own, since that blocks, and waits there for its end.
    /// The near end has address `peer`, if it is beyond loopback.
    pub(crate) fn start(
        &self,
        shared: &Arc<Shared>,
        socket: OwnedFd,
        peer: Option<IpAddr>,
    ) -> Result<(), Refusal> {
        if !self.running.enter(peer) {
            return Err(Refusal::ManyFarEnds);
        }
        let of_thread = Arc::clone(shared);
        let run = move || {
            of_thread.trip();
            of_thread.far.host(socket, of_thread.token.as_ref().map(text));
            of_thread.far.running.leave(peer);
        };
        shared.spawn("far".to_owned(), run).map(drop).map_err(|_| {
            self.running.leave(peer);
            Refusal::Busy
        })
    }

    fn host(&self, socket: OwnedFd, token: Option<String>) {
        let Some((program, answer)) = self.program.as_ref().zip(socket.try_clone().ok()) else {
            return;
        };
        let started =
            program.start(socket, &Orders { folder: self.folder.clone(), ..Orders::new(token) });
        let text = if started.is_ok() { SWITCHING } else { FAILED };
        // The buffer of a new connection has room for it.
        let _ = send(&answer, text, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        drop(answer);
        if let Ok(mut far) = started {
            // Dropped after its end, its life or the service: that kills and reaps it.
            let _ = far.collect(Limits { time_ns: LIFE_NS, output_bytes: 0 }, self.stop.as_fd());
        }
    }

    /// Ends all far ends.
    pub(crate) fn stop(&self) {
        // It fails only where the counter is full, which is readable as well.
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
    }
}

/// The near ends of all far ends: their addresses beyond loopback.
#[derive(Debug, Default)]
struct Places(Mutex<Vec<Option<IpAddr>>>);

impl Places {
    /// Takes a place; false if there is none for this address.
    fn enter(&self, peer: Option<IpAddr>) -> bool {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = taken.iter().filter(|other| peer.is_some() && **other == peer).count();
        let has_room = taken.len() < FAR_ENDS_MAX && own < FAR_ENDS_PER_ADDRESS_MAX;
        if has_room {
            taken.push(peer);
        }
        has_room
    }

    fn leave(&self, peer: Option<IpAddr>) {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = taken.iter().position(|other| *other == peer) {
            taken.swap_remove(at);
        }
    }
}

fn text(token: &Token) -> String {
    String::from_utf8_lossy(token.bytes()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_does_not_take_all_far_ends() {
        let places = Places::default();
        let address = |last| Some(IpAddr::from([192, 0, 2, last]));
        let of_first = (0..6).filter(|_| places.enter(address(1))).count();
        assert_eq!((of_first, places.enter(address(2))), (4, true));
        assert_eq!((0..6).filter(|_| places.enter(None)).count(), 3);
        places.leave(address(1));
        assert_eq!((places.enter(address(3)), places.enter(None)), (true, false));
    }
}
