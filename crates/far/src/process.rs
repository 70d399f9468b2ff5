//! The process at the far end: its start, and what it does for the near end.

use std::io::{Read as _, Result as IoResult, stdin};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use fathom_measure::clock::{Clock, Source, Specification};
use fathom_measure::disturbance::VisitCounters;
use fathom_measure::process::{Running, end_with, this_program};
use fathom_measure::sampler::reference_loop;
use fathom_measure::{affinity, host};
use fathom_record::{Check, FarEnd};
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, getsockname, recv, sockopt};
use rustix::process::Pid;
use serde::{Deserialize, Serialize};

use crate::channel::{Channel, Deadline, LINE_BYTES_MAX, WAIT_NS, poll_once};
use crate::echo;
use crate::error::FarError;
use crate::message::{Hello, Message, Outcome, PROTOCOL, SetUp, Work};
use crate::proof::{NONCE_DIGITS, Side, is_nonce, is_same, nonce, proof};
use crate::token::Token;

/// A far end without work or message for this long ends.
pub const IDLE_NS: u64 = 30_000_000_000;
/// How long the near end may take for its hello, and for its proof: until then it may be anyone.
const GREET_NS: u64 = 3_000_000_000;
/// How long a data connection may take to send its nonce: others wait meanwhile.
const NONCE_NS: u64 = 1_000_000_000;
/// How long CPU load is sampled to find an idle CPU.
const LOAD_WINDOW: Duration = Duration::from_millis(100);
/// Reference loops before and after the work: between two requests they would delay the near end.
const LOOPS: usize = 4;
const REQUEST_BYTES_MAX: u32 = 64 << 10;
/// TCP_CA_NAME_MAX of Linux, without its NUL.
const CONGESTION_BYTES_MAX: usize = 15;

/// What a far end gets from the process that starts it, as JSON on standard input.
#[derive(Serialize, Deserialize)]
pub struct Orders {
    /// The far end is killed when this process ends.
    pub parent: u32,
    /// Required from the near end.
    pub token: Option<String>,
    pub idle_ns: u64,
}

impl Orders {
    /// Orders by this process.
    pub fn new(token: Option<String>) -> Self {
        Self { parent: std::process::id(), token, idle_ns: IDLE_NS }
    }
}

/// The program that runs as a far end.
#[derive(Clone, Debug)]
pub struct Program {
    pub path: PathBuf,
    pub arguments: Vec<String>,
}

impl Program {
    /// # Errors
    /// If the path of the running program is unknown.
    pub fn this() -> IoResult<Self> {
        Ok(Self { path: this_program()?, arguments: vec!["far".to_owned()] })
    }

    /// Starts a far end with this control connection. The kernel kills it when the calling thread
    /// ends.
    ///
    /// # Errors
    /// If the process cannot be started.
    pub fn start(&self, control: OwnedFd, orders: &Orders) -> IoResult<Running> {
        let command = || {
            let mut command = Command::new(&self.path);
            command.args(&self.arguments).stdin(Stdio::piped());
            // Its error goes to the near end.
            command.stdout(control.try_clone()?).stderr(Stdio::null());
            Ok(command)
        };
        let mut far = Running::start_tied(command, &[])?;
        far.write_input(&serde_json::to_vec(orders)?)?;
        Ok(far)
    }
}

/// The far end: serves the control connection on standard output until it closes.
///
/// # Errors
/// If there are no orders, or the near end does not keep to the protocol. The near end gets the
/// error, too.
pub fn serve() -> Result<(), FarError> {
    // What the service inherited itself, such as the pipes of a job control.
    // SAFETY: this process has opened no descriptor yet.
    unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) };
    let mut text = String::new();
    let read = stdin().lock().take(LINE_BYTES_MAX as u64).read_to_string(&mut text);
    read.map_err(FarError::system("read the orders"))?;
    let orders: Orders = serde_json::from_str(&text).map_err(|_| FarError::NoOrders)?;
    // Again: exec of a file with capabilities clears the parent-death signal.
    let parent = Pid::from_raw(orders.parent as i32).ok_or(FarError::NoOrders)?;
    end_with(parent).map_err(FarError::errno("the parent has ended"))?;
    let control = std::io::stdout().as_fd().try_clone_to_owned();
    let mut channel = Channel::new(control.map_err(FarError::system("control connection"))?);
    match converse(&mut channel, &orders, facts, work) {
        Err(FarError::Closed) => Ok(()),
        Err(error) => {
            // The near end may have gone.
            let _ = channel.send(&Message::Error { text: error.to_string() });
            Err(error)
        }
        Ok(()) => Ok(()),
    }
}

/// Greets, sends the facts of this host at most once, and works at most once.
pub(crate) fn converse(
    channel: &mut Channel,
    orders: &Orders,
    facts: impl FnOnce() -> Message,
    work: impl FnOnce(&mut Channel, &SetUp, u64) -> Result<Outcome, FarError>,
) -> Result<(), FarError> {
    let token = orders.token.as_deref().map(Token::new);
    greet(channel, token.as_ref(), orders.idle_ns.min(GREET_NS))?;
    let mut next = channel.receive(orders.idle_ns)?;
    if next == Message::Host {
        channel.send(&facts())?;
        next = channel.receive(orders.idle_ns)?;
    }
    let Message::SetUp(set_up) = next else {
        return Err(FarError::Unexpected("expected host once, then set_up"));
    };
    check(&set_up)?;
    let outcome = work(channel, &set_up, orders.idle_ns)?;
    channel.send(&Message::Result(outcome))
}

fn facts() -> Message {
    let host = host::read();
    let choice = affinity::choose(&host, &affinity::busy_shares(LOAD_WINDOW));
    let cpu = choice.map_or(0, |choice| choice.cpu);
    Message::Facts { host: serde_json::to_value(host).unwrap_or_default(), cpu }
}

fn check(set_up: &SetUp) -> Result<(), FarError> {
    let Work::Echo { bytes, .. } = set_up.work;
    if !(1..=REQUEST_BYTES_MAX).contains(&bytes) {
        return Err(FarError::Unexpected("expected requests of 1 to 65536 bytes"));
    }
    match &set_up.congestion {
        Some(name) if !is_congestion(name) => {
            Err(FarError::Unexpected("expected a congestion control of 1 to 15 characters"))
        }
        _ => Ok(()),
    }
}

/// Whether it can be the name of a TCP congestion control.
pub(crate) fn is_congestion(name: &str) -> bool {
    (1..=CONGESTION_BYTES_MAX).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_graphic())
}

/// Nothing else is accepted before both ends have proved the token.
pub(crate) fn greet(
    channel: &mut Channel,
    token: Option<&Token>,
    wait_ns: u64,
) -> Result<(), FarError> {
    let Message::Hello(hello) = channel.receive(wait_ns)? else {
        return Err(FarError::Unexpected("expected hello"));
    };
    if hello.protocol != PROTOCOL {
        return Err(FarError::protocol(&hello));
    }
    let Some(token) = token else {
        return channel.send(&Message::Hello(Hello::new(None, None)));
    };
    let without = FarError::Unexpected("expected a challenge of 64 hexadecimal digits");
    let near = hello.challenge.filter(|text| is_nonce(text)).ok_or(without)?;
    let far = nonce()?;
    let own = proof(token, Side::Far, &near, &far);
    channel.send(&Message::Hello(Hello::new(Some(far.clone()), Some(own))))?;
    match channel.receive(wait_ns)? {
        Message::Proof { proof: found } => {
            let expected = proof(token, Side::Near, &near, &far);
            let is_right = is_same(found.as_bytes(), expected.as_bytes());
            if is_right { Ok(()) } else { Err(FarError::TokenWrong) }
        }
        _ => Err(FarError::Unexpected("expected proof")),
    }
}

/// Requests answered.
static TRIPS: AtomicU64 = AtomicU64::new(0);

fn work(channel: &mut Channel, set_up: &SetUp, idle_ns: u64) -> Result<Outcome, FarError> {
    let Work::Echo { bytes, busy } = set_up.work;
    affinity::pin(set_up.cpu).map_err(FarError::errno("pin to the CPU"))?;
    watch(channel, idle_ns)?;
    // A descriptor table of its own: with a shared one each call on a descriptor counts references
    // by locked instructions. If it is forbidden, the calls take some nanoseconds longer.
    // SAFETY: the other thread uses a descriptor that it owns.
    let _ = unsafe { libc::unshare(libc::CLONE_FILES) };
    let data = accept(channel)?;
    data.set_nodelay(true).map_err(FarError::system("TCP_NODELAY"))?;
    if let Some(name) = &set_up.congestion {
        // This host may not have it: the result has the name of the one in use.
        let _ = sockopt::set_tcp_congestion(&data, name);
    }
    let congestion =
        sockopt::tcp_congestion(&data).map_err(FarError::errno("TCP_CONGESTION"))?.to_string();
    let Message::Go = channel.receive(WAIT_NS)? else {
        return Err(FarError::Unexpected("expected go"));
    };
    let source = Source::MonotonicRaw;
    let specification = Specification { source, hz: 1e9, resolution_ns: 1.0, read_ns: 20.0 };
    let clock = Clock::from_specification(specification);
    let loops = || (0..LOOPS).map(|_| reference_loop(&clock).sibling_ns.round());
    let mut reference_ns: Vec<f64> = loops().collect();
    let mut counters = VisitCounters::open(set_up.cpu);
    counters.mark();
    let trips = echo::answer(&data, bytes as usize, busy, &TRIPS)?;
    let disturbance = counters.since_mark();
    reference_ns.extend(loops());
    let allowed = affinity::allowed();
    let check = Check {
        name: "CPU".to_owned(),
        passed: allowed == [set_up.cpu],
        detail: format!("affinity: {allowed:?}"),
    };
    let far = FarEnd { cpu: set_up.cpu, disturbance, reference_ns, checks: vec![check] };
    Ok(Outcome { far, trips, congestion })
}

/// Ends this process when the control connection closes, or when no request was answered for the
/// idle time: the thread that answers requests waits without a limit.
fn watch(channel: &Channel, idle_ns: u64) -> Result<(), FarError> {
    let failed = FarError::system("watch the control connection");
    let control = match channel.as_fd().try_clone_to_owned() {
        Ok(control) => control,
        Err(error) => return Err(failed(error)),
    };
    let run = move || {
        let mut earlier = TRIPS.load(Relaxed);
        // Not for messages, which the other thread receives.
        while matches!(poll_once(control.as_fd(), PollFlags::RDHUP, idle_ns), Ok(None)) {
            let trips = TRIPS.load(Relaxed);
            if trips == earlier {
                break;
            }
            earlier = trips;
        }
        std::process::exit(0);
    };
    let thread = std::thread::Builder::new().name("watch".to_owned()).spawn(run);
    thread.map(drop).map_err(failed)
}

/// Accepts the data connection, by its nonce.
fn accept(channel: &Channel) -> Result<TcpStream, FarError> {
    // Where the near end reached this host; a process of the same host has no address.
    let local = getsockname(channel).ok().and_then(|any| SocketAddr::try_from(any).ok());
    let mut address = local.unwrap_or((Ipv4Addr::LOCALHOST, 0).into());
    address.set_port(0);
    let listener = TcpListener::bind(address).map_err(FarError::system("listen"))?;
    let port = listener.local_addr().map_err(FarError::system("listen"))?.port();
    listener.set_nonblocking(true).map_err(FarError::system("listen"))?;
    let nonce = nonce()?;
    channel.send(&Message::Ready { port, nonce: nonce.clone() })?;
    let until = Deadline::after(WAIT_NS);
    loop {
        until.wait(listener.as_fd(), PollFlags::IN)?;
        // It may have gone again.
        let Ok((data, _)) = listener.accept() else { continue };
        if has_nonce(&data, &nonce) {
            return Ok(data);
        }
    }
}

fn has_nonce(data: &TcpStream, nonce: &str) -> bool {
    let until = Deadline::after(NONCE_NS);
    let (mut found, mut at) = ([0; NONCE_DIGITS], 0);
    while at < found.len() {
        match recv(data, &mut found[at..], RecvFlags::DONTWAIT) {
            Ok((0, _)) => return false,
            Ok((count, _)) => at += count,
            Err(Errno::AGAIN) if until.wait(data.as_fd(), PollFlags::IN).is_ok() => {}
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
    is_same(&found, nonce.as_bytes())
}
