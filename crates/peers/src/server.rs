//! The server end of a peer's benchmark, on loopback: started before its client, killed after it.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::os::fd::BorrowedFd;

use fathom_measure::clock;
use fathom_measure::process::{self, OutputLimits, Running};
use fathom_record::{Activity, system_cause};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::process::{Invocation, OUTPUT_MAX, RunError, Runner};

/// Time for a server to bind its port.
const START_NS: u64 = 60_000_000_000;
const POLL_NS: i64 = 5_000_000;
/// Time to read what a server printed before it ended.
const LAST_WORDS_NS: u64 = 1_000_000_000;
/// State of a listening socket in `/proc/net/tcp`.
const LISTEN: &str = "0A";
const ATTEMPTS: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerProtocol {
    Tcp,
    Udp,
}

/// A server, and the port on which it waits.
#[derive(Clone, Debug)]
pub struct Server {
    pub invocation: Invocation,
    pub protocol: ServerProtocol,
    pub port: u16,
}

impl Runner<'_> {
    /// Starts a server on the CPUs of this runner, and waits until it has bound its port. It is
    /// killed when the result is dropped, and by the kernel when this process ends.
    ///
    /// # Errors
    /// If it cannot be started, ends, does not bind its port in time, or the user interrupts.
    pub fn serve(&self, server: &Server) -> Result<Running, RunError> {
        let name = &server.invocation.program;
        let failed = |text: String| RunError::Failed(format!("server {name}: {text}"));
        // A client of a server with a fixed port would measure the other program.
        if is_bound(server) {
            return Err(failed(format!("port {} is in use", server.port)));
        }
        let mut running = Running::start_tied(|| Ok(server.invocation.command()), &self.cpus)
            .map_err(|error| {
                failed(format!("cannot start: {}", system_cause(&error, Activity::Read)))
            })?;
        let until_ns = clock::monotonic_raw_ns() + START_NS;
        while !is_bound(server) {
            let ended = running.try_wait().map_err(|error| failed(error.to_string()))?;
            if let Some(status) = ended {
                let line = last_line(&mut running, self.stop);
                return Err(failed(format!("{}{line}", process::exit_text(status))));
            }
            if clock::monotonic_raw_ns() > until_ns {
                let seconds = START_NS as f64 / 1e9;
                return Err(failed(format!("port {} not bound after {seconds} s", server.port)));
            }
            if is_stopped(self.stop) {
                return Err(RunError::Stopped);
            }
        }
        Ok(running)
    }
}

/// What an ended process printed last.
fn last_line(running: &mut Running, stop: BorrowedFd<'_>) -> String {
    let limits = OutputLimits { time_ns: LAST_WORDS_NS, output_bytes: OUTPUT_MAX };
    // Its status is known; without its output the error has no reason.
    let _ = running.collect(limits, stop);
    let [out, err] = &running.output;
    let line = process::last_words(err).or_else(|| process::last_words(out));
    line.map_or(String::new(), |line| format!(": {line}"))
}

/// Whether the user interrupts within some milliseconds.
fn is_stopped(stop: BorrowedFd<'_>) -> bool {
    let mut waits = [PollFd::from_borrowed_fd(stop, PollFlags::IN)];
    let time = Timespec { tv_sec: 0, tv_nsec: POLL_NS };
    // An interrupted call is repeated by the caller's loop.
    poll(&mut waits, Some(&time)).is_ok_and(|ready| ready > 0)
}

/// By the kernel's lists: a connect would be the server's first client.
fn is_bound(server: &Server) -> bool {
    let (names, state) = match server.protocol {
        ServerProtocol::Tcp => (["tcp", "tcp6"], Some(LISTEN)),
        ServerProtocol::Udp => (["udp", "udp6"], None),
    };
    let text =
        |name: &str| std::fs::read_to_string(format!("/proc/net/{name}")).unwrap_or_default();
    names.iter().any(|name| has_socket(&text(name), server.port, state))
}

/// Whether a list has a socket on this port, in this state.
fn has_socket(list: &str, port: u16, state: Option<&str>) -> bool {
    let end = format!(":{port:04X}");
    list.lines().any(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (local, _, actual) = (words.next(), words.next(), words.next());
        local.is_some_and(|local| local.ends_with(&end))
            && state.is_none_or(|state| actual == Some(state))
    })
}

/// A port of loopback that is free for TCP and for UDP.
pub fn free_port() -> Option<u16> {
    let host = Ipv4Addr::LOCALHOST;
    (0..ATTEMPTS).find_map(|_| {
        let listener = TcpListener::bind((host, 0)).ok()?;
        let port = listener.local_addr().ok()?.port();
        UdpSocket::bind((host, port)).ok().map(|_| port)
    })
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddrV4;
    use std::os::fd::{AsFd as _, OwnedFd};

    use rustix::net;

    use super::*;

    /// Starts a server that is a Python program, if Python is installed.
    fn serve(program: &str, port: u16) -> Option<Result<Running, RunError>> {
        if !crate::is_there("python3") {
            return None;
        }
        let (stop, _never) = rustix::pipe::pipe().expect("a pipe");
        let cpus = fathom_measure::affinity::allowed();
        let runner = Runner { stop: stop.as_fd(), limit_ns: 1_000_000_000, cpus };
        let invocation = Invocation::new("python3", ["-c", program, &port.to_string()]);
        Some(runner.serve(&Server { invocation, protocol: ServerProtocol::Tcp, port }))
    }

    const LISTENER: &str = "import socket, sys, time; s = socket.socket(); \
                            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); \
                            s.bind(('127.0.0.1', int(sys.argv[1]))); s.listen(); time.sleep(3600)";

    /// A port that only a socket with SO_REUSEADDR may bind: not a client of another test.
    fn reserved_port() -> (OwnedFd, u16) {
        let socket = net::socket(net::AddressFamily::INET, net::SocketType::STREAM, None);
        let socket = socket.expect("a socket");
        net::sockopt::set_socket_reuseaddr(&socket, true).expect("an option");
        net::bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = net::getsockname(&socket).expect("an address");
        let port = SocketAddrV4::try_from(address).expect("an IPv4 address").port();
        (socket, port)
    }

    #[test]
    fn server_listens_until_it_is_dropped() {
        let (_reserved, port) = reserved_port();
        let Some(running) = serve(LISTENER, port) else { return };
        let running = running.expect("it listens");
        std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("a connection");
        drop(running);
        assert!(std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err(), "still there");
    }

    #[test]
    fn server_that_fails_is_quoted() {
        let (_reserved, port) = reserved_port();
        let program = "import sys; sys.exit('address in use')";
        let Some(outcome) = serve(program, port) else { return };
        let expected = "server python3: exited with status 1: address in use".to_owned();
        assert_eq!(outcome.err(), Some(RunError::Failed(expected)));
    }

    #[test]
    fn port_of_another_program_is_in_use() {
        let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = other.local_addr().expect("an address").port();
        let (stop, _never) = rustix::pipe::pipe().expect("a pipe");
        let runner = Runner { stop: stop.as_fd(), limit_ns: 1_000_000_000, cpus: Vec::new() };
        let invocation = Invocation::new("sleep", ["3600"]);
        let outcome = runner.serve(&Server { invocation, protocol: ServerProtocol::Tcp, port });
        let expected = format!("server sleep: port {port} is in use");
        assert_eq!(outcome.err(), Some(RunError::Failed(expected)));
    }

    #[test]
    fn socket_is_found_by_port_and_state() {
        let list = "  sl  local_address rem_address   st tx_queue\n   \
                    0: 0100007F:1F90 00000000:0000 0A 00000000:00000000\n   \
                    1: 0100007F:1F91 0100007F:1F92 01 00000000:00000000\n";
        assert!(has_socket(list, 0x1f90, Some(LISTEN)));
        assert!(!has_socket(list, 0x1f91, Some(LISTEN)), "a connection");
        assert!(has_socket(list, 0x1f91, None));
        assert!(!has_socket(list, 0x1f92, None), "the other end");
    }
}
