//! Connections that the far end accepts and closes, one after the other.

use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, listen, recv, send, sockopt};

use crate::protocol::error::FarError;
use crate::protocol::message::ProtocolClosing;

/// What the near end gets over the data connection once a connection was accepted, and once it was
/// closed.
pub const ACCEPTED: u8 = b'a';
pub const CLOSED: u8 = b'c';

/// The near end opens one connection at a time.
pub(crate) const BACKLOG: i32 = 16;
/// Beyond what a visit makes.
const CONNECTIONS_MAX: u64 = 1 << 20;

/// A listening socket for such connections.
pub(crate) fn open(address: IpAddr, backlog: i32) -> Result<TcpListener, FarError> {
    let failed = FarError::system("listen");
    let listener = TcpListener::bind((address, 0)).and_then(|listener| {
        listen(&listener, backlog)?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    listener.map_err(failed)
}

/// Accepts connections from the address of the near end until that closes the data connection.
/// Each is closed once the near end has closed it. Returns their number.
pub(crate) fn answer(
    data: &TcpStream,
    listener: &TcpListener,
    closing: ProtocolClosing,
    closed: &AtomicU64,
) -> Result<u64, FarError> {
    let near = data.peer_addr().map_err(FarError::system("getpeername"))?.ip();
    for number in 1..=CONNECTIONS_MAX {
        let Some(connection) = next(data, listener, near)? else {
            return Ok(closed.load(Relaxed));
        };
        report(data, ACCEPTED)?;
        if !wait_for_end(data, &connection)? {
            return Ok(closed.load(Relaxed));
        }
        if closing == ProtocolClosing::Reset {
            let failed = FarError::errno("SO_LINGER");
            sockopt::set_socket_linger(&connection, Some(Duration::ZERO)).map_err(failed)?;
        }
        drop(connection);
        // The only writer: a store suffices.
        closed.store(number, Relaxed);
        report(data, CLOSED)?;
    }
    Err(FarError::Unexpected("too many connections"))
}

/// The next connection of the near end; `None` once the data connection is closed.
pub(crate) fn next(
    data: &TcpStream,
    listener: &TcpListener,
    near: IpAddr,
) -> Result<Option<TcpStream>, FarError> {
    while !is_closed_before(data, listener.as_fd())? {
        match listener.accept() {
            Ok((connection, from)) if from.ip() == near => return Ok(Some(connection)),
            // Another host's, or it has gone again.
            Ok(_) | Err(_) => {}
        }
    }
    Ok(None)
}

/// Waits until the near end closes or resets a connection, which carries no data. False if it
/// closed the data connection before.
fn wait_for_end(data: &TcpStream, connection: &TcpStream) -> Result<bool, FarError> {
    while !is_closed_before(data, connection.as_fd())? {
        match recv(connection, &mut [0], RecvFlags::DONTWAIT) {
            Ok((0, _)) => return Ok(true),
            Ok(_) => return Err(FarError::Unexpected("data on a connection to be closed")),
            Err(Errno::AGAIN | Errno::INTR) => {}
            // A reset.
            Err(_) => return Ok(true),
        }
    }
    Ok(false)
}

/// Waits until the descriptor is readable. True if the data connection was closed before.
fn is_closed_before(data: &TcpStream, fd: BorrowedFd<'_>) -> Result<bool, FarError> {
    let mut waits =
        [PollFd::from_borrowed_fd(fd, PollFlags::IN), PollFd::new(data, PollFlags::RDHUP)];
    // Without a limit: the watchdog ends a far end that makes no progress.
    while let Err(error) = poll(&mut waits, None) {
        if error != Errno::INTR {
            return Err(FarError::errno("poll")(error));
        }
    }
    Ok(waits[0].revents().is_empty() && !waits[1].revents().is_empty())
}

fn report(data: &TcpStream, what: u8) -> Result<(), FarError> {
    match send(data, &[what], SendFlags::NOSIGNAL) {
        Ok(_) => Ok(()),
        Err(Errno::PIPE | Errno::CONNRESET) => Err(FarError::Closed),
        Err(error) => Err(FarError::errno("send")(error)),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::thread;

    use super::*;

    /// A far end in a thread, and what the near end has of it.
    struct AcceptEnds {
        data: TcpStream,
        connect: Box<dyn Fn() -> TcpStream>,
        far: thread::JoinHandle<Result<u64, FarError>>,
    }

    fn ends(closing: ProtocolClosing) -> AcceptEnds {
        let control = TcpListener::bind("127.0.0.1:0").unwrap();
        let data = TcpStream::connect(control.local_addr().unwrap()).unwrap();
        let (far_data, _) = control.accept().unwrap();
        let listener = open([127, 0, 0, 1].into(), BACKLOG).unwrap();
        let address = listener.local_addr().unwrap();
        let far = thread::spawn(move || answer(&far_data, &listener, closing, &AtomicU64::new(0)));
        AcceptEnds { data, connect: Box::new(move || TcpStream::connect(address).unwrap()), far }
    }

    fn report_of(mut data: &TcpStream) -> u8 {
        let mut byte = [0];
        data.read_exact(&mut byte).unwrap();
        byte[0]
    }

    #[test]
    fn connections_are_closed_as_asked() {
        for (closing, is_reset) in [(ProtocolClosing::Back, false), (ProtocolClosing::Reset, true)]
        {
            let AcceptEnds { data, connect, far } = ends(closing);
            for _ in 0..3 {
                let mut connection = connect();
                assert_eq!(report_of(&data), ACCEPTED);
                connection.shutdown(std::net::Shutdown::Write).unwrap();
                assert_eq!(report_of(&data), CLOSED);
                assert_eq!(connection.read(&mut [0]).is_err(), is_reset);
            }
            drop(data);
            assert_eq!(far.join().unwrap().unwrap(), 3);
        }
    }

    #[test]
    fn far_end_ends_during_a_connection() {
        let AcceptEnds { data, connect, far } = ends(ProtocolClosing::Back);
        let _open = connect();
        assert_eq!(report_of(&data), ACCEPTED);
        drop(data);
        assert_eq!(far.join().unwrap().unwrap(), 0);
    }

    #[test]
    fn data_or_another_address_is_refused() {
        let AcceptEnds { data, connect, far } = ends(ProtocolClosing::Back);
        let address = connect().peer_addr().unwrap();
        assert_eq!([report_of(&data), report_of(&data)], [ACCEPTED, CLOSED]);
        let other = std::net::SocketAddr::from(([127, 0, 0, 2], 0));
        let socket = rustix::net::socket(
            rustix::net::AddressFamily::INET,
            rustix::net::SocketType::STREAM,
            None,
        );
        let socket = socket.unwrap();
        rustix::net::bind(&socket, &other).unwrap();
        rustix::net::connect(&socket, &address).unwrap();
        // Closed without a report.
        assert!(matches!(recv(&socket, &mut [0], RecvFlags::empty()), Ok((0, _))));
        rustix::io::write(connect(), b"x").unwrap();
        assert_eq!(report_of(&data), ACCEPTED);
        let outcome = far.join().unwrap();
        assert!(matches!(outcome, Err(FarError::Unexpected(text)) if text.starts_with("data")));
    }
}
