//! Connections of a client.

use std::fmt;
use std::io::{Error, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fathom_measure::clock::monotonic_raw_ns;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, socket_with, sockopt,
};

/// A call that blocks looks so often whether it is to stop.
pub(crate) const LOOK: Duration = Duration::from_millis(100);

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerAddress {
    Tcp(SocketAddr),
    /// Of a socket file.
    Unix(PathBuf),
}

impl ServerAddress {
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }

    /// Whether it is one of this host by its kind alone.
    pub fn is_loopback(&self) -> bool {
        self.tcp().is_none_or(|address| address.ip().to_canonical().is_loopback())
    }
}

impl From<SocketAddr> for ServerAddress {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

impl From<&Self> for ServerAddress {
    fn from(address: &Self) -> Self {
        address.clone()
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

/// How connections are made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Connector<'c> {
    /// The source address, if not the kernel's choice.
    pub from: Option<IpAddr>,
    /// Congestion control; the system's default if absent.
    pub congestion: Option<&'c str>,
    /// Closed by RST: no port stays in TIME_WAIT.
    pub resets: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectError {
    Socket(Errno),
    Congestion(Errno),
    Bind(Errno),
    Connect(Errno),
    TimedOut,
    Stopped,
}

impl Connector<'_> {
    /// Begins a connection without blocking. It is made when the socket is writable and has no
    /// error.
    ///
    /// # Errors
    /// If a call fails.
    pub fn begin(&self, to: impl Into<ServerAddress>) -> Result<OwnedFd, ConnectError> {
        let (socket, begun) = match to.into() {
            ServerAddress::Tcp(to) => {
                let socket = self.socket(to, SocketFlags::NONBLOCK)?;
                let begun = connect(&socket, &to);
                (socket, begun)
            }
            ServerAddress::Unix(path) => {
                let address = SocketAddrUnix::new(path).map_err(ConnectError::Connect)?;
                let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
                let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
                let socket = socket.map_err(ConnectError::Socket)?;
                let begun = connect(&socket, &address);
                (socket, begun)
            }
        };
        match begun {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
            Err(error) => Err(ConnectError::Connect(error)),
        }
    }

    /// A socket for a connection to this address.
    ///
    /// # Errors
    /// If a call fails.
    pub fn socket(&self, to: SocketAddr, flags: SocketFlags) -> Result<OwnedFd, ConnectError> {
        use ConnectError as E;
        let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = flags | SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::STREAM, flags, None).map_err(E::Socket)?;
        sockopt::set_tcp_nodelay(&socket, true).map_err(E::Socket)?;
        if self.resets {
            sockopt::set_socket_linger(&socket, Some(Duration::ZERO)).map_err(E::Socket)?;
        }
        // Before the handshake, in which ECN is negotiated; and one that is set later keeps the
        // pacing of the first.
        if let Some(name) = self.congestion {
            sockopt::set_tcp_congestion(&socket, name).map_err(E::Congestion)?;
        }
        if let Some(from) = self.from {
            let mut own = SocketAddr::new(from, 0);
            if let (SocketAddr::V6(own), SocketAddr::V6(to)) = (&mut own, to) {
                // A link-local address belongs to an interface.
                own.set_scope_id(to.scope_id());
            }
            bind(&socket, &own).map_err(E::Bind)?;
        }
        Ok(socket)
    }

    /// Makes a connection, whose calls block.
    ///
    /// # Errors
    /// If it is refused, not answered within the time, or to stop.
    pub fn open(
        &self,
        to: impl Into<ServerAddress>,
        timeout: Duration,
        stop: Option<&AtomicBool>,
    ) -> Result<OwnedFd, ConnectError> {
        let socket = self.begin(to)?;
        let begun_ns = monotonic_raw_ns();
        let mut left = timeout;
        loop {
            let look = Timespec::try_from(left.min(LOOK)).expect("a short time");
            match poll(&mut [PollFd::new(&socket, PollFlags::OUT)], Some(&look)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => break,
                Err(error) => return Err(ConnectError::Connect(error)),
            }
            if stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
                return Err(ConnectError::Stopped);
            }
            left = timeout.saturating_sub(Duration::from_nanos(monotonic_raw_ns() - begun_ns));
            if left.is_zero() {
                return Err(ConnectError::TimedOut);
            }
        }
        sockopt::socket_error(&socket).and_then(|end| end).map_err(ConnectError::Connect)?;
        ioctl_fionbio(&socket, false).map_err(ConnectError::Socket)?;
        Ok(socket)
    }
}

impl ConnectError {
    pub fn errno(self) -> Errno {
        match self {
            Self::Socket(errno) | Self::Congestion(errno) => errno,
            Self::Bind(errno) | Self::Connect(errno) => errno,
            Self::TimedOut => Errno::TIMEDOUT,
            Self::Stopped => Errno::CANCELED,
        }
    }
}

impl From<ConnectError> for Error {
    fn from(error: ConnectError) -> Self {
        match error {
            // The kernel's own number would say that it has given up.
            ConnectError::TimedOut => Self::new(ErrorKind::TimedOut, "connection timed out"),
            error => error.errno().into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    #[test]
    fn connection_comes_from_its_address_or_names_the_call() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let from = |address: [u8; 4]| Connector { from: Some(address.into()), ..<_>::default() };
        let near = TcpStream::from(from([127, 0, 0, 9]).open(to, LIMIT, None).unwrap());
        assert_eq!(near.local_addr().unwrap(), listener.accept().unwrap().1);
        assert_eq!(near.local_addr().unwrap().ip(), IpAddr::from([127, 0, 0, 9]));
        assert!(near.nodelay().unwrap());
        let failed = |connector: Connector<'_>| connector.open(to, LIMIT, None).unwrap_err();
        assert_eq!(failed(from([192, 0, 2, 1])), ConnectError::Bind(Errno::ADDRNOTAVAIL));
        let unknown = Connector { congestion: Some("no-such"), ..<_>::default() };
        assert_eq!(failed(unknown), ConnectError::Congestion(Errno::NOENT));
        drop(listener);
        assert_eq!(failed(Connector::default()), ConnectError::Connect(Errno::CONNREFUSED));
    }

    #[test]
    fn socket_file_is_connected_to_or_names_the_call() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let open = |path: &PathBuf| {
            Connector::default().open(ServerAddress::Unix(path.clone()), LIMIT, None)
        };
        assert_eq!(open(&path).unwrap_err(), ConnectError::Connect(Errno::NOENT));
        let listener = UnixListener::bind(&path).unwrap();
        let mut near = UnixStream::from(open(&path).unwrap());
        near.write_all(b"a").unwrap();
        let mut byte = [0];
        listener.accept().unwrap().0.read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"a");
        let long = folder.path().join("x".repeat(108));
        assert_eq!(open(&long).unwrap_err(), ConnectError::Connect(Errno::NAMETOOLONG));
    }

    #[test]
    fn unanswered_connect_ends_by_time_or_stop() {
        let listener =
            socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None);
        let listener = listener.unwrap();
        bind(&listener, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let listener = TcpListener::from(listener);
        let to = listener.local_addr().unwrap();
        // It fills the queue: the kernel drops the next SYN.
        let _queued = TcpStream::connect(to).unwrap();
        let open = |timeout, stop| Connector::default().open(to, timeout, stop).unwrap_err();
        assert_eq!(open(Duration::from_millis(1), None), ConnectError::TimedOut);
        assert_eq!(open(LIMIT, Some(&AtomicBool::new(true))), ConnectError::Stopped);
    }
}
