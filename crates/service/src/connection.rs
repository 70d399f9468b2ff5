//! The state of a connection. Small, and without a buffer while it is idle.

use std::net::IpAddr;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;
use rustix::net::{RecvFlags, recv};

use crate::head::Scan;
use crate::send::{Exchange, Response};

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) socket: OwnedFd,
    /// The client's address, if it is beyond loopback.
    pub(crate) peer: Option<IpAddr>,
    pub(crate) state: State,
    /// When the state began.
    pub(crate) since_ns: u64,
    /// What arrived and was not handled: part of a head, or further requests. Empty while idle.
    pub(crate) pending: Vec<u8>,
    pub(crate) scan: Scan,
    /// There may be more to read: events are edges.
    pub(crate) is_readable: bool,
    /// The client has closed its side.
    pub(crate) is_ended: bool,
    /// Bytes in the socket's buffer when they were last counted.
    pub(crate) unsent_bytes: u64,
    /// In the states of waiting for a lane.
    pub(crate) waiting: Option<Waiting>,
}

/// A job of a lane. Dropped with its connection or at its limit, and then the lane drops the job.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) is_cancelled: Arc<AtomicBool>,
    pub(crate) limit_ns: u64,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.is_cancelled.store(true, Relaxed);
    }
}

#[derive(Debug)]
pub(crate) enum State {
    /// Waiting for a request, or for the rest of its head.
    Reading,
    Responding(Box<Response>),
    /// A lane opens the file; the head is then handled again.
    Opening {
        head: Vec<u8>,
        begun_ns: u64,
    },
    /// A lane reads the next window.
    Loading {
        exchange: Exchange,
        /// Bytes of the response have left.
        has_begun: bool,
    },
    /// A lane makes the page.
    Making(Exchange),
    /// The response has left; what the client still sends is dropped.
    Lingering,
}

impl Connection {
    pub(crate) fn new(socket: OwnedFd, peer: Option<IpAddr>, now_ns: u64) -> Self {
        Self {
            socket,
            peer,
            state: State::Reading,
            since_ns: now_ns,
            pending: Vec::new(),
            scan: Scan::default(),
            // Often the request is there already.
            is_readable: true,
            is_ended: false,
            unsent_bytes: 0,
            waiting: None,
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        matches!(self.state, State::Reading) && self.pending.is_empty()
    }

    /// Whether the client has closed its side while a lane works for it.
    pub(crate) fn has_left(&self) -> bool {
        self.is_ended && self.waiting.is_some()
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
