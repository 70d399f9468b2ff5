//! A connection of the coordinator: lines and one document in, lines out. It never waits.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use fathom_far::LINE_BYTES_MAX;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

const READ_BYTES: usize = 64 << 10;
/// Bytes that wait for a member that does not read, at most.
const UNSENT_MAX: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct Wire {
    socket: OwnedFd,
    received: Vec<u8>,
    unsent: Vec<u8>,
    /// Bytes of the document that are missing, and those that are here.
    document: Option<(usize, Vec<u8>)>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Item {
    Line(Vec<u8>),
    Document(Vec<u8>),
}

impl Wire {
    pub(super) fn new(socket: OwnedFd) -> Self {
        Self { socket, received: Vec::new(), unsent: Vec::new(), document: None }
    }

    /// Receives once.
    ///
    /// # Errors
    /// If the other end has closed the connection.
    pub(super) fn fill(&mut self) -> Result<(), String> {
        let mut piece = [0; READ_BYTES];
        match recv(&self.socket, &mut piece, RecvFlags::DONTWAIT) {
            Ok((0, _)) | Err(Errno::CONNRESET) => Err("connection closed".to_owned()),
            Ok((count, _)) => {
                self.received.extend_from_slice(&piece[..count]);
                Ok(())
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(()),
            Err(error) => Err(format!("connection lost: {error}")),
        }
    }

    /// The document follows.
    pub(super) fn expect(&mut self, bytes: usize) {
        self.document = Some((bytes, Vec::new()));
    }

    /// What has arrived whole.
    ///
    /// # Errors
    /// If a line is too long.
    pub(super) fn next(&mut self) -> Result<Option<Item>, String> {
        if let Some((missing, document)) = &mut self.document {
            let count = (*missing).min(self.received.len());
            document.extend(self.received.drain(..count));
            *missing -= count;
            if *missing > 0 {
                return Ok(None);
            }
            return Ok(self.document.take().map(|(_, document)| Item::Document(document)));
        }
        let end = self.received.iter().position(|byte| *byte == b'\n');
        if end.unwrap_or(self.received.len()) > LINE_BYTES_MAX {
            return Err("a line exceeds 64 KiB".to_owned());
        }
        let line = end.map(|end| self.received.drain(..=end).collect());
        if self.received.is_empty() {
            // Most of the time nothing is waiting: a thousand buffers would be held.
            self.received = Vec::new();
        }
        Ok(line.map(Item::Line))
    }

    /// Forgets what has arrived.
    pub(super) fn discard(&mut self) {
        (self.received, self.document) = (Vec::new(), None);
    }

    /// Sends a line, now or when the other end reads.
    ///
    /// # Errors
    /// If the connection is closed, or the other end reads too little.
    pub(super) fn send(&mut self, line: &[u8]) -> Result<(), String> {
        self.unsent.extend_from_slice(line);
        self.flush()?;
        match self.unsent.len() > UNSENT_MAX {
            true => Err("it does not read".to_owned()),
            false => Ok(()),
        }
    }

    /// # Errors
    /// If the connection is closed.
    pub(super) fn flush(&mut self) -> Result<(), String> {
        while !self.unsent.is_empty() {
            match send(&self.socket, &self.unsent, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(sent) => drop(self.unsent.drain(..sent)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::PIPE | Errno::CONNRESET) => return Err("connection closed".to_owned()),
                Err(error) => return Err(format!("connection lost: {error}")),
            }
        }
        self.unsent = Vec::new();
        Ok(())
    }

    pub(super) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn lines_and_document_come_whole() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let mut wire = Wire::new(near.into());
        far.write_all(b"{\"a\"").unwrap();
        wire.fill().unwrap();
        assert_eq!(wire.next().unwrap(), None);
        far.write_all(b":1}\nab").unwrap();
        wire.fill().unwrap();
        assert_eq!(wire.next().unwrap(), Some(Item::Line(b"{\"a\":1}\n".to_vec())));
        wire.expect(5);
        assert_eq!(wire.next().unwrap(), None);
        far.write_all(b"\nde{}\n").unwrap();
        wire.fill().unwrap();
        assert_eq!(wire.next().unwrap(), Some(Item::Document(b"ab\nde".to_vec())));
        assert_eq!(wire.next().unwrap(), Some(Item::Line(b"{}\n".to_vec())));
        drop(far);
        assert_eq!(wire.fill().unwrap_err(), "connection closed");
    }

    #[test]
    fn endless_line_is_refused() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let mut wire = Wire::new(near.into());
        let pieces = LINE_BYTES_MAX / 4096;
        for _ in 0..pieces {
            far.write_all(&[b'x'; 4096]).unwrap();
            wire.fill().unwrap();
            assert_eq!(wire.next().unwrap(), None);
        }
        far.write_all(b"x").unwrap();
        wire.fill().unwrap();
        assert_eq!(wire.next().unwrap_err(), "a line exceeds 64 KiB");
    }

    #[test]
    fn end_that_does_not_read_is_given_up() {
        let (near, far) = UnixStream::pair().unwrap();
        let mut wire = Wire::new(near.into());
        // More than its socket takes.
        let refused = wire.send(&vec![b'x'; UNSENT_MAX + (8 << 20)]);
        assert_eq!(refused.unwrap_err(), "it does not read");
        drop(far);
    }
}
