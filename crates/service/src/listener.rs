//! Listening sockets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, getsockname, listen, socket_with, sockopt,
};

use crate::error::ServiceError;
use crate::options::{Options, PORT};

/// The kernel limits it to net.core.somaxconn.
const BACKLOG: i32 = 4096;

#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) socket: OwnedFd,
    pub(crate) address: SocketAddr,
}

/// Listens on all addresses, or on none.
pub(crate) fn open(options: &Options) -> Result<Vec<Listener>, ServiceError> {
    let exposed = options.listen.iter().find(|address| !address.ip().to_canonical().is_loopback());
    if let Some(&address) = exposed.filter(|_| options.token.is_none()) {
        return Err(ServiceError::NeedsToken { address });
    }
    let one = |&address: &SocketAddr| {
        let failed = |error| ServiceError::Listen { address, error };
        let socket = prepare(address, is_ipv4_as_well(address, &options.listen)).map_err(failed)?;
        if let Some(name) = &options.congestion {
            sockopt::set_tcp_congestion(&socket, name).map_err(|error| {
                let path = "/proc/sys/net/ipv4/tcp_available_congestion_control";
                let available = std::fs::read_to_string(path).unwrap_or_default();
                let available = available.trim().to_owned();
                ServiceError::Congestion { name: name.clone(), error, available }
            })?;
        }
        listen(&socket, BACKLOG).map_err(failed)?;
        let bound = getsockname(&socket).and_then(SocketAddr::try_from).map_err(failed)?;
        Ok(Listener { socket, address: bound })
    };
    let loopback: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    let both = loopback.map(|address| SocketAddr::new(address, PORT));
    let all = if options.listen.is_empty() { &both[..] } else { &options.listen };
    let (mut listeners, mut missing) = (Vec::new(), None);
    for address in all {
        let is_one_of_both = address.ip().is_loopback()
            && loopback.iter().all(|ip| all.contains(&SocketAddr::new(*ip, address.port())));
        match one(address) {
            Ok(listener) => listeners.push(listener),
            // This machine has no IPv4 or no IPv6: the other loopback address is enough.
            Err(ServiceError::Listen {
                error: error @ (Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL),
                address,
            }) if is_one_of_both => missing = Some(ServiceError::Listen { error, address }),
            Err(error) => return Err(error),
        }
    }
    match missing {
        Some(error) if listeners.is_empty() => Err(error),
        _ => Ok(listeners),
    }
}

/// `[::]` is IPv4 as well, unless that has a socket of its own.
fn is_ipv4_as_well(address: SocketAddr, all: &[SocketAddr]) -> bool {
    let own = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), address.port());
    address.is_ipv6() && address.ip().is_unspecified() && !all.contains(&own)
}

/// Accepted sockets inherit the options.
fn prepare(address: SocketAddr, both_families: bool) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    // Without it a restart within a minute fails, because of connections in TIME_WAIT.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, !both_families)?;
    }
    bind(&socket, &address)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_addresses_of_both_families_are_one_socket_or_two() {
        let parsed = |text: &str| text.parse::<SocketAddr>().unwrap();
        let [four, six] = ["0.0.0.0:9300", "[::]:9300"].map(parsed);
        assert!(is_ipv4_as_well(six, &[six]));
        assert!(is_ipv4_as_well(six, &[six, parsed("0.0.0.0:9301")]));
        assert!(!is_ipv4_as_well(six, &[four, six]));
        assert!(!is_ipv4_as_well(four, &[four]) && !is_ipv4_as_well(parsed("[::1]:9300"), &[]));
    }
}
