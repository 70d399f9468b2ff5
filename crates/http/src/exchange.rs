//! One request and its response over a connection that blocks.

use std::io::{Error, ErrorKind, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fathom_measure::clock::monotonic_raw_ns;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};

use crate::connect::LOOK;
use crate::{ConnectError, Head, Malformed, PartialHead, Stream, StreamError, TlsError, TlsFault};

/// The head of a request without a body. `fields`: each `Name: value`.
pub fn request<F: AsRef<str>>(
    method: &str,
    target: &str,
    host: &str,
    fields: impl IntoIterator<Item = F>,
) -> String {
    let mut head = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n");
    for field in fields {
        head += field.as_ref();
        head += "\r\n";
    }
    head + "\r\n"
}

/// Why an exchange ended.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    #[error("{0}")]
    Io(Error),
    #[error("{0}")]
    Tls(#[from] TlsError),
    #[error("connection closed within the head")]
    ClosedInHead,
    #[error("no complete response in {} s", .0.as_secs_f64())]
    TimedOut(Duration),
    #[error("stopped")]
    Stopped,
    #[error("{0}")]
    Malformed(#[from] Malformed),
}

/// Of a call, or of a stream that was read as any other.
impl From<Error> for ExchangeError {
    fn from(error: Error) -> Self {
        match error.get_ref().and_then(|it| it.downcast_ref()) {
            // By TLS 1.3 that is said after the handshake.
            Some(StreamError::Tls(it)) if it.fault == TlsFault::ClientCertificate => {
                Self::Tls(it.clone())
            }
            _ => Self::Io(error),
        }
    }
}

impl From<ConnectError> for ExchangeError {
    fn from(error: ConnectError) -> Self {
        if error == ConnectError::Stopped { Self::Stopped } else { Self::Io(error.into()) }
    }
}

impl From<StreamError> for ExchangeError {
    fn from(error: StreamError) -> Self {
        match error {
            StreamError::Tls(error) => Self::Tls(error),
            error => Self::Io(error.into()),
        }
    }
}

/// When an exchange is given up.
#[derive(Clone, Copy, Debug)]
pub struct ExchangeLimits<'l> {
    timeout: Duration,
    until_ns: u64,
    stop: &'l AtomicBool,
}

impl<'l> ExchangeLimits<'l> {
    pub fn new(timeout: Duration, stop: &'l AtomicBool) -> Self {
        let timeout_ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        Self { timeout, until_ns: monotonic_raw_ns().saturating_add(timeout_ns), stop }
    }

    /// Begins the time again.
    pub fn renew(&mut self) {
        *self = Self::new(self.timeout, self.stop);
    }

    /// # Errors
    /// If the exchange is to stop, or its time is over.
    pub fn check(&self) -> Result<(), ExchangeError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(ExchangeError::Stopped);
        }
        let is_over = monotonic_raw_ns() >= self.until_ns;
        if is_over { Err(ExchangeError::TimedOut(self.timeout)) } else { Ok(()) }
    }

    /// Shakes hands, if that is to be. From then on a blocked receive returns now and then, to look
    /// around.
    ///
    /// # Errors
    /// If the connection fails, is not trusted, or the time is over.
    pub fn shake_hands(&self, stream: &mut Stream) -> Result<(), ExchangeError> {
        set_socket_timeout(&*stream, Timeout::Recv, Some(LOOK)).map_err(Error::from)?;
        set_socket_timeout(&*stream, Timeout::Send, Some(LOOK)).map_err(Error::from)?;
        let mut buffer = [0; 16 << 10];
        loop {
            match stream.shake_hands(&mut buffer) {
                Ok(true) => return Ok(()),
                Ok(false) | Err(StreamError::System(Errno::INTR)) => self.check()?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sends a request, after the handshake.
    ///
    /// # Errors
    /// If the connection fails, or the time is over.
    pub fn send(&self, stream: &mut Stream, request: &[u8]) -> Result<(), ExchangeError> {
        let mut sent = 0;
        loop {
            match stream.send(request, &mut sent) {
                Ok(true) => return Ok(()),
                Ok(false) | Err(StreamError::System(Errno::AGAIN | Errno::INTR)) => self.check()?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits for bytes; 0 at the end of the connection.
    ///
    /// # Errors
    /// If none arrive in time, the connection fails, or the exchange is to stop.
    pub fn receive(&self, from: &mut dyn Read, buffer: &mut [u8]) -> Result<usize, ExchangeError> {
        loop {
            match from.read(buffer) {
                Err(error) if is_pause(&error) => self.check()?,
                count => return Ok(count?),
            }
        }
    }

    /// Receives a head, and what of the body comes with it. `field`: as of
    /// [`parse_fields`](crate::parse_fields).
    ///
    /// # Errors
    /// If it is malformed or not complete in time: a byte now and then does not prolong it.
    pub fn head(
        &self,
        from: &mut dyn Read,
        buffer: &mut [u8],
        mut field: impl FnMut(u16, &str, &[u8]),
    ) -> Result<(Head, Vec<u8>), ExchangeError> {
        let mut pieces = PartialHead::default();
        loop {
            self.check()?;
            let count = self.receive(from, buffer)?;
            if let Some((head, body)) = pieces.add(&buffer[..count], &mut field)? {
                return Ok((head, body.to_vec()));
            }
            match count {
                0 if pieces.is_empty() => {
                    let text = "connection closed without a response";
                    return Err(Error::new(ErrorKind::UnexpectedEof, text).into());
                }
                0 => return Err(ExchangeError::ClosedInHead),
                _ => {}
            }
        }
    }
}

/// Whether a receive was not answered yet: the end of SO_RCVTIMEO is EAGAIN, while ETIMEDOUT means
/// that the kernel has given up.
pub fn is_pause(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_before_and_within_a_head_differ() {
        let stop = AtomicBool::new(false);
        let limits = ExchangeLimits::new(Duration::MAX, &stop);
        let head = |mut text: &[u8]| limits.head(&mut text, &mut [0; 7], |_, _, _| {});
        let (found, body) = head(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab").unwrap();
        assert_eq!((found.status, &body[..]), (200, &b"ab"[..]));
        assert!(matches!(head(b"HTTP/1.1 2"), Err(ExchangeError::ClosedInHead)));
        let error = head(b"").unwrap_err().to_string();
        assert_eq!(error, "connection closed without a response");
    }
}
