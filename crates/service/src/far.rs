//! Far ends: each upgraded connection goes to a fresh process.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use fathom_far::{Orders, Program, Token};
use fathom_measure::process::Limits;
use rustix::event::{EventfdFlags, eventfd};
use rustix::net::{SendFlags, send};

use crate::refusal::Refusal;
use crate::shared::Shared;

/// Far ends at a time.
const FAR_ENDS_MAX: usize = 8;
/// Longest life of a far end; without work it ends much earlier.
const LIFE_NS: u64 = 600_000_000_000;

const SWITCHING: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nServer: fathom\r\n\
    Connection: Upgrade\r\nUpgrade: fathom-far/1\r\n\r\n";
const FAILED: &[u8] = b"HTTP/1.1 500 Internal Server Error\r\nServer: fathom\r\n\
    Content-Length: 0\r\nConnection: close\r\n\r\n";

#[derive(Debug)]
pub(crate) struct FarEnds {
    program: Option<Program>,
    running: AtomicUsize,
    /// Readable once the service stops.
    stop: OwnedFd,
}

impl FarEnds {
    pub(crate) fn new(program: Option<Program>) -> std::io::Result<Self> {
        let stop = eventfd(0, EventfdFlags::CLOEXEC)?;
        Ok(Self { program, running: AtomicUsize::new(0), stop })
    }

    pub(crate) fn is_offered(&self) -> bool {
        self.program.is_some()
    }

    /// Starts a far end in a thread of its own, since that blocks, and waits there for its end.
    pub(crate) fn start(&self, shared: &Arc<Shared>, socket: OwnedFd) -> Result<(), Refusal> {
        if self.running.fetch_add(1, Relaxed) >= FAR_ENDS_MAX {
            self.running.fetch_sub(1, Relaxed);
            return Err(Refusal::ManyFarEnds);
        }
        let of_thread = Arc::clone(shared);
        let run = move || {
            of_thread.far.host(socket, of_thread.token.as_ref().map(text));
            of_thread.far.running.fetch_sub(1, Relaxed);
        };
        let thread = std::thread::Builder::new().name("far".to_owned()).stack_size(256 << 10);
        thread.spawn(run).map(drop).map_err(|_| {
            self.running.fetch_sub(1, Relaxed);
            Refusal::Busy
        })
    }

    fn host(&self, socket: OwnedFd, token: Option<String>) {
        let Some((program, answer)) = self.program.as_ref().zip(socket.try_clone().ok()) else {
            return;
        };
        let started = program.start(socket, &Orders::new(token));
        let text = if started.is_ok() { SWITCHING } else { FAILED };
        // The buffer of a new connection has room for it.
        let _ = send(&answer, text, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        drop(answer);
        if let Ok(mut far) = started {
            // Dropped after its end, its life or the service: that kills and reaps it.
            let _ = far.collect(Limits { time_ns: LIFE_NS, output_bytes: 0 }, self.stop.as_fd());
        }
    }

    /// Ends all far ends.
    pub(crate) fn stop(&self) {
        // It fails only where the counter is full, which is readable as well.
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
    }
}

fn text(token: &Token) -> String {
    String::from_utf8_lossy(token.bytes()).into_owned()
}
