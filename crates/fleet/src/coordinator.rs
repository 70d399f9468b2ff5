//! The coordinator: one thread that waits for the connections of all members.

mod greeting;
mod plan;
mod roster;
mod wire;

#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use fathom_far::Token;
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{Shutdown, SocketFlags, acceptfrom_with, getsockname, shutdown, sockopt};

use self::greeting::{Greeted, Greeting};
pub use self::plan::{
    CoordinatorPlan, Ended, Failure, Joined, PlanCounts, PlanOutcome, Present, Skew, WorkOf,
};
use self::roster::Roster;
use self::wire::{Item, Wire};
use crate::protocol::{Join, ToCoordinator, ToMember, line};

/// Connections that have not proved the token, at most.
const STRANGERS_MAX: usize = 64;
/// For that proof. Meanwhile it may be anyone.
const PROOF_NS: u64 = 2_000_000_000;
/// While all places of strangers are taken, one keeps its place for so long, two round trips;
/// others wait in the kernel.
const PLACE_NS: u64 = 250_000_000;
/// A connection must have joined after so long, or have closed after its last line.
const GREET_NS: u64 = 10_000_000_000;
/// How long members may take to read that it is over.
const GRACE_NS: u64 = 2_000_000_000;
const EVENTS: usize = 512;
/// How often limits are checked and progress is shown.
const TICK_NS: u64 = 200_000_000;

/// Data of the events that are not of connections.
const STOP: u64 = u64::MAX;
const LISTENER: u64 = u64::MAX - 1;

/// What the fuzzer drives.
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz {
    pub(crate) use super::greeting::{Greeted, Greeting};
    pub(crate) use super::roster::Roster;
    pub(crate) use super::wire::{Item, Wire};
}

/// Who follows a coordinator.
pub trait CoordinatorAudience {
    /// Looks at a host before it joins. May give it the id by its name, to keep it apart from
    /// another host that is known by its id. `is_local`: it is connected from this machine.
    ///
    /// # Errors
    /// Why it is refused.
    fn examine(&mut self, _: &mut Join, _is_local: bool) -> Result<(), String> {
        Ok(())
    }

    fn joined(&mut self, member: &Joined);

    /// A document of a member, with the one to which it has measured: bytes that nobody has looked
    /// at.
    ///
    /// # Errors
    /// Why it is refused; the member is lost then.
    fn delivered(
        &mut self,
        member: &Joined,
        partner: Option<&Joined>,
        skew: Option<Skew>,
        document: &[u8],
    ) -> Result<(), String>;

    fn lost(&mut self, member: &Joined, reason: &str);

    /// A connection that did not become a member.
    fn refused(&mut self, reason: &str);

    /// Some times a second. Returns how many of the expected members cannot come.
    fn tick(&mut self, counts: &PlanCounts) -> usize;
}

/// Who is at the other end of a connection.
enum Party {
    /// Nobody knows yet.
    Stranger(Greeting),
    Member(usize),
    /// Somebody to whom a last line is being sent.
    Leaving,
}

impl Party {
    /// Whether it may be without the token.
    fn is_stranger(&self) -> bool {
        matches!(self, Self::Leaving | Self::Stranger(Greeting::Hello | Greeting::Proof(_)))
    }
}

struct CoordinatorPeer {
    wire: Wire,
    ip: IpAddr,
    /// Whether both ends have one address.
    is_local: bool,
    party: Party,
    since_ns: u64,
    /// Whether the kernel is asked when it can send.
    waits_to_send: bool,
}

struct Coordinator<'p, 'a> {
    plan: &'p CoordinatorPlan<'p>,
    audience: &'a mut dyn CoordinatorAudience,
    roster: Roster<'p>,
    epoll: OwnedFd,
    listeners: Vec<TcpListener>,
    peers: Vec<Option<CoordinatorPeer>>,
    /// The connections of the members.
    slots: Vec<Option<usize>>,
    /// How many of the expected members cannot come.
    absent: usize,
}

/// Waits for members, gives them their work, and hands their documents to the audience, until all
/// have delivered or are lost, or `stop` becomes readable. Members are sent away at the end.
///
/// # Errors
/// If it cannot wait for connections.
pub fn coordinate(
    listeners: Vec<TcpListener>,
    plan: &CoordinatorPlan<'_>,
    stop: BorrowedFd<'_>,
    audience: &mut dyn CoordinatorAudience,
) -> std::io::Result<PlanOutcome> {
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, stop, EventData::new_u64(STOP), EventFlags::IN)?;
    for (at, listener) in listeners.iter().enumerate() {
        listener.set_nonblocking(true)?;
        epoll::add(&epoll, listener, EventData::new_u64(LISTENER - at as u64), EventFlags::IN)?;
    }
    let mut coordinator = Coordinator {
        plan,
        audience,
        roster: Roster::new(plan),
        epoll,
        listeners,
        peers: Vec::new(),
        slots: Vec::new(),
        absent: 0,
    };
    let is_stopped = coordinator.run()?;
    coordinator.send_away(stop)?;
    let (members, failures) = coordinator.roster.ended();
    Ok(PlanOutcome { members, failures, is_stopped })
}

impl Coordinator<'_, '_> {
    /// Returns whether it was stopped.
    fn run(&mut self) -> std::io::Result<bool> {
        let mut events = Vec::with_capacity(EVENTS);
        let mut ticked_ns = 0;
        loop {
            self.wait(&mut events)?;
            if events.iter().any(|event| event.data.u64() == STOP) {
                return Ok(true);
            }
            let last = LISTENER - self.listeners.len() as u64;
            for event in &events {
                match event.data.u64() {
                    data if data > last => self.accept((LISTENER - data) as usize),
                    data => self.event(data as usize, event.flags),
                }
            }
            let now_ns = (self.plan.clock)();
            let is_tick = now_ns.saturating_sub(ticked_ns) >= TICK_NS;
            // What has arrived counts first: this process itself may have been stopped.
            if is_tick && events.len() < EVENTS {
                ticked_ns = now_ns;
                self.apply_limits();
                self.absent = self.audience.tick(&self.roster.counts());
            }
            if self.roster.take_change() || is_tick {
                for (at, message) in self.roster.advance(self.absent, now_ns) {
                    self.tell(at, &message);
                }
            }
            if self.roster.is_over() {
                return Ok(false);
            }
        }
    }

    fn wait(&self, events: &mut Vec<Event>) -> std::io::Result<()> {
        events.clear();
        let timeout = Timespec { tv_sec: 0, tv_nsec: TICK_NS as _ };
        match epoll::wait(&self.epoll, spare_capacity(events), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Of each stranger its slot.
    fn strangers(&self) -> Vec<(usize, &CoordinatorPeer)> {
        let all = self.peers.iter().enumerate();
        let present = all.filter_map(|(slot, peer)| Some((slot, peer.as_ref()?)));
        present.filter(|(_, peer)| peer.party.is_stranger()).collect()
    }

    /// Places for strangers. If there is none, the oldest of the address that has most is given up,
    /// so that nobody who connects again and again keeps others away.
    fn room(&mut self) -> usize {
        let strangers = self.strangers();
        if strangers.len() < STRANGERS_MAX {
            return STRANGERS_MAX - strangers.len();
        }
        let of_address = |ip| strangers.iter().filter(|(_, peer)| peer.ip == ip).count();
        let oldest = strangers
            .iter()
            .max_by_key(|(_, peer)| (of_address(peer.ip), std::cmp::Reverse(peer.since_ns)));
        let &(slot, &CoordinatorPeer { ip, since_ns, .. }) = oldest.expect("all places are taken");
        if (self.plan.clock)().saturating_sub(since_ns) < PLACE_NS {
            return 0;
        }
        self.audience.refused(&format!(
            "{ip} gives up its place: {STRANGERS_MAX} connections, at most {STRANGERS_MAX}, have \
             not proved the token"
        ));
        self.close(slot, "given up");
        1
    }

    fn accept(&mut self, listener: usize) {
        let mut room = self.room();
        if room == 0 {
            // The others wait in the kernel until the next tick; its event would return at once.
            self.listen(false);
        }
        while room > 0 {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            match acceptfrom_with(&self.listeners[listener], flags) {
                Ok((socket, address)) => {
                    let address = address.and_then(|it| SocketAddr::try_from(it).ok());
                    // The end may be gone already.
                    let Some(address) = address else { continue };
                    self.add(socket, address.ip().to_canonical());
                    room -= 1;
                }
                Err(Errno::CONNABORTED | Errno::INTR) => {}
                // The event would return at once; it is asked for again when one is closed.
                Err(Errno::MFILE | Errno::NFILE) => return self.listen(false),
                Err(_) => return,
            }
        }
    }

    /// Asks the kernel for new connections, or not.
    fn listen(&self, does: bool) {
        for (at, listener) in self.listeners.iter().enumerate() {
            let data = EventData::new_u64(LISTENER - at as u64);
            let flags = if does { EventFlags::IN } else { EventFlags::empty() };
            // It is registered as long as this exists.
            let _ = epoll::modify(&self.epoll, listener, data, flags);
        }
    }

    fn add(&mut self, socket: OwnedFd, ip: IpAddr) {
        // Stamps must not wait for other lines.
        let _ = sockopt::set_tcp_nodelay(&socket, true);
        let slot = self.peers.iter().position(Option::is_none).unwrap_or_else(|| {
            self.peers.push(None);
            self.peers.len() - 1
        });
        let data = EventData::new_u64(slot as u64);
        if epoll::add(&self.epoll, &socket, data, EventFlags::IN).is_ok() {
            let (party, since_ns) = (Party::Stranger(Greeting::Hello), (self.plan.clock)());
            let near = getsockname(&socket).ok().and_then(|it| SocketAddr::try_from(it).ok());
            let is_local = near.is_some_and(|near| near.ip().to_canonical() == ip);
            let (wire, waits_to_send) = (Wire::new(socket), false);
            self.peers[slot] =
                Some(CoordinatorPeer { wire, ip, is_local, party, since_ns, waits_to_send });
        }
    }

    fn event(&mut self, slot: usize, flags: EventFlags) {
        let Some(peer) = self.peers.get_mut(slot).and_then(Option::as_mut) else { return };
        if flags.contains(EventFlags::OUT) {
            if let Err(why) = peer.wire.flush() {
                return self.close(slot, &why);
            }
            self.ask_to_send(slot);
        }
        let readable = EventFlags::IN | EventFlags::HUP | EventFlags::ERR;
        if !flags.intersects(readable) {
            return;
        }
        let Some(peer) = self.peers[slot].as_mut() else { return };
        if let Err(why) = peer.wire.fill() {
            return self.close(slot, &why);
        }
        if let Party::Member(at) = peer.party {
            self.roster.hears_bytes(at, (self.plan.clock)());
        }
        while let Some(peer) = self.peers[slot].as_mut() {
            if matches!(peer.party, Party::Leaving) {
                // Unread bytes would reset the connection before the last line was read.
                return peer.wire.discard();
            }
            let done = match peer.wire.next() {
                Ok(None) => return,
                Ok(Some(Item::Line(line))) => self.line(slot, &line),
                Ok(Some(Item::Document(document))) => self.document(slot, &document),
                Err(why) => Err(why),
            };
            if let Err(why) = done {
                self.dismiss(slot, &why);
            }
        }
    }

    fn line(&mut self, slot: usize, line: &[u8]) -> Result<(), String> {
        let now_ns = (self.plan.clock)();
        let message: ToCoordinator = serde_json::from_slice(line)
            .map_err(|error| fathom_far::printable(&format!("an unknown message: {error}")))?;
        let Some(peer) = self.peers[slot].as_mut() else { return Ok(()) };
        let at = match &mut peer.party {
            Party::Member(at) => *at,
            Party::Leaving => return Ok(()),
            Party::Stranger(greeting) => {
                let greeting = std::mem::replace(greeting, Greeting::Hello);
                return self.greet(slot, greeting, message);
            }
        };
        let document = match message {
            ToCoordinator::Document { bytes } => Some(bytes as usize),
            _ => None,
        };
        let answer = self.roster.heard(at, message, now_ns)?;
        if let (Some(bytes), Some(peer)) = (document, self.peers[slot].as_mut()) {
            peer.wire.expect(bytes);
        }
        match answer {
            Some(answer) => self.send(slot, &answer),
            None => Ok(()),
        }
    }

    fn greet(
        &mut self,
        slot: usize,
        greeting: Greeting,
        message: ToCoordinator,
    ) -> Result<(), String> {
        let token: &Token = &self.plan.token;
        let Some(peer) = &self.peers[slot] else { return Ok(()) };
        let (ip, is_local) = (peer.ip, peer.is_local);
        let greeted = greeting.hears(message, token).map_err(|error| error.to_string())?;
        let (party, answer) = match greeted {
            Greeted::Goes(next, answer) => (Party::Stranger(next), answer),
            Greeted::Joins(mut join) => {
                join.check()?;
                self.audience.examine(&mut join, is_local)?;
                let at = self.roster.admit(*join, ip, (self.plan.clock)())?;
                self.slots.push(Some(slot));
                self.audience.joined(self.roster.member(at));
                self.listen(true);
                (Party::Member(at), Some(ToMember::Joined))
            }
        };
        if let Some(peer) = self.peers[slot].as_mut() {
            peer.party = party;
        }
        answer.map_or(Ok(()), |answer| self.send(slot, &answer))
    }

    fn document(&mut self, slot: usize, document: &[u8]) -> Result<(), String> {
        let Some(CoordinatorPeer { party: Party::Member(at), .. }) = self.peers[slot] else {
            return Ok(());
        };
        let member = self.roster.member(at);
        let (partner, skew) = (self.roster.partner(at), self.roster.skew(at));
        self.audience.delivered(member, partner, skew, document)?;
        self.roster.delivered(at, (self.plan.clock)());
        if !self.roster.stays() {
            self.leave(slot, None);
        }
        Ok(())
    }

    fn send(&mut self, slot: usize, message: &ToMember) -> Result<(), String> {
        let Some(peer) = self.peers[slot].as_mut() else { return Ok(()) };
        let line = line(message).map_err(|error| error.to_string())?;
        peer.wire.send(&line)?;
        self.ask_to_send(slot);
        Ok(())
    }

    /// Sends to a member, which is lost if that fails.
    fn tell(&mut self, at: usize, message: &ToMember) {
        let Some(slot) = self.slots[at] else { return };
        if let ToMember::End { reason } = message {
            self.leave(slot, reason.as_deref());
        } else if let Err(why) = self.send(slot, message) {
            self.close(slot, &why);
        }
    }

    /// Asks the kernel when the rest can be sent.
    fn ask_to_send(&mut self, slot: usize) {
        let Some(peer) = self.peers[slot].as_mut() else { return };
        let waits = peer.wire.has_unsent();
        if !waits && matches!(peer.party, Party::Leaving) {
            let _ = shutdown(&peer.wire, Shutdown::Write);
        }
        if waits == peer.waits_to_send {
            return;
        }
        peer.waits_to_send = waits;
        let both = EventFlags::IN | EventFlags::OUT;
        let flags = if waits { both } else { EventFlags::IN };
        let data = EventData::new_u64(slot as u64);
        let _ = epoll::modify(&self.epoll, peer.wire.as_fd(), data, flags);
    }

    /// Sends the last line. The other end closes then.
    fn leave(&mut self, slot: usize, reason: Option<&str>) {
        let Some(peer) = self.peers[slot].as_mut() else { return };
        if let Party::Member(at) = peer.party {
            self.slots[at] = None;
        }
        (peer.party, peer.since_ns) = (Party::Leaving, (self.plan.clock)());
        let end = ToMember::End { reason: reason.map(str::to_owned) };
        if self.send(slot, &end).is_err() {
            self.peers[slot] = None;
        }
    }

    /// Sends an end away that did wrong, and says why.
    fn dismiss(&mut self, slot: usize, why: &str) {
        match self.peers[slot].as_ref().map(|peer| &peer.party) {
            Some(Party::Member(at)) => self.lose(*at, why),
            Some(Party::Stranger(_)) => self.audience.refused(why),
            Some(Party::Leaving) | None => return,
        }
        self.leave(slot, Some(why));
    }

    fn lose(&mut self, at: usize, why: &str) {
        if self.roster.lose(at, why) {
            self.audience.lost(self.roster.member(at), why);
        }
    }

    /// Forgets a connection that has ended.
    fn close(&mut self, slot: usize, why: &str) {
        // Closing removes it from epoll.
        let Some(peer) = self.peers[slot].take() else { return };
        if let Party::Member(at) = peer.party {
            self.slots[at] = None;
            self.lose(at, why);
        }
        self.listen(true);
    }

    fn apply_limits(&mut self) {
        let now_ns = (self.plan.clock)();
        for (at, why) in self.roster.overdue(now_ns) {
            match self.slots[at] {
                Some(slot) => self.dismiss(slot, &why),
                None => self.lose(at, &why),
            }
        }
        for slot in 0..self.peers.len() {
            let Some(peer) = &self.peers[slot] else { continue };
            let (ip, waited_ns) = (peer.ip, now_ns.saturating_sub(peer.since_ns));
            match &peer.party {
                Party::Stranger(Greeting::Join) | Party::Leaving if waited_ns >= GREET_NS => {
                    self.close(slot, "it is silent");
                }
                Party::Member(_) | Party::Leaving | Party::Stranger(Greeting::Join) => {}
                Party::Stranger(_) if waited_ns < PROOF_NS => {}
                Party::Stranger(_) => {
                    let limit = PROOF_NS / 1_000_000_000;
                    self.audience.refused(&format!("{ip}: no proof of the token in {limit} s"));
                    self.close(slot, "it is silent");
                }
            }
        }
        self.listen(true);
    }

    /// Ends all members, and waits a little until they have read it.
    fn send_away(&mut self, stop: BorrowedFd<'_>) -> std::io::Result<()> {
        // It may stay readable.
        epoll::delete(&self.epoll, stop)?;
        self.listeners.clear();
        for slot in 0..self.peers.len() {
            match self.peers[slot].as_ref().map(|peer| &peer.party) {
                Some(Party::Member(_)) => self.leave(slot, None),
                Some(Party::Stranger(_)) => self.peers[slot] = None,
                Some(Party::Leaving) | None => {}
            }
        }
        let until_ns = (self.plan.clock)() + GRACE_NS;
        let mut events = Vec::with_capacity(EVENTS);
        while self.peers.iter().any(Option::is_some) && (self.plan.clock)() < until_ns {
            self.wait(&mut events)?;
            for event in &events {
                self.event(event.data.u64() as usize, event.flags);
            }
        }
        Ok(())
    }
}
