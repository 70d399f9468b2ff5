//! The control connection: lines of JSON, each of bounded length, and waits that end.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use fathom_measure::clock::monotonic_raw_ns;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::protocol::error::FarError;
use crate::protocol::message::ProtocolMessage;
use crate::protocol::{WAIT_NS, printable};

/// The longest line, without its end.
pub const LINE_BYTES_MAX: usize = 64 << 10;

const READ_BYTES: usize = 4 << 10;

#[derive(Debug)]
pub struct Channel {
    socket: OwnedFd,
    /// Received, and not yet returned.
    pending: Vec<u8>,
}

impl Channel {
    pub fn new(socket: OwnedFd) -> Self {
        Self { socket, pending: Vec::new() }
    }

    /// Sends one message as a line.
    ///
    /// # Errors
    /// If the line is too long, or the other end does not take it in time.
    pub fn send(&self, message: &impl Serialize) -> Result<(), FarError> {
        let mut line = serde_json::to_vec(message).unwrap_or_default();
        if line.len() > LINE_BYTES_MAX {
            return Err(FarError::TooLong);
        }
        line.push(b'\n');
        self.send_bytes(&line)
    }

    /// Sends bytes that are no line, such as those that a line has announced.
    ///
    /// # Errors
    /// If the other end does not take them in time.
    pub fn send_bytes(&self, mut bytes: &[u8]) -> Result<(), FarError> {
        let until = Deadline::after(WAIT_NS);
        while !bytes.is_empty() {
            match send(&self.socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(Errno::AGAIN) => until.wait(self.socket.as_fd(), PollFlags::OUT)?,
                Err(Errno::INTR) => {}
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(FarError::Closed),
                Err(error) => return Err(FarError::errno("send")(error)),
            }
        }
        Ok(())
    }

    /// Receives one message within `wait_ns`. An error that the other end reports is an error here.
    ///
    /// # Errors
    /// If none arrives in time, or it is too long or unknown.
    pub fn receive(&mut self, wait_ns: u64) -> Result<ProtocolMessage, FarError> {
        let line = self.until(wait_ns, line)?;
        match serde_json::from_slice(&line) {
            Ok(ProtocolMessage::Error { text, is_limit: true }) => {
                Err(FarError::Limit(printable(&text)))
            }
            Ok(ProtocolMessage::Error { text, .. }) => Err(FarError::Reported(printable(&text))),
            Ok(message) => Ok(message),
            Err(error) => Err(FarError::Unknown(printable(&error.to_string()))),
        }
    }

    /// Receives a line of JSON that is no message, such as over a data connection.
    ///
    /// # Errors
    /// As [`Channel::receive`].
    pub fn json<T: DeserializeOwned>(&mut self, wait_ns: u64) -> Result<T, FarError> {
        let line = self.until(wait_ns, line)?;
        serde_json::from_slice(&line)
            .map_err(|error| FarError::Unknown(printable(&error.to_string())))
    }

    /// Bytes that were received and not yet returned.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Receives what ends where `end` says, by what has arrived.
    pub(crate) fn until(
        &mut self,
        wait_ns: u64,
        mut end: impl FnMut(&[u8]) -> Result<Option<usize>, FarError>,
    ) -> Result<Vec<u8>, FarError> {
        // One deadline for the whole: a byte now and then does not prolong it.
        let until = Deadline::after(wait_ns);
        let mut piece = [0; READ_BYTES];
        loop {
            if let Some(end) = end(&self.pending)? {
                return Ok(self.pending.drain(..end).collect());
            }
            match recv(&self.socket, &mut piece, RecvFlags::DONTWAIT) {
                Ok((0, _)) | Err(Errno::CONNRESET) => return Err(FarError::Closed),
                Ok((count, _)) => self.pending.extend_from_slice(&piece[..count]),
                Err(Errno::AGAIN) => until.wait(self.socket.as_fd(), PollFlags::IN)?,
                Err(Errno::INTR) => {}
                Err(error) => return Err(FarError::errno("recv")(error)),
            }
        }
    }
}

/// The length of a line, with its end.
fn line(data: &[u8]) -> Result<Option<usize>, FarError> {
    let found = data.iter().position(|&byte| byte == b'\n');
    if found.unwrap_or(data.len()) > LINE_BYTES_MAX {
        return Err(FarError::TooLong);
    }
    Ok(found.map(|at| at + 1))
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The end of a wait.
#[derive(Clone, Copy)]
pub(crate) struct Deadline {
    until_ns: u64,
    wait_ns: u64,
}

impl Deadline {
    pub(crate) fn after(wait_ns: u64) -> Self {
        Self { until_ns: monotonic_raw_ns().saturating_add(wait_ns), wait_ns }
    }

    pub(crate) fn is_over(self) -> bool {
        monotonic_raw_ns() >= self.until_ns
    }

    /// Waits until one of the events.
    pub(crate) fn wait(self, fd: BorrowedFd<'_>, events: PollFlags) -> Result<(), FarError> {
        loop {
            let left_ns = self.until_ns.saturating_sub(monotonic_raw_ns());
            if left_ns == 0 {
                return Err(FarError::TimedOut(self.wait_ns as f64 / 1e9));
            }
            if poll_once(fd, events, left_ns)?.is_some() {
                return Ok(());
            }
        }
    }
}

/// The events of a descriptor; `None` after the time, or a signal.
pub(crate) fn poll_once(
    fd: BorrowedFd<'_>,
    events: PollFlags,
    wait_ns: u64,
) -> Result<Option<PollFlags>, FarError> {
    let timeout = Timespec {
        tv_sec: (wait_ns / 1_000_000_000) as i64,
        tv_nsec: (wait_ns % 1_000_000_000) as i64,
    };
    let mut waits = [PollFd::from_borrowed_fd(fd, events)];
    match poll(&mut waits, Some(&timeout)) {
        Ok(0) | Err(Errno::INTR) => Ok(None),
        Ok(_) => Ok(Some(waits[0].revents())),
        Err(error) => Err(FarError::errno("poll")(error)),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use super::*;
    use crate::protocol::TEXT_CHARACTERS_MAX;

    #[test]
    fn slow_line_does_not_prolong_the_wait() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let slow = std::thread::spawn(move || {
            // Until the other end closes.
            while far.write_all(b"x").is_ok() {
                // mood: a slow sender is what is tested; it ends when the line closes
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let mut channel = Channel::new(near.into());
        assert!(matches!(channel.receive(50_000_000), Err(FarError::TimedOut(_))));
        drop(channel);
        slow.join().unwrap();
    }

    #[test]
    fn lines_are_returned_one_by_one() {
        let (near, mut far) = UnixStream::pair().unwrap();
        far.write_all(b"{\"message\":\"host\"}\n{\"message\":\"go\"}\n{\"mess").unwrap();
        drop(far);
        let mut channel = Channel::new(near.into());
        assert_eq!(channel.receive(WAIT_NS).unwrap(), ProtocolMessage::Host);
        assert_eq!(channel.receive(WAIT_NS).unwrap(), ProtocolMessage::Go);
        assert!(matches!(channel.receive(WAIT_NS), Err(FarError::Closed)));
    }

    #[test]
    fn reported_error_has_no_control_characters() {
        let (near, far) = UnixStream::pair().unwrap();
        let text = format!("\u{1b}[2Jno{}", "o".repeat(1_000));
        Channel::new(far.into()).send(&ProtocolMessage::Error { text, is_limit: false }).unwrap();
        let error = Channel::new(near.into()).receive(WAIT_NS).unwrap_err().to_string();
        assert!(error.starts_with("[2Jno") && error.len() == TEXT_CHARACTERS_MAX, "{error}");
    }
}
