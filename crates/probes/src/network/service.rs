//! A service of files, started for the visit or on another host, and one connection to it.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::ops::Range;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use fathom_far::{FarError, Token};
use fathom_http::{ExchangeError, Framing, Head, Malformed, parse, request};
use fathom_load::{Control, ControlError};
use fathom_measure::clock::monotonic_raw_ns;
use fathom_measure::process::Running;
use fathom_measure::sampler::FarPlace;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::connect;

use super::{connections, ends};
use crate::prelude::*;

/// A wait for the service, at most.
const WAIT: Duration = Duration::from_secs(10);
/// The longest text before the address.
const OPENING_BYTES_MAX: usize = 16 << 10;
/// The service may be another program: more is not asked for.
const BODY_BYTES_MAX: u64 = 64 << 20;
/// Room for the head of a response.
const HEAD_BYTES: usize = 16 << 10;

/// The folder that a service of this visit serves, removed with its files.
pub(super) struct Served(PathBuf);

impl Served {
    pub(super) fn new(sampler: &Sampler) -> Result<Self> {
        // A name by which the run knows it as its own, and removes it if this process is killed.
        let folder = sampler.files()?.folder.join(format!("f-{}", std::process::id()));
        let failed = |error| SamplerFault::system("create a folder to serve", error);
        fs::create_dir(&folder).map_err(failed)?;
        Ok(Self(folder))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // The run removes what is left.
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(super) struct Service {
    to: String,
    address: SocketAddr,
    /// Value of the field Host.
    host: String,
    token: Option<Token>,
    /// The source address of connections, if not the kernel's choice.
    bind: Option<IpAddr>,
    /// Of a whole exchange.
    wait: Duration,
    /// The process, if it is on this host. Killed on drop.
    _process: Option<Running>,
}

impl Service {
    /// Starts a service of the folder on the other CPU, or uses the one on the other host.
    pub(super) fn open(place: &FarPlace, served: &Served, sampler: &mut Sampler) -> Result<Self> {
        let to = place.to.clone();
        let token = place.token_file.as_deref().map(Token::read).transpose();
        let token = token.map_err(|error| ends::fault(&to, error))?;
        let (address, process) = match place.address {
            Some(address) => (address, None),
            None => {
                ends::check_loopback()?;
                let cpu = ends::far_cpu(place, 2, sampler)?;
                let (process, address) = start(served.path(), cpu)?;
                sampler.works_with(process.id());
                (address, Some(process))
            }
        };
        let (host, bind) = (address.to_string(), place.bind);
        Ok(Self { to, address, host, token, bind, wait: WAIT, _process: process })
    }

    /// The connection beside the work.
    pub(super) fn control(&self) -> Control {
        let fields: Vec<String> = self.authorization().into_iter().collect();
        Control::new(self.address, &self.host, &fields, WAIT).bound_to(self.bind)
    }

    fn authorization(&self) -> Option<String> {
        let token = String::from_utf8_lossy(self.token.as_ref()?.bytes());
        Some(format!("Authorization: Bearer {token}"))
    }

    /// A request for a path, with a further field.
    pub(super) fn request(&self, path: &str, fields: Option<&str>) -> Vec<u8> {
        let token = self.authorization();
        let fields = token.iter().map(String::as_str).chain(fields);
        request("GET", path, &self.host, fields).into_bytes()
    }

    /// A new connection. Closing it leaves no TIME_WAIT.
    pub(super) fn connect(&self) -> Result<TcpStream> {
        let socket = connections::socket(self.address, self.bind, true, WAIT)?;
        let connected = connect(&socket, &self.address).map_err(connections::timed_out);
        let connected = connected.and_then(|()| {
            let stream = TcpStream::from(socket);
            stream.set_read_timeout(Some(WAIT))?;
            Ok(stream)
        });
        connected.map_err(|error| self.failed("connect", error))
    }

    fn failed(&self, call: &'static str, error: std::io::Error) -> SamplerFault {
        ends::fault(&self.to, FarError::System { call, error })
    }

    /// Why a request beside the work failed.
    pub(super) fn refused(&self, what: &str, error: ControlError) -> SamplerFault {
        match error {
            ControlError::Exchange(ExchangeError::Io(error)) => self.failed("control", error),
            ControlError::Status(status @ (401 | 403)) => SamplerFault::Unavailable(
                format!("{}: {what} is refused ({status})", self.to),
                None,
            ),
            error => SamplerFault::Failed(format!("{}: {what}: {error}", self.to)),
        }
    }

    /// Sends a request and receives the whole response. Returns where its body is in the buffer.
    #[inline]
    pub(super) fn exchange(
        &self,
        mut stream: &TcpStream,
        request: &[u8],
        expected: u16,
        buffer: &mut Vec<u8>,
    ) -> Result<Range<usize>> {
        stream.write_all(request).map_err(|error| self.failed("send", error))?;
        if buffer.len() < HEAD_BYTES {
            buffer.resize(HEAD_BYTES, 0);
        }
        let (mut at, mut end, mut until_ns) = (0, None, None);
        loop {
            let count =
                stream.read(&mut buffer[at..]).map_err(|error| self.failed("recv", error))?;
            at += count;
            if end.is_none() {
                let malformed =
                    |malformed: Malformed| SamplerFault::WrongWork(malformed.to_string());
                if let Some(Head { status, framing, bytes: head, .. }) =
                    parse(&buffer[..at]).map_err(malformed)?
                {
                    let Framing::Length(body) = framing else {
                        let part = "malformed response: Content-Length";
                        return Err(SamplerFault::WrongWork(part.to_owned()));
                    };
                    if status != expected {
                        return Err(SamplerFault::WrongWork(format!(
                            "status {status}, not {expected}"
                        )));
                    }
                    if body > BODY_BYTES_MAX {
                        return Err(SamplerFault::WrongWork(format!("a body of {body} bytes")));
                    }
                    let all = head + body as usize;
                    buffer.resize(buffer.len().max(all), 0);
                    end = Some((head, all));
                }
            }
            match end {
                Some((head, all)) if at == all => return Ok(head..all),
                Some((_, all)) if at > all => {
                    return Err(SamplerFault::WrongWork(
                        "more bytes than Content-Length".to_owned(),
                    ));
                }
                _ if count == 0 => {
                    return Err(ends::fault(&self.to, FarError::Closed));
                }
                // One deadline for all that follows: a byte now and then does not prolong it. The
                // first read has its own, so that a short exchange reads no clock.
                _ => {
                    let now_ns = monotonic_raw_ns();
                    if now_ns >= *until_ns.get_or_insert(now_ns + self.wait.as_nanos() as u64) {
                        let late = FarError::TimedOut(self.wait.as_secs_f64());
                        return Err(ends::fault(&self.to, late));
                    }
                }
            }
        }
    }
}

/// Starts a service of the folder on a port of its choice.
fn start(folder: &Path, cpu: u32) -> Result<(Running, SocketAddr)> {
    let program = ends::service_program().map_err(|error| ends::fault("loopback", error))?;
    let command = || {
        let mut command = Command::new(&program.path);
        command.args(&program.arguments).arg(folder);
        // The folder has generated data only.
        command.env_remove("FATHOM_TOKEN_FILE").env_remove("FATHOM_SERIALIZE");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        Ok(command)
    };
    let failed = |error| SamplerFault::system("start a service", error);
    let mut process = Running::start_tied(command, &[cpu]).map_err(failed)?;
    let address = address(&mut process)?;
    Ok((process, address))
}

/// Where it listens, by the first line that it prints.
fn address(process: &mut Running) -> Result<SocketAddr> {
    let failed = |error| SamplerFault::system("start a service", error);
    let out = process.stdout().map_err(failed)?;
    let until_ns = monotonic_raw_ns() + WAIT.as_nanos() as u64;
    let mut text = Vec::new();
    while text.len() < OPENING_BYTES_MAX && !text.contains(&b'\n') {
        let left_ns = until_ns.saturating_sub(monotonic_raw_ns());
        let left = Timespec { tv_sec: (left_ns / 1_000_000_000) as i64, tv_nsec: 0 };
        let mut wait = [PollFd::from_borrowed_fd(out.as_fd(), PollFlags::IN)];
        let is_ready = poll(&mut wait, Some(&left)).is_ok_and(|count| count > 0);
        let mut piece = [0; 4096];
        match is_ready.then(|| out.read(&mut piece)) {
            Some(Ok(count)) if count > 0 => text.extend_from_slice(&piece[..count]),
            Some(Err(error)) => return Err(failed(error)),
            _ => break,
        }
    }
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().next().unwrap_or_default();
    let address = line.rsplit_once("http://").and_then(|(_, rest)| {
        let rest = rest.trim_end_matches('/');
        rest.parse().ok()
    });
    address.ok_or_else(|| SamplerFault::Failed(format!("the service does not listen: `{line}`")))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// A service that waits for as long, and the two ends of a connection to it.
    fn connected(wait: Duration) -> (Service, TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (to, host) = ("elsewhere".to_owned(), address.to_string());
        let (token, bind) = (None, None);
        let service = Service { to, address, host, token, bind, wait, _process: None };
        let near = TcpStream::connect(address).unwrap();
        (service, near, listener.accept().unwrap().0)
    }

    #[test]
    fn slow_body_does_not_prolong_the_wait() {
        let (service, near, mut far) = connected(Duration::from_millis(50));
        let slow = std::thread::spawn(move || {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {BODY_BYTES_MAX}\r\n\r\n");
            far.write_all(head.as_bytes()).unwrap();
            // Until the other end closes.
            while far.write_all(b"x").is_ok() {
                // mood: a slow sender is what is tested; it ends when the near end closes
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let found = service.exchange(&near, b"", 200, &mut Vec::new());
        let fault = format!("{:?}", found.unwrap_err());
        assert!(fault.contains("no answer within 0.05 s"), "{fault}");
        drop(near);
        slow.join().unwrap();
    }

    #[test]
    fn length_from_another_program_takes_no_memory() {
        let (service, near, mut far) = connected(WAIT);
        for length in [5, BODY_BYTES_MAX + 1, u64::MAX >> 1] {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
            far.write_all(head.as_bytes()).unwrap();
            if length == 5 {
                far.write_all(b"hello").unwrap();
            }
            let mut buffer = Vec::new();
            let found = service.exchange(&near, b"", 200, &mut buffer);
            if length == 5 {
                assert_eq!(&buffer[found.unwrap()], b"hello");
            } else {
                let fault = format!("{:?}", found.unwrap_err());
                assert!(fault.contains(&format!("a body of {length} bytes")), "{fault}");
            }
            assert!(buffer.len() <= HEAD_BYTES);
        }
    }
}
