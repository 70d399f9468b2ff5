//! Links by a Unix socket pair; the token is a byte.

use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};

use rustix::net::{AddressFamily, SendFlags, Shutdown, SocketFlags, SocketType};
use rustix::net::{send, shutdown, socketpair};

use super::{Link, OnPeerDeath, read_byte, write_byte};
use crate::prelude::*;

#[derive(Debug)]
pub(in crate::os) struct LinkSocket {
    socket: OwnedFd,
    /// Datagram sockets do not report that the peer has closed.
    datagrams: bool,
}

/// The two sockets of an unnamed pair.
pub(in crate::os) fn sockets(kind: SocketType) -> Result<Vec<LinkSocket>> {
    let pair = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None);
    let (one, other) = pair.map_err(|error| SamplerFault::system("socketpair", error))?;
    let datagrams = kind == SocketType::DGRAM;
    Ok([one, other].map(|socket| LinkSocket { socket, datagrams }).into())
}

impl Link for LinkSocket {
    #[inline(always)]
    fn send(&self, token: u8) -> bool {
        write_byte(&self.socket, token)
    }

    #[inline(always)]
    fn receive(&self) -> Option<u8> {
        read_byte(&self.socket)
    }

    /// An empty datagram is no token; a stream gives end of file when its socket is dropped.
    fn close(self) {
        if self.datagrams {
            // Fails only if the peer is gone.
            let _ = send(&self.socket, &[], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        }
    }

    fn descriptors(&self) -> Vec<RawFd> {
        vec![self.socket.as_raw_fd()]
    }

    fn on_peer_death(&self) -> Option<OnPeerDeath> {
        let socket = self.datagrams.then(|| self.socket.try_clone().ok())??;
        Some(Box::new(move || {
            // Fails only if the socket is already shut down.
            let _ = shutdown(&socket, Shutdown::Both);
        }))
    }
}
