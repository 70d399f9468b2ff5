//! Requests and their answers over UDP, at both ends.
//!
//! The far end's socket is connected to the near end's: to the sender of the first datagram from
//! the near end's host that is the nonce. From then on the kernel drops what others send. The data
//! connection stays open meanwhile, and its end ends the work: a datagram may be lost.

use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::protocol::WAIT_NS;
use crate::protocol::channel::Deadline;
use crate::protocol::error::FarError;
use crate::protocol::proof::{NONCE_DIGITS, is_same};

/// A round trip that takes longer is lost.
pub const TRIP_NS: u64 = 1_000_000_000;
/// How often the near end sends its first datagram, and how long it waits for each answer.
const TRIES: u32 = 6;
const TRY_NS: u64 = 400_000_000;
/// More datagrams than a receive buffer of the usual size has room for.
const QUEUED_MAX: u32 = 4096;
/// Answers to earlier requests during one trip.
const LATE_MAX: u32 = 64;
/// A polling end looks at something else once in so many polls.
const POLLS: u32 = 64;
/// A sleeping far end looks after this time without a datagram whether the work has ended.
const IDLE: Duration = Duration::from_millis(20);

/// How a round trip ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TripEnd {
    Answered,
    /// The answer was another one.
    Wrong,
    /// No answer within [`TRIP_NS`].
    Lost,
}

/// The far end's socket, connected to the near end's.
pub(crate) struct Datagrams<'d> {
    socket: UdpSocket,
    data: &'d TcpStream,
    nonce: String,
}

impl<'d> Datagrams<'d> {
    /// Waits for the first datagram.
    pub(crate) fn from_socket(
        socket: UdpSocket,
        data: &'d TcpStream,
        nonce: String,
    ) -> Result<Self, FarError> {
        let host = data.peer_addr().map_err(FarError::system("getpeername"))?.ip();
        socket.set_nonblocking(true).map_err(FarError::system("UDP"))?;
        let until = Deadline::after(WAIT_NS);
        // Of a longer datagram the rest is dropped.
        let mut found = [0; NONCE_DIGITS + 1];
        loop {
            until.wait(socket.as_fd(), PollFlags::IN)?;
            let Ok((count, from)) = socket.recv_from(&mut found) else { continue };
            if from.ip() == host && is_same(&found[..count], nonce.as_bytes()) {
                socket.connect(from).map_err(FarError::system("connect the UDP socket"))?;
                break;
            }
        }
        // What others sent before: the near end waits for the answer.
        let is_queued = |_: &u32| socket.recv(&mut found).is_ok();
        (0..QUEUED_MAX).take_while(is_queued).for_each(drop);
        socket.set_nonblocking(false).map_err(FarError::system("UDP"))?;
        socket.set_read_timeout(Some(IDLE)).map_err(FarError::system("SO_RCVTIMEO"))?;
        let this = Self { socket, data, nonce };
        this.send_back(this.nonce.as_bytes());
        Ok(this)
    }

    /// Sends each datagram of this length back until the data connection closes. Returns their
    /// number.
    pub(crate) fn answer(
        &self,
        bytes: usize,
        busy: bool,
        trips: &AtomicU64,
    ) -> Result<u64, FarError> {
        let flags = if busy { RecvFlags::DONTWAIT } else { RecvFlags::empty() };
        let mut request = vec![0; bytes.max(NONCE_DIGITS) + 1];
        let mut polls = 0_u32;
        loop {
            match recv(&self.socket, &mut request, flags) {
                Ok((count, _)) if count == bytes => {
                    self.send_back(&request[..count]);
                    // The only writer: a store suffices.
                    trips.store(trips.load(Relaxed) + 1, Relaxed);
                    polls = 0;
                }
                // The near end did not get the answer to its first datagram.
                Ok((count, _)) if is_same(&request[..count], self.nonce.as_bytes()) => {
                    self.send_back(&request[..count]);
                }
                Ok(_) => {}
                Err(error) if is_passing(error) => {
                    polls = polls.wrapping_add(1);
                    if (!busy || polls.is_multiple_of(POLLS)) && self.has_ended() {
                        return Ok(trips.load(Relaxed));
                    }
                }
                Err(error) => return Err(FarError::errno("recv")(error)),
            }
        }
    }

    /// Whether the data connection closed. Bytes are no end.
    fn has_ended(&self) -> bool {
        let received = recv(self.data, &mut [0; 64], RecvFlags::DONTWAIT);
        !matches!(received, Ok((1.., _)) | Err(Errno::AGAIN | Errno::INTR))
    }

    /// Passes each datagram of this length on until the data connection closes. The returned number
    /// of its bytes, if not 0, is the answer.
    pub(crate) fn each(
        &self,
        bytes: usize,
        mut answer: impl FnMut(&mut [u8]) -> usize,
    ) -> Result<(), FarError> {
        let mut datagram = vec![0; bytes.max(NONCE_DIGITS) + 1];
        loop {
            match recv(&self.socket, &mut datagram, RecvFlags::empty()) {
                Ok((count, _)) if count == bytes => match answer(&mut datagram[..count]) {
                    0 => {}
                    count => self.send_back(&datagram[..count]),
                },
                Ok((count, _)) if is_same(&datagram[..count], self.nonce.as_bytes()) => {
                    self.send_back(&datagram[..count]);
                }
                Ok(_) => {}
                Err(error) if is_passing(error) && self.has_ended() => return Ok(()),
                Err(error) if is_passing(error) => {}
                Err(error) => return Err(FarError::errno("recv")(error)),
            }
        }
    }

    /// An answer that cannot be sent is lost, which the near end counts.
    fn send_back(&self, bytes: &[u8]) {
        let _ = send(&self.socket, bytes, SendFlags::NOSIGNAL);
    }
}

/// Nothing to receive, or the network's reply to an earlier datagram.
pub(crate) fn is_passing(error: Errno) -> bool {
    matches!(
        error,
        Errno::AGAIN | Errno::INTR | Errno::CONNREFUSED | Errno::HOSTUNREACH | Errno::NETUNREACH
    )
}

/// The near end's socket, from the address of the data connection, once the far end has answered.
pub(crate) fn open(data: &TcpStream, far: SocketAddr, nonce: &str) -> Result<UdpSocket, FarError> {
    let mut own = data.local_addr().map_err(FarError::system("getsockname"))?;
    own.set_port(0);
    let socket = UdpSocket::bind(own).map_err(FarError::system("bind a UDP socket"))?;
    socket.connect(far).map_err(FarError::system("connect the UDP socket"))?;
    let limit = |ns| socket.set_read_timeout(Some(Duration::from_nanos(ns)));
    limit(TRY_NS).map_err(FarError::system("SO_RCVTIMEO"))?;
    let mut answer = [0; NONCE_DIGITS + 1];
    for _ in 0..TRIES {
        let sent = socket.send(nonce.as_bytes());
        match sent.and_then(|_| socket.recv(&mut answer)) {
            Ok(count) if is_same(&answer[..count], nonce.as_bytes()) => {
                limit(TRIP_NS).map_err(FarError::system("SO_RCVTIMEO"))?;
                return Ok(socket);
            }
            // No answer in time, or a refusal by the network.
            Ok(_) | Err(_) => {}
        }
    }
    Err(FarError::NoDatagrams(far.port()))
}

/// Sends a request over a UDP socket with a time limit, and waits until it is back, by sleeping or
/// by polling. Another answer is a late one, to a request that is already lost.
///
/// # Errors
/// If a call fails for another reason than the network's.
#[inline]
pub fn datagram_trip(
    socket: &UdpSocket,
    request: &[u8],
    answer: &mut [u8],
    busy: bool,
) -> Result<TripEnd, FarError> {
    match send(socket, request, SendFlags::NOSIGNAL) {
        Ok(_) => {}
        // A full queue, or the reply to an earlier datagram.
        Err(error) if is_passing(error) || error == Errno::NOBUFS => return Ok(TripEnd::Lost),
        Err(error) => return Err(FarError::errno("send")(error)),
    }
    let flags = if busy { RecvFlags::DONTWAIT } else { RecvFlags::empty() };
    let (mut polls, mut late, mut until) = (0_u32, 0, None);
    loop {
        match recv(socket, &mut *answer, flags) {
            Ok((count, _)) if answer[..count] == *request => return Ok(TripEnd::Answered),
            Ok(_) if late < LATE_MAX => late += 1,
            Ok(_) => return Ok(TripEnd::Wrong),
            Err(Errno::AGAIN) if busy => {
                polls += 1;
                if polls.is_multiple_of(POLLS) {
                    let until: &Deadline = until.get_or_insert_with(|| Deadline::after(TRIP_NS));
                    if until.is_over() {
                        return Ok(TripEnd::Lost);
                    }
                }
            }
            Err(Errno::INTR) => {}
            Err(error) if is_passing(error) => return Ok(TripEnd::Lost),
            Err(error) => return Err(FarError::errno("recv")(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    const NONCE: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn udp() -> UdpSocket {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        socket
    }

    /// A far end that answers datagrams of one byte, with its address and the data connection.
    fn far(busy: bool) -> (std::thread::JoinHandle<u64>, SocketAddr, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (data, _) = listener.accept().unwrap();
        let socket = udp();
        let address = socket.local_addr().unwrap();
        let work = move || {
            let far = Datagrams::from_socket(socket, &data, NONCE.to_owned()).unwrap();
            far.answer(1, busy, &AtomicU64::new(0)).unwrap()
        };
        (std::thread::spawn(work), address, near)
    }

    #[test]
    fn end_of_the_data_connection_ends_the_work() {
        for busy in [false, true] {
            let (far, address, data) = far(busy);
            let near = open(&data, address, NONCE).unwrap();
            let mut answer = [0; 2];
            for byte in 0..3 {
                let trip = datagram_trip(&near, &[byte], &mut answer, busy).unwrap();
                assert_eq!(trip, TripEnd::Answered);
            }
            // An empty datagram is no end, and another length is no request.
            near.send(&[]).unwrap();
            near.send(&[1; 5]).unwrap();
            let trip = datagram_trip(&near, &[9], &mut answer, busy).unwrap();
            assert_eq!(trip, TripEnd::Answered);
            drop(data);
            assert_eq!(far.join().unwrap(), 4);
        }
    }

    #[test]
    fn strangers_get_no_answer() {
        let (far, address, data) = far(false);
        let stranger = udp();
        let wrong = NONCE.replace('a', "b");
        for datagram in [&b"x"[..], wrong.as_bytes(), format!("{NONCE}0").as_bytes()] {
            stranger.send_to(datagram, address).unwrap();
        }
        let near = open(&data, address, NONCE).unwrap();
        // With the nonce, but too late.
        for datagram in [b"x", NONCE.as_bytes()] {
            stranger.send_to(datagram, address).unwrap();
        }
        // The far end handles datagrams in order.
        let trip = datagram_trip(&near, &[1], &mut [0; 2], false).unwrap();
        assert_eq!(trip, TripEnd::Answered);
        stranger.set_nonblocking(true).unwrap();
        assert!(stranger.recv(&mut [0; 80]).is_err());
        drop(data);
        assert_eq!(far.join().unwrap(), 1);
    }

    #[test]
    fn silent_far_end_is_not_waited_for() {
        let (_listener, near) = {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            (listener, near)
        };
        let silent = udp();
        let error = open(&near, silent.local_addr().unwrap(), NONCE).unwrap_err();
        assert!(matches!(error, FarError::NoDatagrams(_)), "{error}");
    }
}
