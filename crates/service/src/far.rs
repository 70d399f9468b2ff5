//! Far ends: each upgraded connection goes to a fresh process, once it has said something: a silent
//! one takes no place.

use std::net::IpAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use fathom_far::{Channel, Orders, ProcessProgram, ProtocolMessage, Token};
use fathom_measure::process::OutputLimits;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::net::{SendFlags, send};

use crate::refusal::Refusal;

/// Far ends at a time.
const FAR_ENDS_MAX: usize = 8;
/// Of one address beyond loopback: the others stay free for other hosts.
const FAR_ENDS_PER_ADDRESS_MAX: usize = 4;
/// Connections that have said nothing yet, and for how long they may.
const SILENT_MAX: usize = 64;
const SILENT: Timespec = Timespec { tv_sec: 3, tv_nsec: 0 };
/// Longest life of a far end; without work it ends much earlier.
const LIFE_NS: u64 = 600_000_000_000;

const SWITCHING: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nServer: fathom\r\n\
    Connection: Upgrade\r\nUpgrade: fathom-far/1\r\n\r\n";
#[derive(Debug)]
pub(crate) struct FarEnds {
    program: Option<ProcessProgram>,
    /// Where they write files that they receive.
    folder: Option<PathBuf>,
    places: Places,
    /// Readable once the service stops.
    stop: OwnedFd,
}

impl FarEnds {
    pub(crate) fn new(
        program: Option<ProcessProgram>,
        folder: Option<PathBuf>,
    ) -> std::io::Result<Self> {
        let stop = eventfd(0, EventfdFlags::CLOEXEC)?;
        Ok(Self { program, folder, places: Places::default(), stop })
    }

    pub(crate) fn is_offered(&self) -> bool {
        self.program.is_some()
    }

    /// Whether another connection may begin: then [`FarEnds::serve`] or [`FarEnds::forget`]
    /// follows.
    /// The near end has address `peer`, if it is beyond loopback.
    pub(crate) fn knock(&self, peer: Option<IpAddr>) -> Result<(), Refusal> {
        if self.places.knock(peer) { Ok(()) } else { Err(Refusal::ManyFarEnds) }
    }

    /// No thread can serve the connection.
    pub(crate) fn forget(&self, peer: Option<IpAddr>) {
        self.places.enter(peer, false);
    }

    /// Starts a far end, and waits for its end.
    pub(crate) fn serve(&self, socket: OwnedFd, peer: Option<IpAddr>, token: Option<&Token>) {
        let speaks = self.is_spoken_to(&socket);
        if self.places.enter(peer, speaks) {
            self.host(socket, token.map(text));
            self.places.leave(peer);
        } else {
            let silent = format!("no answer within {} s", SILENT.tv_sec);
            let full = "too many far ends run there".to_owned();
            let text = if speaks { full } else { silent };
            // The near end may have gone.
            let _ = Channel::new(socket).send(&ProtocolMessage::Error { text, is_limit: false });
        }
    }

    /// Accepts the connection, and waits for its first byte.
    fn is_spoken_to(&self, socket: &OwnedFd) -> bool {
        // The buffer of a new connection has room for it.
        let _ = send(socket, SWITCHING, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        let mut events = [socket, &self.stop].map(|fd| PollFd::new(fd, PollFlags::IN));
        // Interrupted or over: it has said nothing.
        poll(&mut events, Some(&SILENT)).is_ok_and(|count| count > 0)
            && events[0].revents().contains(PollFlags::IN)
    }

    fn host(&self, socket: OwnedFd, token: Option<String>) {
        let Some((program, answer)) = self.program.as_ref().zip(socket.try_clone().ok()) else {
            return;
        };
        let orders = Orders { folder: self.folder.clone(), ..Orders::new(token) };
        match program.start(socket, &orders) {
            // Dropped after its end, its life or the service: that kills and reaps it.
            Ok(mut far) => {
                drop(answer);
                let limits = OutputLimits { time_ns: LIFE_NS, output_bytes: 0 };
                let _ = far.collect(limits, self.stop.as_fd());
            }
            Err(error) => {
                let text = format!("start the far end: {error}");
                let _ =
                    Channel::new(answer).send(&ProtocolMessage::Error { text, is_limit: false });
            }
        }
    }

    /// Ends all far ends.
    pub(crate) fn stop(&self) {
        // It fails only where the counter is full, which is readable as well.
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
    }
}

/// The near ends of all far ends: their addresses beyond loopback; and how many connections have
/// said nothing yet.
#[derive(Debug, Default)]
struct Places(Mutex<(Vec<Option<IpAddr>>, usize)>);

impl Places {
    /// Whether another connection from this address may begin.
    fn knock(&self, peer: Option<IpAddr>) -> bool {
        let (taken, silent) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let may_begin = has_room(taken, peer) && *silent < SILENT_MAX;
        *silent += usize::from(may_begin);
        may_begin
    }

    /// Ends the beginning: takes a place if it `speaks` and one is left for this address.
    fn enter(&self, peer: Option<IpAddr>, speaks: bool) -> bool {
        let (taken, silent) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *silent -= 1;
        let enters = speaks && has_room(taken, peer);
        if enters {
            taken.push(peer);
        }
        enters
    }

    fn leave(&self, peer: Option<IpAddr>) {
        let (taken, _) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = taken.iter().position(|other| *other == peer) {
            taken.swap_remove(at);
        }
    }
}

fn has_room(taken: &[Option<IpAddr>], peer: Option<IpAddr>) -> bool {
    let own = taken.iter().filter(|other| peer.is_some() && **other == peer).count();
    taken.len() < FAR_ENDS_MAX && own < FAR_ENDS_PER_ADDRESS_MAX
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
        let enter = |peer| places.knock(peer) && places.enter(peer, true);
        let of_first = (0..6).filter(|_| enter(address(1))).count();
        assert_eq!((of_first, enter(address(2))), (4, true));
        assert_eq!((0..6).filter(|_| enter(None)).count(), 3);
        places.leave(address(1));
        assert_eq!((enter(address(3)), enter(None)), (true, false));
    }

    #[test]
    fn silent_connections_take_no_place() {
        let places = Places::default();
        assert_eq!((0..100).filter(|_| places.knock(None)).count(), SILENT_MAX);
        // They leave, and only those that speak get a place.
        assert!((8..SILENT_MAX).all(|_| !places.enter(None, false)));
        assert_eq!((0..8).filter(|_| places.enter(None, true)).count(), FAR_ENDS_MAX);
        assert!(!places.knock(None));
        places.leave(None);
        assert!(places.knock(None) && places.enter(None, true));
    }
}
