//! Requests and their answers over the data connection, at both ends.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::protocol::error::FarError;

/// Sends each request back until the near end closes the connection. Returns their number.
pub(crate) fn answer(
    data: &impl AsFd,
    bytes: usize,
    busy: bool,
    trips: &AtomicU64,
) -> Result<u64, FarError> {
    let mut request = vec![0; bytes];
    loop {
        if !receive(data, &mut request, busy)? {
            return Ok(trips.load(Relaxed));
        }
        transmit(data, &request)?;
        // The only writer: a store suffices.
        trips.store(trips.load(Relaxed) + 1, Relaxed);
    }
}

/// Sends a request and waits until it is back, by sleeping or by polling. False if other bytes came
/// back.
///
/// # Errors
/// If the connection ended.
#[inline]
pub fn round_trip(
    data: &impl AsFd,
    request: &[u8],
    answer: &mut [u8],
    busy: bool,
) -> Result<bool, FarError> {
    transmit(data, request)?;
    if receive(data, answer, busy)? { Ok(request == answer) } else { Err(FarError::Closed) }
}

#[inline]
fn transmit(data: &impl AsFd, mut bytes: &[u8]) -> Result<(), FarError> {
    while !bytes.is_empty() {
        match send(data, bytes, SendFlags::NOSIGNAL) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(failed("send", error)),
        }
    }
    Ok(())
}

/// Fills the buffer; false if the connection was closed before its first byte.
#[inline]
fn receive(data: &impl AsFd, buffer: &mut [u8], busy: bool) -> Result<bool, FarError> {
    let flags = if busy { RecvFlags::DONTWAIT } else { RecvFlags::empty() };
    let mut at = 0;
    while at < buffer.len() {
        match recv(data, &mut buffer[at..], flags) {
            Ok((0, _)) if at == 0 => return Ok(false),
            Ok((0, _)) => return Err(FarError::Closed),
            Ok((count, _)) => at += count,
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(failed("recv", error)),
        }
    }
    Ok(true)
}

fn failed(call: &'static str, error: Errno) -> FarError {
    match error {
        Errno::PIPE | Errno::CONNRESET => FarError::Closed,
        error => FarError::errno(call)(error),
    }
}
