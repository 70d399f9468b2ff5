//! ICMP echo over an ICMP socket or a raw socket, IPv4 and IPv6.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::time::Duration;

use fathom_far::{FarError, TRIP_NS, TripEnd};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, connect, ipproto, recv,
    send, socket_with,
};

use crate::prelude::*;

const HEADER: usize = 8;
/// Without options.
const IP_HEADER_MIN: usize = 20;
const PACKET_MAX: usize = 1500;
/// Packets of others, and late replies, during one echo.
const OTHERS_MAX: u32 = 1024;
/// linux/icmp.h and linux/icmpv6.h.
const ICMP_FILTER: libc::c_int = 1;
const ICMP6_FILTER: libc::c_int = 1;

pub(super) struct Echo {
    socket: OwnedFd,
    is_raw: bool,
    is_v6: bool,
    /// Of a raw socket; the kernel sets that of an ICMP socket.
    id: u16,
    sequence: u16,
    packet: Vec<u8>,
}

impl Echo {
    /// By an ICMP socket, else by a raw one.
    pub(super) fn open(to: SocketAddr, from: Option<IpAddr>) -> Result<Self> {
        let refused = match Self::opened(false, to, from) {
            Err(error) if is_refusal(error) => error,
            opened => return opened.map_err(|error| SamplerFault::system("ICMP socket", error)),
        };
        match Self::opened(true, to, from) {
            Err(error) if is_refusal(error) => Err(SamplerFault::unavailable(
                format!("ICMP echo is not permitted: {refused}, raw socket: {error}"),
                Remedy::AllowIcmp,
            )),
            opened => opened.map_err(|error| SamplerFault::system("raw socket", error)),
        }
    }

    pub(super) fn opened(
        is_raw: bool,
        to: SocketAddr,
        from: Option<IpAddr>,
    ) -> Result<Self, Errno> {
        let is_v6 = to.is_ipv6();
        let family = if is_v6 { AddressFamily::INET6 } else { AddressFamily::INET };
        let kind = if is_raw { SocketType::RAW } else { SocketType::DGRAM };
        let protocol = if is_v6 { ipproto::ICMPV6 } else { ipproto::ICMP };
        let socket = socket_with(family, kind, SocketFlags::CLOEXEC, Some(protocol))?;
        if is_raw {
            accept_replies_only(&socket, is_v6);
        }
        if let Some(from) = from {
            bind(&socket, &SocketAddr::new(from, 0))?;
        }
        // The kernel then drops what other hosts send. A raw socket has no port.
        let mut to = to;
        to.set_port(0);
        connect(&socket, &to)?;
        let limit = Some(Duration::from_nanos(TRIP_NS));
        set_socket_timeout(&socket, Timeout::Recv, limit)?;
        let (id, packet) = (std::process::id() as u16, vec![0; PACKET_MAX]);
        Ok(Self { socket, is_raw, is_v6, id, sequence: 0, packet })
    }

    pub(super) fn kind(&self) -> &'static str {
        if self.is_raw { "raw" } else { "ICMP" }
    }

    /// Sends an echo request and waits for its reply.
    pub(super) fn trip(&mut self, content: &[u8]) -> Result<TripEnd, FarError> {
        self.sequence = self.sequence.wrapping_add(1);
        let request = self.request(content);
        match send(&self.socket, &request, SendFlags::NOSIGNAL) {
            Ok(_) => {}
            Err(error) if is_of_network(error) => return Ok(TripEnd::Lost),
            Err(error) => return Err(FarError::System { call: "send", error: error.into() }),
        }
        for _ in 0..OTHERS_MAX {
            match recv(&self.socket, &mut self.packet[..], RecvFlags::empty()) {
                Ok((count, _)) if self.is_reply(count, content) => return Ok(TripEnd::Answered),
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) if is_of_network(error) => return Ok(TripEnd::Lost),
                Err(error) => return Err(FarError::System { call: "recv", error: error.into() }),
            }
        }
        Ok(TripEnd::Lost)
    }

    fn request(&self, content: &[u8]) -> Vec<u8> {
        let kind = if self.is_v6 { 128 } else { 8 };
        let mut packet = vec![kind, 0, 0, 0];
        packet.extend(self.id.to_be_bytes());
        packet.extend(self.sequence.to_be_bytes());
        packet.extend(content);
        // The kernel computes that of ICMPv6, which includes addresses.
        if !self.is_v6 {
            let sum = checksum(&packet);
            packet[2..4].copy_from_slice(&sum.to_be_bytes());
        }
        packet
    }

    fn is_reply(&self, count: usize, content: &[u8]) -> bool {
        let packet = &self.packet[..count];
        // Raw sockets of IPv4 only have the IP header, whose length is in words.
        let skipped = match packet.first() {
            Some(first) if self.is_raw && !self.is_v6 => {
                IP_HEADER_MIN.max(4 * usize::from(first & 0xf))
            }
            _ => 0,
        };
        let Some((header, found)) =
            packet.get(skipped..).and_then(|it| it.split_at_checked(HEADER))
        else {
            return false;
        };
        let kind = if self.is_v6 { 129 } else { 0 };
        header[..2] == [kind, 0]
            && (!self.is_raw || header[4..6] == self.id.to_be_bytes())
            && header[6..] == self.sequence.to_be_bytes()
            && found == content
    }
}

fn is_refusal(error: Errno) -> bool {
    matches!(error, Errno::ACCESS | Errno::PERM | Errno::PROTONOSUPPORT)
}

/// The time limit, or a report by a router.
fn is_of_network(error: Errno) -> bool {
    use Errno as E;
    matches!(error, E::AGAIN | E::HOSTUNREACH | E::NETUNREACH | E::CONNREFUSED | E::NOBUFS)
}

/// A raw socket gets all ICMP packets of the host, on loopback its own requests too. Without the
/// filter each is compared.
fn accept_replies_only(socket: &OwnedFd, is_v6: bool) {
    // A bit for each type; 1 drops it.
    let mut mask = [u32::MAX; 8];
    let (level, name, words) = match is_v6 {
        true => (libc::IPPROTO_ICMPV6, ICMP6_FILTER, 8),
        false => (libc::SOL_RAW, ICMP_FILTER, 1),
    };
    let kind: usize = if is_v6 { 129 } else { 0 };
    mask[kind / 32] &= !(1 << (kind % 32));
    // SAFETY: the kernel reads that many bytes of the array.
    let _ = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, name, mask.as_ptr().cast(), 4 * words)
    };
}

/// RFC 1071.
fn checksum(packet: &[u8]) -> u16 {
    let word = |pair: &[u8]| (u32::from(pair[0]) << 8) | pair.get(1).map_or(0, |low| (*low).into());
    let sum: u32 = packet.chunks(2).map(word).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}
