//! The endpoint of `--metrics`: what a load does, for monitoring, while it runs.
//!
//! One thread of its own answers. It waits in the kernel between two requests, holds few
//! connections, and each of them for a short time only, whatever its client does.

mod answer;
mod exposition;

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use fathom_measure::clock::monotonic_raw_ns as now_ns;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use self::answer::{HEAD_BYTES_MAX, answer};
use self::exposition::text;
use crate::seconds::Watched;

/// The oldest of them is given up for a further one: who sends nothing keeps nobody away.
const CONNECTIONS_MAX: usize = 64;
/// From the accept to the end of a connection.
const CONNECTION_NS: u64 = 2_000_000_000;
/// After a connection could not be accepted, such as without a free descriptor.
const PAUSE: Duration = Duration::from_millis(100);

/// Answers until it is dropped.
pub struct Monitor {
    pub address: SocketAddr,
    /// Its end wakes the thread.
    wake: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Monitor {
    /// `token`: what each request must have; on loopback none.
    ///
    /// # Errors
    /// If the address cannot be used, or no thread can be started.
    pub fn start(
        listen: SocketAddr,
        token: Option<String>,
        watched: Arc<Watched>,
    ) -> std::io::Result<Self> {
        let listener = TcpListener::bind(listen)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (wake, woken) = UnixStream::pair()?;
        let serve = move || {
            let mut service = MonitorService { token, watched, open: Vec::new() };
            while service.turn(&listener, &woken) {}
        };
        let thread = std::thread::Builder::new().name("metrics".to_owned()).spawn(serve)?;
        Ok(Self { address, wake: Some(wake), thread: Some(thread) })
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        drop(self.wake.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct MonitorConnection {
    stream: TcpStream,
    received: Vec<u8>,
    is_answered: bool,
    until_ns: u64,
}

struct MonitorService {
    token: Option<String>,
    watched: Arc<Watched>,
    open: Vec<MonitorConnection>,
}

impl MonitorService {
    /// Waits for what happens next, and handles it; `false` at the end.
    fn turn(&mut self, listener: &TcpListener, woken: &UnixStream) -> bool {
        let mut all = [woken.as_fd(), listener.as_fd()]
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .to_vec();
        all.extend(self.open.iter().map(|one| PollFd::new(&one.stream, PollFlags::IN)));
        let first_ns = self.open.iter().map(|one| one.until_ns).min();
        let left = first_ns.map(|until_ns| {
            let left_ns = until_ns.saturating_sub(now_ns());
            Timespec {
                tv_sec: (left_ns / 1_000_000_000) as i64,
                tv_nsec: (left_ns % 1_000_000_000) as i64,
            }
        });
        match poll(&mut all, left.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return true,
            Err(_) => return false,
        }
        let ready: Vec<bool> = all.iter().map(|one| !one.revents().is_empty()).collect();
        if ready[0] {
            return false;
        }
        let now = now_ns();
        let Self { token, watched, open } = self;
        let mut ready_open = ready[2..].iter();
        open.retain_mut(|one| {
            let is_ready = ready_open.next() == Some(&true);
            (!is_ready || one.receive(token.as_deref(), watched)) && now < one.until_ns
        });
        if ready[1] {
            self.accept(listener, now);
        }
        true
    }

    fn accept(&mut self, listener: &TcpListener, now: u64) {
        let accepted = listener.accept().and_then(|(stream, _)| {
            stream.set_nonblocking(true)?;
            Ok(stream)
        });
        match accepted {
            Ok(stream) => {
                if self.open.len() == CONNECTIONS_MAX {
                    self.open.remove(0);
                }
                let (received, until_ns) = (Vec::new(), now + CONNECTION_NS);
                self.open.push(MonitorConnection {
                    stream,
                    received,
                    is_answered: false,
                    until_ns,
                });
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

impl MonitorConnection {
    /// Takes what has arrived, and answers a whole request; whether the connection stays.
    fn receive(&mut self, token: Option<&str>, watched: &Watched) -> bool {
        let mut part = [0; 1024];
        loop {
            let count = match self.stream.read(&mut part) {
                Ok(0) => return false,
                Ok(count) => count,
                Err(error) => {
                    return matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted);
                }
            };
            // Bytes that nobody has read would reset the connection, and with it the answer.
            if self.is_answered {
                continue;
            }
            let room = HEAD_BYTES_MAX - self.received.len();
            self.received.extend_from_slice(&part[..count.min(room)]);
            let Some(answer) = answer(&self.received, token, || text(watched)) else { continue };
            // A new socket has room for it.
            let is_sent = self.stream.write(&answer).is_ok_and(|sent| sent == answer.len());
            if !is_sent || self.stream.shutdown(Shutdown::Write).is_err() {
                return false;
            }
            self.is_answered = true;
        }
    }
}

#[cfg(test)]
mod tests;
