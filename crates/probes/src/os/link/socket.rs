//! Links by a pair of sockets of the Unix domain. A byte is the token.

use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};

use fathom_measure::sampler::Fault;
use rustix::net::{AddressFamily, SendFlags, Shutdown, SocketFlags, SocketType};
use rustix::net::{send, shutdown, socketpair};

use super::{Alarm, Link, read_byte, write_byte};

/// One socket of a pair, for both directions.
#[derive(Debug)]
pub(in crate::os) struct Socket {
    socket: OwnedFd,
    /// Whether it passes messages, which end with nobody: nothing tells their receiver that the
    /// sender is gone.
    datagrams: bool,
}

/// The two sockets of a pair. They have no name.
pub(in crate::os) fn sockets(kind: SocketType) -> Result<Vec<Socket>, Fault> {
    let pair = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None);
    let (one, other) = pair.map_err(|error| Fault::system("socketpair", error))?;
    let datagrams = kind == SocketType::DGRAM;
    Ok([one, other].map(|socket| Socket { socket, datagrams }).into())
}

impl Link for Socket {
    #[inline(always)]
    fn pass(&self, token: u8) -> bool {
        write_byte(&self.socket, token)
    }

    #[inline(always)]
    fn take(&self) -> Option<u8> {
        read_byte(&self.socket)
    }

    /// An empty message is no token; a stream ends when its socket is closed.
    fn hang_up(self) {
        if self.datagrams {
            // If it cannot be sent, the other end is gone already.
            let _ = send(&self.socket, &[], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        }
    }

    fn descriptors(&self) -> Vec<RawFd> {
        vec![self.socket.as_raw_fd()]
    }

    fn alarm(&self) -> Option<Alarm> {
        let socket = self.datagrams.then(|| self.socket.try_clone().ok())??;
        Some(Box::new(move || {
            // It refuses only a socket that is shut down already.
            let _ = shutdown(&socket, Shutdown::Both);
        }))
    }
}
