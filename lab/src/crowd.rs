//! A thousand members of a fleet in one process: they join a coordinator, start, and deliver canned
//! runs, without measuring. Some are lost at random moments.

use std::io::{Error, Result};
use std::net::{SocketAddr, TcpStream};

use fathom_far::{Channel, FarError, Side, Token};
use fathom_fleet::{Join, ToCoordinator, ToMember, challenge, hello, proof_of};
use fathom_measure::clock::monotonic_raw_ns;
use fathom_record::Document;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::seeded::Seeded;

/// How often members send a sign of life.
const ALIVE_NS: u64 = 5_000_000_000;

/// A member of a crowd.
pub struct Emulated {
    channel: Channel,
    token: Token,
    /// What it joins with.
    pub join: Join,
    challenge: String,
    /// Its run as JSON.
    document: Vec<u8>,
    /// It closes its connection before it sends so many lines.
    lines_left: usize,
    has_delivered: bool,
}

impl Emulated {
    /// Connects, and begins the greeting. The host of the document is that of the member.
    ///
    /// # Errors
    /// If the coordinator cannot be reached.
    pub fn connect(address: SocketAddr, token: &Token, document: &Document) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let mut host = document.host.clone();
        host.origins.clear();
        let (boot_id, named_id) = (format!("boot of {}", host.name), host.id.clone());
        let member = Self {
            channel: Channel::new(stream.into()),
            token: token.clone(),
            join: Join { rank: None, node: None, boot_id, host, named_id },
            challenge: challenge().map_err(Error::other)?,
            document: serde_json::to_vec(document)?,
            lines_left: usize::MAX,
            has_delivered: false,
        };
        member.channel.send(&hello(&member.challenge)).map_err(Error::other)?;
        Ok(member)
    }

    /// Waits until it has joined.
    ///
    /// # Errors
    /// If it is refused.
    pub fn until_joined(&mut self) -> Result<()> {
        loop {
            match self.channel.json(fathom_far::WAIT_NS).map_err(Error::other)? {
                ToMember::Joined => return Ok(()),
                ToMember::End { reason } => return Err(Error::other(reason.unwrap_or_default())),
                message => drop(self.reply(message)),
            }
        }
    }

    /// Answers what has arrived. False once the connection is over.
    fn answer(&mut self) -> bool {
        loop {
            let is_over = match self.channel.json(0) {
                Ok(message) => !self.reply(message),
                Err(FarError::TimedOut(_)) => return true,
                Err(_) => true,
            };
            if is_over {
                return false;
            }
        }
    }

    /// False once the connection is over.
    fn reply(&mut self, message: ToMember) -> bool {
        let answers = match message {
            ToMember::Hello { challenge, .. } => {
                let proof = proof_of(&self.token, Side::Near, &self.challenge, &challenge);
                let join = ToCoordinator::Join(Box::new(self.join.clone()));
                vec![ToCoordinator::Proof { proof }, join]
            }
            ToMember::Order(order) if order.together => vec![ToCoordinator::Ready],
            ToMember::Order(_) => vec![ToCoordinator::Finished],
            ToMember::Clock { sent_ns } => {
                let now_ns = monotonic_raw_ns();
                let (received_ns, answered_ns) = (now_ns, now_ns);
                vec![ToCoordinator::Stamps { sent_ns, received_ns, answered_ns }]
            }
            ToMember::Start { at_ns } => {
                vec![ToCoordinator::Started { at_ns }, ToCoordinator::Finished]
            }
            ToMember::Deliver => {
                vec![ToCoordinator::Document { bytes: self.document.len() as u64 }]
            }
            ToMember::Joined | ToMember::Alive => Vec::new(),
            ToMember::End { .. } => return false,
        };
        for answer in answers {
            if self.lines_left == 0 {
                return false;
            }
            self.lines_left -= 1;
            let is_last = matches!(answer, ToCoordinator::Document { .. });
            if self.channel.send(&answer).is_err() || is_last && !self.deliver() {
                return false;
            }
        }
        true
    }

    /// All bytes, or half of them if it is lost then.
    fn deliver(&mut self) -> bool {
        let is_whole = self.lines_left > 0;
        let end = if is_whole { self.document.len() } else { self.document.len() / 2 };
        let has_sent = self.channel.send_bytes(&self.document[..end]).is_ok();
        self.has_delivered = has_sent && is_whole;
        self.has_delivered
    }
}

/// How it ended for a crowd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrowdEnding {
    pub delivered: usize,
    /// Connections that were over without that.
    pub lost: usize,
}

/// Lines that a member sends after it has joined, without signs of life: that it has finished, and
/// its document; to start together, that it is ready, 64 stamps, and when it started.
fn lines(together: bool) -> u64 {
    if together { 2 + 1 + 64 + 1 } else { 2 }
}

/// A member of each document joins; `lost` of them, chosen by chance, end at a random moment after
/// they have joined.
///
/// # Errors
/// If the coordinator cannot be reached.
pub fn join(
    address: SocketAddr,
    token: &Token,
    documents: impl ExactSizeIterator<Item = Document>,
    (lost, together, seed): (usize, bool, u64),
) -> Result<CrowdEnding> {
    let mut random = Seeded::for_part(seed, "crowd");
    let chosen: Vec<usize> = random.shuffled(documents.len()).into_iter().take(lost).collect();
    let mut members = Vec::new();
    let mut ending = CrowdEnding { delivered: 0, lost: 0 };
    for (at, document) in documents.enumerate() {
        let mut member = Emulated::connect(address, token, &document)?;
        if chosen.contains(&at) {
            // Proof and join, and some of the others; with all of them half of its document.
            member.lines_left = 2 + random.below(lines(together) + 1) as usize;
        }
        members.push(Some(member));
        ending.count(&answer(&mut members, 0)?);
    }
    let mut alive_ns = monotonic_raw_ns();
    while !members.is_empty() {
        ending.count(&answer(&mut members, 1)?);
        members.retain(Option::is_some);
        if monotonic_raw_ns() - alive_ns >= ALIVE_NS {
            alive_ns = monotonic_raw_ns();
            let alive = ToCoordinator::Alive { progress: None };
            // One that is lost meanwhile is found by the next event.
            members.iter().flatten().for_each(|it| drop(it.channel.send(&alive)));
        }
    }
    Ok(ending)
}

impl CrowdEnding {
    fn count(&mut self, over: &[Emulated]) {
        let delivered = over.iter().filter(|it| it.has_delivered).count();
        self.delivered += delivered;
        self.lost += over.len() - delivered;
    }
}

/// Waits for messages, and answers them. Returns the members whose connections are over.
fn answer(members: &mut [Option<Emulated>], wait_s: i64) -> Result<Vec<Emulated>> {
    let timeout = Timespec { tv_sec: wait_s, tv_nsec: 0 };
    let open: Vec<usize> = (0..members.len()).filter(|at| members[*at].is_some()).collect();
    let ready: Vec<usize> = {
        let mut waits: Vec<PollFd<'_>> = open
            .iter()
            .filter_map(|at| members[*at].as_ref())
            .map(|member| PollFd::new(&member.channel, PollFlags::IN))
            .collect();
        poll(&mut waits, Some(&timeout))?;
        let ready = open.iter().zip(&waits).filter(|(_, wait)| !wait.revents().is_empty());
        ready.map(|(at, _)| *at).collect()
    };
    let mut over = Vec::new();
    for at in ready {
        let Some(member) = &mut members[at] else { continue };
        if !member.answer() {
            over.extend(members[at].take());
        }
    }
    Ok(over)
}
