//! A reactor: one thread that waits for events of its connections and gives them their turns.
//!
//! All reactors wait for the same listeners, and the one with fewer connections gets the next:
//! with SO_REUSEPORT the kernel chooses by a hash of the addresses, and 16 connections on two
//! reactors are then often 11 and 5.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::ops::ControlFlow::{Break, Continue};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use fathom_measure::clock::wall_ns;
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{
    RecvFlags, SendFlags, Shutdown, SocketFlags, acceptfrom_with, recv, send, shutdown,
};

use crate::connection::{Connection, State};
use crate::counters::{Counters, connections};
use crate::lane::Job;
use crate::mailbox::Mail;
use crate::refusal::Refusal;
use crate::reply::Date;
use crate::resident::Probe;
use crate::shared::Shared;
use crate::turn::{Flow, Next};

const EVENTS: usize = 256;
const INPUT_BYTES: usize = 16 << 10;
/// How often time limits are checked.
const TICK_NS: u64 = 500_000_000;
const LINGER_NS: u64 = 1_000_000_000;
/// While there is room, a connection that is idle for less is not closed: its request may be on its
/// way.
const FRESH_NS: u64 = 1_000_000_000;
/// A client that has closed its side while it waits for a lane may still read the response; mostly
/// it has given up.
const LEFT_NS: u64 = 1_000_000_000;
/// Connections accepted at a time.
const ACCEPTS: usize = 64;

/// Without a free descriptor, not even one to refuse with.
const EXHAUSTED_PAUSE: std::time::Duration = std::time::Duration::from_millis(1);

/// Data of the events that are not of connections.
const BELL: u64 = u64::MAX;
const LISTENER: u64 = u64::MAX - 1;

const REFUSED: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\
    Connection: close\r\nRetry-After: 1\r\n\r\n";

pub(crate) struct Reactor {
    pub(crate) shared: Arc<Shared>,
    pub(crate) number: usize,
    epoll: OwnedFd,
    connections: Vec<Option<Box<Connection>>>,
    /// Incremented when a slot is freed, so that late events and lanes miss it.
    pub(crate) generations: Vec<u32>,
    free: Vec<u32>,
    /// Connections with more to do.
    again: VecDeque<(u32, u32)>,
    /// Buffers of all connections: one is served at a time.
    pub(crate) input: Vec<u8>,
    pub(crate) head: Vec<u8>,
    pub(crate) output: Vec<u8>,
    pub(crate) date: Date,
    pub(crate) probe: Probe,
    /// `Shared::evicted` when the probe last heard of it.
    evicted: u64,
    /// The time of this round of events.
    pub(crate) now_ns: u64,
    ticked_ns: u64,
    /// Given up for a moment to accept, and refuse, a connection for which none is left.
    reserve: Option<OwnedFd>,
    is_stopping: bool,
    /// Jobs of lanes that nobody waits for may be in their queues.
    pub(crate) has_cancelled: bool,
    /// Scripted by tests.
    pub(crate) clock: fn() -> u64,
}

impl Reactor {
    pub(crate) fn new(
        shared: Arc<Shared>,
        number: usize,
        clock: fn() -> u64,
    ) -> std::io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let bell = shared.mailboxes[number].bell();
        epoll::add(&epoll, bell, EventData::new_u64(BELL), EventFlags::IN)?;
        for (at, listener) in shared.listeners.iter().enumerate() {
            // One of the waiting reactors is woken, not all.
            let flags = EventFlags::IN | EventFlags::EXCLUSIVE;
            epoll::add(&epoll, listener, EventData::new_u64(LISTENER - at as u64), flags)?;
        }
        let reserve = reserve();
        let probe = Probe::new(shared.cold, Arc::clone(&shared.loads));
        Ok(Self {
            shared,
            number,
            epoll,
            connections: Vec::new(),
            generations: Vec::new(),
            free: Vec::new(),
            again: VecDeque::new(),
            input: vec![0; INPUT_BYTES],
            head: Vec::new(),
            output: Vec::new(),
            date: Date::default(),
            probe,
            evicted: 0,
            now_ns: clock(),
            ticked_ns: 0,
            reserve,
            is_stopping: false,
            has_cancelled: false,
            clock,
        })
    }

    pub(crate) fn own(&self) -> &Counters {
        &self.shared.counters[self.number]
    }

    /// Serves until the service stops and its connections have ended, or are cut.
    pub(crate) fn run(mut self) {
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS);
        loop {
            let left = self.own().connections.load(Relaxed);
            if self.is_stopping && (left == 0 || self.shared.is_ended.load(Relaxed)) {
                return;
            }
            self.wait(&mut events, self.timeout(left));
            self.round(&events);
        }
    }

    fn wait(&self, events: &mut Vec<Event>, timeout: Option<Timespec>) {
        events.clear();
        // Interrupted, or never: the descriptors are valid as long as this exists.
        let _ = epoll::wait(&self.epoll, spare_capacity(events), timeout.as_ref());
    }

    /// Handles events, then applies the time limits.
    fn round(&mut self, events: &[Event]) {
        self.now_ns = (self.clock)();
        self.date.set(wall_ns());
        let evicted = self.shared.evicted.load(Relaxed);
        if evicted != self.evicted {
            self.evicted = evicted;
            self.probe.forget();
        }
        let first_listener = LISTENER + 1 - self.shared.listeners.len() as u64;
        for event in events {
            match event.data.u64() {
                BELL => self.open_mail(),
                data if data >= first_listener => {}
                data => self.event(data as u32, (data >> 32) as u32, event.flags),
            }
        }
        // Last: connections that have just ended leave their places.
        for data in events.iter().map(|event| event.data.u64()) {
            if (first_listener..=LISTENER).contains(&data) {
                self.accept((LISTENER - data) as usize);
            }
        }
        for _ in 0..self.again.len() {
            let Some((slot, generation)) = self.again.pop_front() else { break };
            if self.generations[slot as usize] == generation {
                self.drive(slot, Reactor::turn);
            }
        }
        if self.shared.stops() {
            self.stop();
        }
        if self.now_ns - self.ticked_ns >= TICK_NS {
            self.ticked_ns = self.now_ns;
            self.tick();
        }
    }

    /// Without connections it sleeps until an event.
    fn timeout(&self, connections: usize) -> Option<Timespec> {
        let ns = match (self.again.is_empty(), connections) {
            (false, _) => 0,
            (true, 0) => return None,
            (true, _) => (self.ticked_ns + TICK_NS).saturating_sub(self.now_ns).max(1_000_000),
        };
        Some(Timespec { tv_sec: 0, tv_nsec: ns.min(999_999_999) as _ })
    }

    fn event(&mut self, slot: u32, generation: u32, flags: EventFlags) {
        if self.generations.get(slot as usize) != Some(&generation) {
            return;
        }
        let Some(Some(c)) = self.connections.get_mut(slot as usize) else { return };
        let ends = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        c.is_ended |= flags.intersects(ends);
        c.is_readable |= flags.intersects(ends | EventFlags::IN);
        if c.waiting.is_some() && flags.intersects(EventFlags::HUP | EventFlags::ERR) {
            return self.drive(slot, |this, _, _| this.leave_lane());
        }
        self.drive(slot, Reactor::turn);
    }

    /// Gives a connection a turn.
    fn drive(&mut self, slot: u32, turn: impl FnOnce(&mut Self, &mut Connection, u32) -> Next) {
        // Taken out, so that the turn can use the reactor.
        let Some(mut c) = self.connections[slot as usize].take() else { return };
        match turn(self, &mut c, slot) {
            Next::Close => self.release(slot, *c),
            next => {
                self.connections[slot as usize] = Some(c);
                if next == Next::Again {
                    self.again.push_back((slot, self.generations[slot as usize]));
                }
            }
        }
    }

    fn release(&mut self, slot: u32, c: Connection) {
        self.shared.leave(c.peer);
        self.has_cancelled |= c.waiting.is_some();
        // The descriptor is not shared: closing it removes it from epoll.
        drop(c);
        self.generations[slot as usize] = self.generations[slot as usize].wrapping_add(1);
        self.free.push(slot);
        self.own().connections.fetch_sub(1, Relaxed);
    }

    /// Gives the connection to a far end. Its descriptor is shared from then on, so that closing it
    /// here would not remove it from epoll.
    pub(crate) fn to_far_end(&self, c: &Connection) -> Result<(), Refusal> {
        let socket = c.socket.try_clone().map_err(|_| Refusal::Busy)?;
        self.shared.far.start(&self.shared, socket, c.peer)?;
        let _ = epoll::delete(&self.epoll, &c.socket);
        Ok(())
    }

    fn open_mail(&mut self) {
        for mail in self.shared.mailboxes[self.number].empty() {
            match mail {
                Mail::Accepted { socket, peer } => self.add(socket, peer),
                Mail::Done { slot, generation, done } => {
                    if self.generations[slot as usize] == generation {
                        self.drive(slot, |this, c, slot| this.resume(c, slot, done));
                    }
                }
            }
        }
    }

    fn accept(&mut self, listener: usize) {
        for _ in 0..ACCEPTS {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            match acceptfrom_with(&self.shared.listeners[listener], flags) {
                Ok((socket, address)) => {
                    let address = address.and_then(|any| SocketAddr::try_from(any).ok());
                    self.place(socket, address.map(|address| address.ip().to_canonical()));
                }
                Err(Errno::MFILE | Errno::NFILE) => {
                    if !self.accept_with_reserve(listener) {
                        return;
                    }
                }
                // The client has left already.
                Err(Errno::CONNABORTED | Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }

    /// Refuses a connection for which no descriptor is left. False if there is none.
    fn accept_with_reserve(&mut self, listener: usize) -> bool {
        drop(self.reserve.take());
        // A far end that is started meanwhile must not inherit it.
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let accepted = acceptfrom_with(&self.shared.listeners[listener], flags);
        match &accepted {
            Ok((socket, _)) => self.turn_away(socket),
            Err(Errno::MFILE | Errno::NFILE) => {
                self.close_idle(0);
                // The event returns at once, as long as a connection waits.
                std::thread::sleep(EXHAUSTED_PAUSE);
            }
            Err(_) => {}
        }
        let is_accepted = accepted.is_ok();
        drop(accepted);
        self.reserve = reserve();
        is_accepted
    }

    /// Keeps a connection, or gives it to the reactor with fewest.
    fn place(&mut self, socket: OwnedFd, address: Option<IpAddr>) {
        let peer = address.filter(|address| !address.is_loopback());
        let (all, most) = (connections(&self.shared.counters), self.shared.connections_max);
        if all * 10 >= most * 9 {
            self.close_idle(if all < most { FRESH_NS } else { 0 });
        }
        if connections(&self.shared.counters) >= most || !self.shared.enter(peer) {
            return self.turn_away(&socket);
        }
        self.own().accepted.add(1);
        let load = |number: &usize| self.shared.counters[*number].connections.load(Relaxed);
        let least = (0..self.shared.counters.len()).min_by_key(load).unwrap_or(self.number);
        let target = if load(&self.number) > load(&least) + 1 { least } else { self.number };
        self.shared.counters[target].connections.fetch_add(1, Relaxed);
        if target == self.number {
            self.add(socket, peer);
        } else {
            self.shared.mailboxes[target].leave(Mail::Accepted { socket, peer });
        }
    }

    /// As well as possible without a place for the connection.
    fn turn_away(&mut self, socket: &OwnedFd) {
        self.own().refused.add(1);
        self.own().status(503);
        let _ = send(socket, REFUSED, SendFlags::NOSIGNAL);
        let _ = shutdown(socket, Shutdown::Write);
        // Unread bytes would reset the connection before the client has read the refusal.
        let _ = recv(socket, &mut self.input[..], RecvFlags::empty());
    }

    /// Adds a connection that is counted already.
    fn add(&mut self, socket: OwnedFd, peer: Option<IpAddr>) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.connections.push(None);
            self.generations.push(0);
            (self.connections.len() - 1) as u32
        });
        let generation = self.generations[slot as usize];
        // Edges: registered once, and never changed.
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        let data = EventData::new_u64(u64::from(generation) << 32 | u64::from(slot));
        let is_added = epoll::add(&self.epoll, &socket, data, flags).is_ok();
        let c = Connection::new(socket, peer, self.now_ns);
        if !is_added {
            return self.release(slot, c);
        }
        self.connections[slot as usize] = Some(Box::new(c));
        self.drive(slot, Reactor::turn);
    }

    /// Makes room: closes the hundredth of the connections that is idle for longest, at least for
    /// `least_ns`. If no time is asked for, also one that was answered and waits for its client.
    fn close_idle(&mut self, least_ns: u64) {
        let is_left = |c: &Connection| matches!(c.state, State::Lingering) || c.has_left();
        let may = |c: &Connection| c.is_idle() || (least_ns == 0 && is_left(c));
        let mut idle: Vec<(u64, u32)> = self
            .present()
            .filter(|(_, c)| may(c) && self.now_ns.saturating_sub(c.since_ns) >= least_ns)
            .map(|(slot, c)| (c.since_ns, slot))
            .collect();
        idle.sort_unstable();
        let mut left = (self.shared.connections_max / 100).max(1);
        for (_, slot) in idle {
            if left == 0 {
                break;
            }
            self.drive(slot, |this, c, slot| {
                // A request whose event was not handled yet.
                if c.is_idle() && c.has_arrived() {
                    c.is_readable = true;
                    return this.turn(c, slot);
                }
                left -= 1;
                this.own().timed_out.add(1);
                Next::Close
            });
        }
    }

    fn present(&self) -> impl Iterator<Item = (u32, &Connection)> {
        let slots = self.connections.iter().enumerate();
        slots.filter_map(|(slot, c)| c.as_deref().map(|c| (slot as u32, c)))
    }

    /// Applies the time limits.
    fn tick(&mut self) {
        let shared = Arc::clone(&self.shared);
        let limits = &shared.limits;
        let late = |c: &Connection| {
            let limit_ns = match &c.state {
                State::Reading if c.pending.is_empty() => limits.idle_ns,
                State::Reading => limits.head_ns,
                State::Responding(_) => limits.rate_after_ns,
                State::Lingering => LINGER_NS,
                // They wait for this machine, not for the client.
                State::Opening { .. } | State::Loading { .. } | State::Making(_) => {
                    match &c.waiting {
                        Some(waiting) if !c.is_ended => waiting.limit_ns,
                        _ => LEFT_NS,
                    }
                }
            };
            let since_ns = match &c.state {
                State::Responding(response) => response.checked.0,
                _ => c.since_ns,
            };
            self.now_ns.saturating_sub(since_ns) >= limit_ns
        };
        let slots: Vec<u32> =
            self.present().filter(|(_, c)| late(c)).map(|(slot, _)| slot).collect();
        for slot in slots {
            self.drive(slot, Reactor::time_out);
        }
        // They have files open.
        if std::mem::take(&mut self.has_cancelled) {
            let is_wanted = |job: &Job| !job.ticket.is_left();
            shared.queues().iter().for_each(|queue| queue.retain(is_wanted));
        }
    }

    fn time_out(&mut self, c: &mut Connection, slot: u32) -> Next {
        let now_ns = self.now_ns;
        let rate = self.shared.limits.rate_bytes_per_s as f64 / 1e9;
        match c.state {
            State::Responding(_) => {
                let unsent = c.count_unsent();
                let State::Responding(response) = &mut c.state else { return Next::Close };
                let arrived = response.sent().saturating_sub(unsent);
                let (checked_ns, before) =
                    std::mem::replace(&mut response.checked, (now_ns, arrived));
                let needed = rate * (now_ns - checked_ns) as f64;
                if unsent == 0 || (arrived - before.min(arrived)) as f64 >= needed {
                    return Next::Wait;
                }
                self.own().broken.add(1);
                c.abort();
            }
            State::Reading if c.pending.is_empty() => {
                // All was handed to the kernel; the client may still be reading it.
                let unsent = c.count_unsent();
                let read = c.unsent_bytes.saturating_sub(unsent) as f64;
                let is_first = c.unsent_bytes == 0;
                if unsent > 0 && (is_first || read >= rate * (now_ns - c.since_ns) as f64) {
                    (c.unsent_bytes, c.since_ns) = (unsent, now_ns);
                    return Next::Wait;
                }
                if unsent > 0 {
                    c.abort();
                }
            }
            _ if c.has_left() => return self.leave_lane(),
            State::Opening { .. } | State::Loading { .. } | State::Making(_) => {
                self.own().timed_out.add(1);
                return self.follow(c, slot, |this, c| this.give_up(c, slot, Refusal::Late));
            }
            State::Reading => {
                self.own().timed_out.add(1);
                let pending = std::mem::take(&mut c.pending);
                return self.follow(c, slot, |this, c| {
                    this.refuse(c, slot, Refusal::SlowHead.close(), &pending)
                });
            }
            State::Lingering => {}
        }
        self.own().timed_out.add(1);
        Next::Close
    }

    /// Goes on with a connection outside of its turn.
    pub(crate) fn follow(
        &mut self,
        c: &mut Connection,
        slot: u32,
        flow: impl FnOnce(&mut Self, &mut Connection) -> Flow,
    ) -> Next {
        match flow(self, c) {
            Break(next) => next,
            Continue(()) => self.turn(c, slot),
        }
    }

    /// The client has left while it waited for a lane.
    fn leave_lane(&self) -> Next {
        self.own().broken.add(1);
        Next::Close
    }

    /// Accepts nothing more, and closes what has no response under way.
    fn stop(&mut self) {
        self.is_stopping = true;
        for listener in &self.shared.listeners {
            let _ = epoll::delete(&self.epoll, listener);
        }
        let waiting: Vec<u32> = self
            .present()
            .filter(|(_, c)| matches!(c.state, State::Reading))
            .map(|(slot, _)| slot)
            .collect();
        for slot in waiting {
            self.drive(slot, |_, _, _| Next::Close);
        }
    }
}

fn reserve() -> Option<OwnedFd> {
    std::fs::File::open("/dev/null").ok().map(OwnedFd::from)
}
