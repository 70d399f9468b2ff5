//! The bytes of a connection, plain or by TLS, of a socket that blocks or not.

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::session::HttpSession;
use crate::stream_error::StreamError;
use crate::tls::Tls;
use crate::tls_error::TlsError;

/// A reader with a smaller buffer reads from one of this size.
const BUFFER_BYTES: usize = 128 << 10;

/// Its calls block if those of the socket do; a socket with a time limit, or one that does not
/// block, has to be waited for after `EAGAIN`. After `EINTR` a call is to be made again: by TLS it
/// is also what a call says that has received less than a record.
pub struct Stream {
    socket: OwnedFd,
    session: Option<Box<Secured>>,
}

struct Secured {
    session: HttpSession,
    /// Plain text that a reader has not taken yet, and where it begins.
    read: Vec<u8>,
    at: usize,
}

impl Stream {
    /// # Errors
    /// If no session can be begun.
    pub fn new(socket: OwnedFd, tls: Option<&Tls>) -> Result<Self, TlsError> {
        let secured = |tls: &Tls| {
            let session = HttpSession::new(tls)?;
            Ok::<_, TlsError>(Box::new(Secured { session, read: Vec::new(), at: 0 }))
        };
        Ok(Self { socket, session: tls.map(secured).transpose()? })
    }

    /// Whether there is a handshake, after the connect.
    pub fn is_secured(&self) -> bool {
        self.session.is_some()
    }

    /// The version of TLS, and cipher suite with key exchange, once a handshake is over.
    pub fn tls_words(&self) -> Option<(&'static str, String)> {
        self.session.as_ref()?.session.words()
    }

    /// Goes on with the handshake; whether it is over. Otherwise the socket has to be waited for.
    /// The buffer is for what arrives.
    ///
    /// # Errors
    /// If the connection fails, or the server is not to be trusted.
    pub fn shake_hands(&mut self, buffer: &mut [u8]) -> Result<bool, StreamError> {
        match &mut self.session {
            None => Ok(true),
            Some(secured) => secured.session.shake_hands(&self.socket, buffer),
        }
    }

    /// Sends the rest of `data`, of which the first `sent` bytes are done; whether all are.
    ///
    /// # Errors
    /// If the connection fails; `EAGAIN` if the socket has to be waited for.
    pub fn send(&mut self, data: &[u8], sent: &mut usize) -> Result<bool, StreamError> {
        match &mut self.session {
            None => {
                *sent += send(&self.socket, &data[*sent..], SendFlags::NOSIGNAL)?;
                Ok(*sent == data.len())
            }
            Some(secured) => secured.session.send(&self.socket, data, sent),
        }
    }

    /// Receives to the front of the buffer, of at least 64 KiB if by TLS: the number of bytes, 0 at
    /// the end of the data, and whether nothing more has arrived. `drops`: the kernel need not copy
    /// them.
    ///
    /// # Errors
    /// If the connection fails; `EAGAIN` if the socket has to be waited for.
    pub fn receive(
        &mut self,
        buffer: &mut [u8],
        drops: bool,
    ) -> Result<(usize, bool), StreamError> {
        match &mut self.session {
            None => {
                let flags = if drops { RecvFlags::TRUNC } else { RecvFlags::empty() };
                let most = buffer.len();
                let (_, count) = recv(&self.socket, buffer, flags)?;
                Ok((count, count < most))
            }
            Some(secured) => secured.session.receive(&self.socket, buffer),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let Some(secured) = &mut self.session else { return Ok(self.receive(buffer, false)?.0) };
        let Secured { session, read, at } = &mut **secured;
        if *at == read.len() {
            if buffer.len() >= BUFFER_BYTES {
                return Ok(session.receive(&self.socket, buffer)?.0);
            }
            (*at, _) = (0, read.clear());
            read.resize(BUFFER_BYTES, 0);
            let received = session.receive(&self.socket, read);
            read.truncate(received.as_ref().map_or(0, |(count, _)| *count));
            received?;
        }
        let count = (&read[*at..]).read(buffer)?;
        *at += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests;
