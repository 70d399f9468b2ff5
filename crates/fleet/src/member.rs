//! A member: joins a coordinator, measures by its orders in a child process, delivers, ends.

mod child;
mod token_file;

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fathom_far::{Channel, FarError, Side, Token, connect, printable};
use fathom_measure::clock::monotonic_raw_ns;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

pub use self::child::{ChildLine, TOKEN};
use self::child::{MemberChild, News};
use self::token_file::TokenFile;
use crate::error::FleetError;
use crate::protocol::{
    ALIVE_NS, FleetOrder, FleetProgress, FleetWork, Join, LOST_NS, ToCoordinator, ToMember,
    challenge, check_hello, check_proof, far_token, hello, proof_of,
};

/// How long to wait before the next try to connect.
const RETRY: Duration = Duration::from_millis(500);
/// How long the coordinator may take for its hello: a thousand members come at once, of which it
/// takes some at a time.
const GREET_NS: u64 = 60_000_000_000;
/// How often to look whether a process that has closed its output has ended.
const ENDING_NS: u64 = 5_000_000;
/// Bytes of a document that are sent at a time.
const PIECE_BYTES: usize = 64 << 10;

/// The arguments for an order, or why it is refused.
pub type ToArguments<'m> = dyn Fn(&FleetOrder, &Local<'_>) -> Result<Vec<String>, String> + 'm;

/// What a member needs to join.
pub struct Membership<'m> {
    /// Of the coordinator, in the order to try them.
    pub addresses: Vec<SocketAddr>,
    pub token: Token,
    pub join: Join,
    /// How long to try to connect.
    pub connect_ns: u64,
    /// Called once if the first attempt to connect fails, with the reason.
    pub waits: &'m dyn Fn(&FarError),
    /// Measures: this program. Reports by [`ChildLine`], then prints its document.
    pub program: PathBuf,
    /// Makes its arguments.
    pub arguments: &'m ToArguments<'m>,
}

/// What of this member an order does not say.
#[derive(Clone, Copy, Debug)]
pub struct Local<'l> {
    /// The address from which it has joined.
    pub address: IpAddr,
    /// The token of the far end that it is to be, or to use.
    pub token_file: Option<&'l Path>,
}

/// How a member ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberEnding {
    /// The coordinator has sent it away.
    Done,
    /// `stop` became readable.
    Stopped,
}

/// Joins the coordinator and serves it to the end. The measuring process ends with this one, and
/// this one soon after the coordinator.
///
/// # Errors
/// If it cannot join, is sent away, or loses the coordinator.
pub fn serve(
    membership: &Membership<'_>,
    stop: BorrowedFd<'_>,
) -> Result<MemberEnding, FleetError> {
    let Some(socket) = connected(membership, stop)? else { return Ok(MemberEnding::Stopped) };
    let own = socket.local_addr()?.ip().to_canonical();
    let mut channel = Channel::new(socket.into());
    greet(&mut channel, &membership.token)?;
    channel.send(&ToCoordinator::Join(Box::new(membership.join.clone())))?;
    match heard(&mut channel, LOST_NS)? {
        ToMember::Joined => {}
        _ => return Err(FleetError::Unexpected("expected joined")),
    }
    run(channel, membership, own, stop)
}

/// A member that has joined from `own`.
pub(crate) fn run(
    channel: Channel,
    membership: &Membership<'_>,
    own: IpAddr,
    stop: BorrowedFd<'_>,
) -> Result<MemberEnding, FleetError> {
    Member::new(channel, membership, own).serve(stop)
}

/// `None` if stopped.
fn connected(
    membership: &Membership<'_>,
    stop: BorrowedFd<'_>,
) -> Result<Option<std::net::TcpStream>, FleetError> {
    let until_ns = monotonic_raw_ns().saturating_add(membership.connect_ns);
    let mut is_told = false;
    loop {
        let mut last = FarError::Closed;
        for address in &membership.addresses {
            match connect(*address, None, None, "connect") {
                Ok(socket) => {
                    // Stamps must not wait for other lines.
                    socket.set_nodelay(true)?;
                    return Ok(Some(socket));
                }
                Err(error) => last = error,
            }
        }
        if monotonic_raw_ns() >= until_ns {
            return Err(FleetError::Nobody(last));
        }
        if !std::mem::replace(&mut is_told, true) {
            (membership.waits)(&last);
        }
        let pause = Timespec { tv_sec: 0, tv_nsec: RETRY.subsec_nanos() as _ };
        let mut wait = [PollFd::from_borrowed_fd(stop, PollFlags::IN)];
        if poll(&mut wait, Some(&pause)).is_ok_and(|ready| ready > 0) {
            return Ok(None);
        }
    }
}

/// Nothing else is done before both ends have proved the token.
fn greet(channel: &mut Channel, token: &Token) -> Result<(), FleetError> {
    let own = challenge()?;
    channel.send(&hello(&own))?;
    match heard(channel, GREET_NS)? {
        ToMember::Hello { protocol, version, challenge, proof } => {
            check_hello(protocol, &version, &challenge)?;
            check_proof(&proof, token, Side::Far, [&own, &challenge])?;
            let own_proof = proof_of(token, Side::Near, &own, &challenge);
            Ok(channel.send(&ToCoordinator::Proof { proof: own_proof })?)
        }
        _ => Err(FleetError::Unexpected("expected hello")),
    }
}

/// The next message; an end is an error.
fn heard(channel: &mut Channel, wait_ns: u64) -> Result<ToMember, FleetError> {
    match channel.json(wait_ns)? {
        ToMember::End { reason } => Err(reason.map_or(FleetError::Gone, refused)),
        message => Ok(message),
    }
}

fn refused(reason: String) -> FleetError {
    FleetError::Refused(printable(&reason))
}

struct Member<'m> {
    channel: Channel,
    membership: &'m Membership<'m>,
    own: IpAddr,
    child: Option<MemberChild>,
    /// Whether that measures to another member, and may fail by it.
    is_pair: bool,
    /// The far end for others.
    server: Option<MemberChild>,
    progress: Option<FleetProgress>,
    heard_ns: u64,
    sent_ns: u64,
}

impl<'m> Member<'m> {
    fn new(channel: Channel, membership: &'m Membership<'m>, own: IpAddr) -> Self {
        let now_ns = monotonic_raw_ns();
        let (child, is_pair, server, progress) = (None, false, None, None);
        let (heard_ns, sent_ns) = (now_ns, now_ns);
        Self { channel, membership, own, child, is_pair, server, progress, heard_ns, sent_ns }
    }

    fn serve(mut self, stop: BorrowedFd<'_>) -> Result<MemberEnding, FleetError> {
        loop {
            if self.wait(stop)? {
                return Ok(MemberEnding::Stopped);
            }
            loop {
                let message = match self.channel.json(0) {
                    Ok(message) => message,
                    Err(FarError::TimedOut(_)) => break,
                    Err(FarError::Closed) => return Err(FleetError::Gone),
                    Err(error) => return Err(error.into()),
                };
                self.heard_ns = monotonic_raw_ns();
                match message {
                    ToMember::End { reason: None } => return Ok(MemberEnding::Done),
                    ToMember::End { reason: Some(reason) } => return Err(refused(reason)),
                    message => self.answer(message)?,
                }
            }
            self.hear_child()?;
            self.hear_server()?;
            let now_ns = monotonic_raw_ns();
            if now_ns.saturating_sub(self.heard_ns) >= LOST_NS {
                return Err(FleetError::Silent(LOST_NS / 1_000_000_000));
            }
            if now_ns.saturating_sub(self.sent_ns) >= ALIVE_NS {
                self.send(&ToCoordinator::Alive { progress: self.progress.clone() })?;
            }
        }
    }

    /// Waits for a message, for the child, or until the next sign of life. Returns whether it was
    /// stopped.
    fn wait(&self, stop: BorrowedFd<'_>) -> Result<bool, FleetError> {
        let next_ns = self.sent_ns.saturating_add(ALIVE_NS);
        let children = [&self.child, &self.server];
        let left_ns = match children.iter().copied().flatten().any(MemberChild::is_ending) {
            true => ENDING_NS,
            false => next_ns.saturating_sub(monotonic_raw_ns()),
        };
        let timeout = Timespec {
            tv_sec: (left_ns / 1_000_000_000) as _,
            tv_nsec: (left_ns % 1_000_000_000) as _,
        };
        let channel = self.channel.as_fd();
        // The channel takes the place of a descriptor that is not there.
        let [child, server] =
            children.map(|child| child.as_ref().and_then(MemberChild::output).unwrap_or(channel));
        let mut waits =
            [stop, channel, child, server].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        match poll(&mut waits, Some(&timeout)) {
            Ok(_) => Ok(!waits[0].revents().is_empty()),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(std::io::Error::from(error).into()),
        }
    }

    fn send(&mut self, message: &ToCoordinator) -> Result<(), FleetError> {
        self.sent_ns = monotonic_raw_ns();
        Ok(self.channel.send(message)?)
    }

    fn answer(&mut self, message: ToMember) -> Result<(), FleetError> {
        match message {
            ToMember::Order(order) => {
                if let Err(error) = self.begin(&order) {
                    self.send(&ToCoordinator::Failed { text: error.to_string() })?;
                    return Err(error);
                }
                Ok(())
            }
            ToMember::Clock { sent_ns } => {
                let received_ns = self.heard_ns;
                let answered_ns = monotonic_raw_ns();
                self.send(&ToCoordinator::Stamps { sent_ns, received_ns, answered_ns })
            }
            ToMember::Start { at_ns } => match &mut self.child {
                Some(child) => Ok(child.start_at(at_ns)?),
                None => Err(FleetError::Unexpected("start before an order")),
            },
            ToMember::Deliver => self.deliver(),
            ToMember::Alive => Ok(()),
            ToMember::Hello { .. } | ToMember::Joined | ToMember::End { .. } => {
                Err(FleetError::Unexpected("expected an order"))
            }
        }
    }

    fn begin(&mut self, order: &FleetOrder) -> Result<(), FleetError> {
        let serves = order.work == FleetWork::Serve;
        if self.child.is_some() || serves && self.server.is_some() {
            return Err(FleetError::Order("another one is not done".to_owned()));
        }
        order.check(self.own)?;
        let name = match &order.work {
            FleetWork::Serve => Some(&self.membership.join.host.name),
            FleetWork::Pair(pair) => Some(&pair.name),
            FleetWork::Facts | FleetWork::Run(_) | FleetWork::Load(_) => None,
        };
        let token = name.map(|name| TokenFile::new(&far_token(&self.membership.token, name)));
        let token = token.transpose()?;
        let path = token.as_ref().map(TokenFile::path);
        let local = Local { address: self.own, token_file: path.as_deref() };
        let arguments = (self.membership.arguments)(order, &local).map_err(FleetError::Order)?;
        let child =
            MemberChild::start(&self.membership.program, &arguments, order.server_token(), token)?;
        match serves {
            true => self.server = Some(child),
            false => (self.child, self.is_pair) = (Some(child), name.is_some()),
        }
        Ok(())
    }

    fn hear_child(&mut self) -> Result<(), FleetError> {
        let news = match &mut self.child {
            Some(child) => child.news()?,
            None => return Ok(()),
        };
        for one in news {
            match one {
                News::Line(ChildLine::Progress { done, what }) => {
                    self.progress = Some(FleetProgress { done, what });
                }
                News::Line(ChildLine::Ready { .. }) => self.send(&ToCoordinator::Ready)?,
                News::Line(ChildLine::Started { started_ns }) => {
                    self.send(&ToCoordinator::Started { at_ns: started_ns })?;
                }
                News::Line(ChildLine::Serving { .. }) => {}
                News::Document => self.send(&ToCoordinator::Finished)?,
                News::Failed(text) => {
                    self.send(&ToCoordinator::Failed { text: text.clone() })?;
                    if !self.is_pair {
                        return Err(FleetError::Failed(text));
                    }
                    (self.child, self.progress) = (None, None);
                }
            }
        }
        Ok(())
    }

    fn hear_server(&mut self) -> Result<(), FleetError> {
        let news = match &mut self.server {
            Some(server) => server.news()?,
            None => return Ok(()),
        };
        for one in news {
            let why = match one {
                News::Line(ChildLine::Serving { serving_port: port }) => {
                    self.send(&ToCoordinator::Serving { port })?;
                    continue;
                }
                News::Line(_) => continue,
                News::Document => "it printed something else than its port".to_owned(),
                News::Failed(why) => why,
            };
            let text = format!("the far end: {why}");
            self.send(&ToCoordinator::Failed { text: text.clone() })?;
            return Err(FleetError::Failed(text));
        }
        Ok(())
    }

    fn deliver(&mut self) -> Result<(), FleetError> {
        let document = self.child.as_mut().map(MemberChild::take_document).unwrap_or_default();
        self.send(&ToCoordinator::Document { bytes: document.len() as u64 })?;
        for piece in document.chunks(PIECE_BYTES) {
            // Each piece has a time limit of its own.
            self.channel.send_bytes(piece)?;
        }
        (self.child, self.progress) = (None, None);
        // Nothing was read meanwhile.
        self.sent_ns = monotonic_raw_ns();
        self.heard_ns = self.sent_ns;
        Ok(())
    }
}
