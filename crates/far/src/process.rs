//! The process at the far end: its start, and what it does for the near end.

use std::io::{Read as _, Result as IoResult, stdin};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use fathom_measure::process::{Running, end_with, this_program};
use fathom_measure::{affinity, host};
use rustix::process::Pid;

use crate::protocol::channel::{Channel, LINE_BYTES_MAX};
use crate::protocol::error::FarError;
use crate::protocol::message::{Orders, ProtocolHello, ProtocolMessage, ProtocolOutcome, SetUp};
use crate::protocol::proof::{Side, is_nonce, is_same, nonce, proof};
use crate::protocol::token::Token;
use crate::works::work;

/// How long the near end may take for its hello, and for its proof: until then it may be anyone.
const GREET_NS: u64 = 3_000_000_000;
/// How long CPU load is sampled to find an idle CPU.
const LOAD_WINDOW: Duration = Duration::from_millis(100);

/// The program that runs as a far end.
#[derive(Clone, Debug)]
pub struct ProcessProgram {
    pub path: PathBuf,
    pub arguments: Vec<String>,
}

impl ProcessProgram {
    /// This program, which has the same name for this host.
    ///
    /// # Errors
    /// If the path of the running program is unknown.
    pub fn this() -> IoResult<Self> {
        let name = host::name_set().map(|name| format!("--host-name={name}"));
        let arguments = name.into_iter().chain(["far".to_owned()]).collect();
        Ok(Self { path: this_program()?, arguments })
    }

    /// This program as a service of the folder that follows the arguments, with one thread, on a
    /// port that the kernel chooses.
    ///
    /// # Errors
    /// If the path of the running program is unknown.
    pub fn service() -> IoResult<Self> {
        let arguments = ["serve", "--listen", "127.0.0.1:0", "--threads", "1"];
        Ok(Self { path: this_program()?, arguments: arguments.map(str::to_owned).to_vec() })
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
            let _ = channel.send(&ProtocolMessage::Error {
                text: error.to_string(),
                is_limit: error.is_limit(),
            });
            Err(error)
        }
        Ok(()) => Ok(()),
    }
}

/// Greets, sends the facts of this host at most once, and works at most once.
pub(crate) fn converse(
    channel: &mut Channel,
    orders: &Orders,
    facts: impl FnOnce() -> ProtocolMessage,
    work: impl FnOnce(&mut Channel, &SetUp, &Orders) -> Result<ProtocolOutcome, FarError>,
) -> Result<(), FarError> {
    let token = orders.token.as_deref().map(Token::new);
    greet(channel, token.as_ref(), orders.idle_ns.min(GREET_NS))?;
    let mut next = channel.receive(orders.idle_ns)?;
    if next == ProtocolMessage::Host {
        channel.send(&facts())?;
        next = channel.receive(orders.idle_ns)?;
    }
    let ProtocolMessage::SetUp(set_up) = next else {
        return Err(FarError::Unexpected("expected host once, then set_up"));
    };
    set_up.check()?;
    let outcome = work(channel, &set_up, orders)?;
    channel.send(&ProtocolMessage::Result(Box::new(outcome)))
}

fn facts() -> ProtocolMessage {
    let host = host::read();
    let choice = affinity::choose(&host, &affinity::busy_shares(LOAD_WINDOW));
    let cpu = choice.map_or(0, |choice| choice.cpu);
    ProtocolMessage::Facts { host: serde_json::to_value(host).unwrap_or_default(), cpu }
}

/// Nothing else is accepted before both ends have proved the token.
pub(crate) fn greet(
    channel: &mut Channel,
    token: Option<&Token>,
    wait_ns: u64,
) -> Result<(), FarError> {
    let ProtocolMessage::Hello(hello) = channel.receive(wait_ns)? else {
        return Err(FarError::Unexpected("expected hello"));
    };
    hello.check()?;
    let Some(token) = token else {
        return channel.send(&ProtocolMessage::Hello(ProtocolHello::new(None, None)));
    };
    let without = FarError::Unexpected("expected a challenge of 64 hexadecimal digits");
    let near = hello.challenge.filter(|text| is_nonce(text)).ok_or(without)?;
    let far = nonce()?;
    let own = proof(token, Side::Far, &near, &far);
    channel.send(&ProtocolMessage::Hello(ProtocolHello::new(Some(far.clone()), Some(own))))?;
    match channel.receive(wait_ns)? {
        ProtocolMessage::Proof { proof: found } => {
            let expected = proof(token, Side::Near, &near, &far);
            let is_right = is_same(found.as_bytes(), expected.as_bytes());
            if is_right { Ok(()) } else { Err(FarError::TokenWrong) }
        }
        _ => Err(FarError::Unexpected("expected proof")),
    }
}
