//! The state of a connection. Small, and without a buffer while it is idle.

use std::borrow::Cow;
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::set_socket_linger;
use rustix::net::{RecvFlags, recv};

use crate::head::Scan;
use crate::options::ServiceLimits;
use crate::refusal::Refused;
use crate::send::{Exchange, SendResponse};
use crate::ticket::TicketPlace;

/// For a client to read the last response and to close.
pub(crate) const LINGER_NS: u64 = 1_000_000_000;
/// A client that has closed its side while it waits for a lane may still read the response; mostly
/// it has given up.
pub(crate) const LEFT_NS: u64 = 1_000_000_000;

/// Dropped of a client that sends on.
const LINGER_BYTES: usize = 1 << 20;

/// What follows a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// An event or a lane brings the next turn.
    Wait,
    /// There is more to do, after the others.
    Again,
    Close,
    /// A far end has the socket, too: closing it here does not remove it from epoll.
    Detach,
}

pub(crate) type Flow = ControlFlow<Next>;

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) socket: OwnedFd,
    /// The client's address, if it is beyond loopback.
    pub(crate) peer: Option<IpAddr>,
    pub(crate) place: TicketPlace,
    pub(crate) state: ConnectionState,
    /// When the state began.
    pub(crate) since_ns: u64,
    /// What arrived and was not handled: part of a head, or further requests. Empty while idle.
    pub(crate) pending: Vec<u8>,
    scan: Scan,
    /// There may be more to read: events are edges.
    pub(crate) is_readable: bool,
    /// The client has closed its side.
    pub(crate) is_ended: bool,
    /// Bytes in the socket's buffer when they were last counted.
    pub(crate) unsent_bytes: u64,
}

#[derive(Debug)]
pub(crate) enum ConnectionState {
    /// Waiting for a request, or for the rest of its head.
    Reading,
    Responding(Box<SendResponse>),
    /// A lane opens a file, reads a part of it or makes a page.
    Waiting(Waiting),
    /// The response has left; what the client still sends is dropped.
    Lingering,
}

/// What a client has sent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ConnectionInput<'i> {
    Head(Cow<'i, [u8]>),
    /// With the bytes that are no head.
    Malformed(Refused, Cow<'i, [u8]>),
    /// There may be more.
    Part,
    Nothing,
    /// The client has closed its side, or the connection is broken.
    End,
}

#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) exchange: Exchange,
    /// Bytes of the response have left.
    pub(crate) has_begun: bool,
    pub(crate) limit_ns: u64,
    /// The lane drops the job once this is dropped.
    #[expect(dead_code, reason = "held only")]
    pub(crate) claim: Arc<()>,
}

impl Connection {
    pub(crate) fn new(
        socket: OwnedFd,
        peer: Option<IpAddr>,
        place: TicketPlace,
        now_ns: u64,
    ) -> Self {
        Self {
            socket,
            peer,
            place,
            state: ConnectionState::Reading,
            since_ns: now_ns,
            pending: Vec::new(),
            scan: Scan::default(),
            // Often the request is there already.
            is_readable: true,
            is_ended: false,
            unsent_bytes: 0,
        }
    }

    /// The next head that has arrived whole: where it lies, else from what was kept of it.
    pub(crate) fn receive<'i>(
        &mut self,
        input: &'i mut [u8],
        head_bytes_max: usize,
        now_ns: u64,
    ) -> ConnectionInput<'i> {
        if !self.pending.is_empty() {
            let pending = std::mem::take(&mut self.pending);
            match self.split(pending.into(), head_bytes_max) {
                ConnectionInput::Part => {}
                found => return found,
            }
        }
        if !self.is_readable {
            return ConnectionInput::Nothing;
        }
        match recv(&self.socket, &mut *input, RecvFlags::empty()) {
            Ok((0, _)) => ConnectionInput::End,
            Ok((bytes, _)) => {
                // Less than there was room for: the socket is empty.
                self.is_readable = bytes == input.len() || self.is_ended;
                if !self.pending.is_empty() {
                    self.pending.extend_from_slice(&input[..bytes]);
                    return ConnectionInput::Part;
                }
                self.since_ns = now_ns;
                self.split(input[..bytes].into(), head_bytes_max)
            }
            Err(Errno::AGAIN) => {
                self.is_readable = false;
                ConnectionInput::Nothing
            }
            Err(Errno::INTR) => ConnectionInput::Part,
            Err(_) => ConnectionInput::End,
        }
    }

    /// The head at the beginning of `bytes`; what does not belong to it is kept.
    fn split<'i>(
        &mut self,
        mut bytes: Cow<'i, [u8]>,
        head_bytes_max: usize,
    ) -> ConnectionInput<'i> {
        match self.scan.end(&bytes, head_bytes_max) {
            Err(refused) => ConnectionInput::Malformed(refused, bytes),
            Ok(Some(end)) => {
                self.scan = Scan::default();
                self.pending = bytes[end..].to_vec();
                match &mut bytes {
                    Cow::Borrowed(bytes) => *bytes = &bytes[..end],
                    Cow::Owned(bytes) => bytes.truncate(end),
                }
                ConnectionInput::Head(bytes)
            }
            Ok(None) => {
                self.pending = bytes.into_owned();
                ConnectionInput::Part
            }
        }
    }

    /// Drops what a client still sends. True once it has ended or has sent too much.
    pub(crate) fn drop_input(&self, input: &mut [u8]) -> bool {
        let mut dropped = 0;
        while dropped < LINGER_BYTES {
            match recv(&self.socket, &mut *input, RecvFlags::empty()) {
                Ok((0, _)) => return true,
                Ok((bytes, _)) => dropped += bytes,
                Err(Errno::INTR) => {}
                Err(error) => return error != Errno::AGAIN,
            }
        }
        true
    }

    pub(crate) fn is_idle(&self) -> bool {
        matches!(self.state, ConnectionState::Reading) && self.pending.is_empty()
    }

    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self.state, ConnectionState::Waiting(_))
    }

    /// Whether the client has closed its side while a lane works for it.
    pub(crate) fn has_left(&self) -> bool {
        self.is_ended && self.is_waiting()
    }

    /// Whether a time limit has passed.
    pub(crate) fn is_late(&self, limits: &ServiceLimits, now_ns: u64) -> bool {
        let (since_ns, limit_ns) = match &self.state {
            ConnectionState::Reading if self.pending.is_empty() => (self.since_ns, limits.idle_ns),
            ConnectionState::Reading => (self.since_ns, limits.head_ns),
            ConnectionState::Responding(response) => (response.checked.0, limits.rate_after_ns),
            ConnectionState::Lingering => (self.since_ns, LINGER_NS),
            ConnectionState::Waiting(_) if self.is_ended => (self.since_ns, LEFT_NS),
            // It waits for this machine, not for the client.
            ConnectionState::Waiting(waiting) => (self.since_ns, waiting.limit_ns),
        };
        now_ns.saturating_sub(since_ns) >= limit_ns
    }

    /// Whether there are bytes to read, without reading them.
    pub(crate) fn has_arrived(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        recv(&self.socket, &mut [0u8; 1][..], flags).is_ok_and(|(read, _)| read > 0)
    }

    /// Bytes that the client has not acknowledged.
    pub(crate) fn count_unsent(&self) -> u64 {
        let mut bytes: libc::c_int = 0;
        // SAFETY: SIOCOUTQ (TIOCOUTQ) writes an int, which outlives the call.
        let done =
            unsafe { libc::ioctl(self.socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
        if done == 0 { u64::try_from(bytes).unwrap_or(0) } else { 0 }
    }

    /// Lets the close drop what is unsent, so that a client that does not read keeps no memory.
    pub(crate) fn abort(&self) {
        // Without it the kernel keeps the data for minutes.
        let _ = set_socket_linger(&self.socket, Some(Duration::ZERO));
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};

    use super::*;

    const HEAD: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

    fn pair() -> (OwnedFd, Connection) {
        let (family, flags) = (AddressFamily::UNIX, SocketFlags::NONBLOCK);
        let (client, socket) = socketpair(family, SocketType::STREAM, flags, None).unwrap();
        (client, Connection::new(socket, None, TicketPlace::default(), 0))
    }

    #[test]
    fn pipelined_and_split_heads_arrive_whole() {
        let (client, mut c) = pair();
        let (first, rest) = HEAD.split_at(9);
        send(&client, &[HEAD, HEAD, first].concat(), SendFlags::empty()).unwrap();
        let mut input = vec![0; 1024];
        let mut next = |c: &mut Connection, now_ns| match c.receive(&mut input, 1024, now_ns) {
            ConnectionInput::Head(head) => assert_eq!(&head[..], HEAD),
            other => assert_eq!(other, ConnectionInput::Nothing),
        };
        next(&mut c, 1);
        next(&mut c, 2);
        next(&mut c, 3);
        assert_eq!((&c.pending[..], c.is_idle(), c.since_ns), (first, false, 1));
        send(&client, rest, SendFlags::empty()).unwrap();
        c.is_readable = true;
        assert_eq!(c.receive(&mut [0; 99], 1024, 4), ConnectionInput::Part);
        next(&mut c, 5);
        assert!(c.is_idle());
        drop(client);
        c.is_readable = true;
        assert_eq!(c.receive(&mut [0; 99], 1024, 6), ConnectionInput::End);
    }

    #[test]
    fn limits_depend_on_the_state() {
        let (_client, mut c) = pair();
        let limits = ServiceLimits { idle_ns: 20, head_ns: 10, ..ServiceLimits::default() };
        let is_late = |c: &Connection| [9, 10, 19, 20].map(|now_ns| c.is_late(&limits, now_ns));
        assert_eq!(is_late(&c), [false, false, false, true]);
        c.pending = HEAD[..5].to_vec();
        assert_eq!(is_late(&c), [false, true, true, true]);
        c.state = ConnectionState::Lingering;
        assert!(!c.is_late(&limits, LINGER_NS - 1) && c.is_late(&limits, LINGER_NS));
    }
}
