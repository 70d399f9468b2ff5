//! A TLS session over a socket: records in, plain text out, and the reverse.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustls::ProtocolVersion;
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, InsufficientSizeError,
    UnbufferedStatus,
};

use crate::stream_error::StreamError;
use crate::tls::{ClientIdentity, Tls};
use crate::tls_error::{TlsError, TlsFault};

/// Plain text that is encrypted at a time: a request of any length needs no more memory.
const PLAIN_BYTES: usize = 64 << 10;
/// What one call receives fits into the L2 cache with its plain text.
const CIPHER_BYTES: usize = 256 << 10;
/// The beginning of an unencrypted response.
const HTTP: &[u8] = b"HTTP/";

pub(crate) struct HttpSession {
    own: Arc<ClientIdentity>,
    connection: UnbufferedClientConnection,
    /// Received and not decrypted: less than a record, or a message of the handshake in part.
    incoming: Vec<u8>,
    /// Encrypted and not sent.
    outgoing: Vec<u8>,
    sent: usize,
    is_ready: bool,
    /// By the server's close_notify.
    is_closed: bool,
}

impl HttpSession {
    pub(crate) fn new(tls: &Tls) -> Result<Self, TlsError> {
        let (config, name) = (Arc::clone(&tls.config), tls.name.clone());
        Ok(Self {
            own: Arc::clone(&tls.own),
            connection: UnbufferedClientConnection::new(config, name)?,
            incoming: Vec::new(),
            outgoing: Vec::new(),
            sent: 0,
            is_ready: false,
            is_closed: false,
        })
    }

    /// `TLS 1.3` and the cipher suite, once the handshake is over.
    pub(crate) fn words(&self) -> Option<(&'static str, String)> {
        let version = match self.connection.protocol_version()? {
            ProtocolVersion::TLSv1_2 => "1.2",
            _ => "1.3",
        };
        let suite = self.connection.negotiated_cipher_suite()?.suite();
        let suite = suite.as_str().unwrap_or("unknown cipher").to_owned();
        let group = self.connection.negotiated_key_exchange_group();
        let group = group.map_or(String::new(), |group| format!(", {:?}", group.name()));
        Some((version, suite + &group))
    }

    /// Goes on with the handshake; whether it is over. Otherwise the socket has to be waited for,
    /// but after `EINTR`: a call receives once, so that a server that sends byte by byte cannot
    /// keep its caller from looking at the time. What then is left to send goes with the first
    /// request.
    pub(crate) fn shake_hands(
        &mut self,
        socket: &OwnedFd,
        buffer: &mut [u8],
    ) -> Result<bool, StreamError> {
        let mut incoming = std::mem::take(&mut self.incoming);
        let handled = self.handle(&mut incoming, &mut []);
        if self.is_ready && handled.is_ok() {
            return match self.connection.alpn_protocol() {
                None | Some(b"http/1.1") => Ok(true),
                Some(_) => Err(TlsError::new(TlsFault::NoHttp1).into()),
            };
        }
        // An alert, too; a server that is gone may have said why.
        let flushed = self.flush(socket);
        let (used, _) = handled.map_err(|error| match error.fault {
            TlsFault::Version if self.own.was_asked.load(Ordering::Relaxed) => {
                TlsError::new(TlsFault::ClientCertificate)
            }
            _ => error,
        })?;
        match flushed {
            Ok(()) | Err(Errno::AGAIN | Errno::PIPE | Errno::CONNRESET) => {}
            Err(error) => return Err(error.into()),
        }
        incoming.drain(..used);
        self.incoming = incoming;
        match recv(socket, &mut *buffer, RecvFlags::empty()) {
            Ok((_, 0)) => return Err(TlsError::new(TlsFault::Closed).into()),
            Ok((_, count)) => self.incoming.extend_from_slice(&buffer[..count]),
            Err(Errno::AGAIN) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        if HTTP.starts_with(&self.incoming[..self.incoming.len().min(HTTP.len())]) {
            return Err(TlsError::new(TlsFault::NoTls).into());
        }
        Err(Errno::INTR.into())
    }

    /// Receives plain text to the front of the buffer: the number of its bytes, 0 at the end, and
    /// whether nothing more has arrived. `EINTR`: what has arrived is no plain text yet; the call
    /// is to be made again.
    pub(crate) fn receive(
        &mut self,
        socket: &OwnedFd,
        buffer: &mut [u8],
    ) -> Result<(usize, bool), StreamError> {
        if self.is_closed {
            return Ok((0, true));
        }
        // The plain text is shorter than what was encrypted.
        let (plain, cipher) = buffer.split_at_mut(buffer.len() / 2);
        let most = cipher.len().min(CIPHER_BYTES);
        let kept = self.incoming.len();
        let room = cipher.get_mut(kept..most).filter(|room| !room.is_empty());
        let room = room.ok_or_else(|| TlsError::new(TlsFault::Protocol))?;
        let wanted = room.len();
        let count = match recv(socket, room, RecvFlags::empty())? {
            (_, 0) => return Err(StreamError::Cut),
            (_, count) => count,
        };
        cipher[..kept].copy_from_slice(&self.incoming);
        self.incoming.clear();
        let all = &mut cipher[..kept + count];
        let handled = self.handle(all, plain);
        // Such as an answer to new keys; what cannot be sent now goes with the next request.
        match self.flush(socket) {
            Ok(()) | Err(Errno::AGAIN) => {}
            Err(error) if handled.is_ok() => return Err(error.into()),
            Err(_) => {}
        }
        let (used, bytes) = handled?;
        self.incoming.extend_from_slice(&all[used..]);
        match bytes {
            0 if self.is_closed => Ok((0, true)),
            0 => Err(Errno::INTR.into()),
            bytes => Ok((bytes, count < wanted && !self.is_closed)),
        }
    }

    /// Sends the rest of `data`, of which `sent` bytes are sent or encrypted; whether all are sent.
    /// Otherwise the socket has to be waited for.
    pub(crate) fn send(
        &mut self,
        socket: &OwnedFd,
        data: &[u8],
        sent: &mut usize,
    ) -> Result<bool, StreamError> {
        loop {
            let rest = &data[*sent..];
            if !rest.is_empty() && self.sent == 0 && self.outgoing.len() < PLAIN_BYTES {
                let part = &rest[..rest.len().min(PLAIN_BYTES)];
                self.encrypt(part)?;
                *sent += part.len();
            }
            match self.flush(socket) {
                Ok(()) if *sent == data.len() => return Ok(true),
                Ok(()) => {}
                Err(Errno::AGAIN) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn flush(&mut self, socket: &OwnedFd) -> Result<(), Errno> {
        while self.sent < self.outgoing.len() {
            match send(socket, &self.outgoing[self.sent..], SendFlags::NOSIGNAL) {
                // A part: there is no more room, and the caller looks at the time.
                Ok(count) if count < self.outgoing.len() - self.sent => {
                    self.sent += count;
                    return Err(Errno::AGAIN);
                }
                Ok(count) => self.sent += count,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        self.outgoing.clear();
        self.sent = 0;
        Ok(())
    }

    /// Handles all complete records: how many bytes of them are used, and how many of plain text
    /// they had.
    fn handle(&mut self, cipher: &mut [u8], plain: &mut [u8]) -> Result<(usize, usize), TlsError> {
        let (mut used, mut bytes) = (0, 0);
        loop {
            let status = self.connection.process_tls_records(&mut cipher[used..]);
            let UnbufferedStatus { mut discard, state, .. } = status;
            match state {
                Err(error) => {
                    self.alert()?;
                    return Err(error.into());
                }
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record?;
                        let to = plain.get_mut(bytes..bytes + record.payload.len());
                        // There is room for all, but before the first request, when there is none.
                        let to = to.ok_or_else(|| TlsError::new(TlsFault::Protocol))?;
                        to.copy_from_slice(record.payload);
                        bytes += record.payload.len();
                        discard += record.discard;
                    }
                }
                Ok(ConnectionState::EncodeTlsData(data)) => encode(&mut self.outgoing, data)?,
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed) => self.is_closed = true,
                Ok(end) => {
                    self.is_ready |= matches!(end, ConnectionState::WriteTraffic(_));
                    return Ok((used + discard, bytes));
                }
            }
            used += discard;
        }
    }

    /// The alert to the server after an error, if TLS has one.
    fn alert(&mut self) -> Result<(), TlsError> {
        if self.connection.wants_write()
            && let Ok(ConnectionState::EncodeTlsData(data)) =
                self.connection.process_tls_records(&mut []).state
        {
            encode(&mut self.outgoing, data)?;
        }
        Ok(())
    }

    fn encrypt(&mut self, data: &[u8]) -> Result<(), TlsError> {
        let mut incoming = std::mem::take(&mut self.incoming);
        self.handle(&mut incoming, &mut [])?;
        let state = self.connection.process_tls_records(&mut incoming).state;
        let Ok(ConnectionState::WriteTraffic(mut traffic)) = state else {
            return Err(TlsError::new(TlsFault::Protocol));
        };
        append(&mut self.outgoing, |room| {
            traffic.encrypt(data, room).map_err(|error| match error {
                EncryptError::InsufficientSize(size) => Some(size),
                EncryptError::EncryptExhausted => None,
            })
        })?;
        self.incoming = incoming;
        Ok(())
    }
}

fn encode(
    to: &mut Vec<u8>,
    mut data: EncodeTlsData<'_, ClientConnectionData>,
) -> Result<(), TlsError> {
    append(to, |room| {
        data.encode(room).map_err(|error| match error {
            EncodeError::InsufficientSize(size) => Some(size),
            EncodeError::AlreadyEncoded => None,
        })
    })
}

/// Lets `write` append to a buffer, once more if it needs more room.
fn append(
    to: &mut Vec<u8>,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, Option<InsufficientSizeError>>,
) -> Result<(), TlsError> {
    let from = to.len();
    for _ in 0..2 {
        let room = to.capacity();
        to.resize(room, 0);
        match write(&mut to[from..]) {
            Ok(count) => {
                to.truncate(from + count);
                return Ok(());
            }
            Err(Some(InsufficientSizeError { required_size })) => {
                to.truncate(from);
                to.reserve(required_size);
            }
            Err(None) => break,
        }
    }
    to.truncate(from);
    Err(TlsError::new(TlsFault::Protocol))
}
