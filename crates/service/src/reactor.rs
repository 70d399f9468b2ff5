//! A reactor: one thread that waits for events of its connections and gives them their turns.
//!
//! All reactors wait for the same listeners, and the one with fewer connections gets the next:
//! with SO_REUSEPORT the kernel chooses by a hash of the addresses, and 16 connections on two
//! reactors are then often 11 and 5.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{
    RecvFlags, SendFlags, Shutdown, SocketFlags, acceptfrom_with, recv, send, shutdown,
};

use crate::connection::{Connection, ConnectionState, Next};
use crate::counters::{ServiceCounters, connections};
use crate::handler::ServiceHandler;
use crate::mailbox::Mail;
use crate::shared::ServiceShared;
use crate::ticket::TicketPlace;

const EVENTS: usize = 256;
/// How often time limits are checked.
const TICK_NS: u64 = 500_000_000;
/// While there is room, a connection that is idle for less is not closed: its request may be on its
/// way.
const FRESH_NS: u64 = 1_000_000_000;
/// Connections accepted at a time.
const ACCEPTS: usize = 64;

/// Without a free descriptor, not even one to refuse with.
const EXHAUSTED_PAUSE: std::time::Duration = std::time::Duration::from_millis(1);

/// Data of the events that are not of connections.
const BELL: u64 = u64::MAX;
const LISTENER: u64 = u64::MAX - 1;

const REFUSED: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\
    Connection: close\r\nRetry-After: 1\r\n\r\n";

pub(crate) struct ServiceReactor {
    handler: ServiceHandler,
    epoll: OwnedFd,
    /// By the slots of their places.
    connections: Vec<Option<Box<Connection>>>,
    free: Vec<TicketPlace>,
    /// Connections with more to do.
    again: VecDeque<TicketPlace>,
    ticked_ns: u64,
    /// Given up for a moment to accept, and refuse, a connection for which none is left.
    reserve: Option<OwnedFd>,
    is_stopping: bool,
}

impl ServiceReactor {
    pub(crate) fn new(
        shared: Arc<ServiceShared>,
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
        Ok(Self {
            handler: ServiceHandler::new(shared, number, clock),
            epoll,
            connections: Vec::new(),
            free: Vec::new(),
            again: VecDeque::new(),
            ticked_ns: 0,
            reserve: reserve(),
            is_stopping: false,
        })
    }

    fn shared(&self) -> &ServiceShared {
        &self.handler.shared
    }

    fn own(&self) -> &ServiceCounters {
        self.handler.own()
    }

    /// Serves until the service stops and its connections have ended, or are cut.
    pub(crate) fn run(mut self) {
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS);
        loop {
            let left = self.own().connections.load(Relaxed);
            if self.is_stopping && (left == 0 || self.shared().is_ended.load(Relaxed)) {
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
        self.handler.begin_round();
        let first_listener = LISTENER + 1 - self.shared().listeners.len() as u64;
        for event in events {
            match event.data.u64() {
                BELL => self.open_mail(),
                data if data >= first_listener => {}
                data => self.event(TicketPlace::from_bits(data), event.flags),
            }
        }
        // Last: connections that have just ended leave their places.
        for data in events.iter().map(|event| event.data.u64()) {
            if (first_listener..=LISTENER).contains(&data) {
                self.accept((LISTENER - data) as usize);
            }
        }
        for _ in 0..self.again.len() {
            let Some(place) = self.again.pop_front() else { break };
            self.drive(place, ServiceHandler::turn);
        }
        if self.shared().stops() {
            self.stop();
        }
        if self.handler.now_ns - self.ticked_ns >= TICK_NS {
            self.ticked_ns = self.handler.now_ns;
            self.tick();
        }
    }

    /// Without connections it sleeps until an event.
    fn timeout(&self, connections: usize) -> Option<Timespec> {
        let ns = match (self.again.is_empty(), connections) {
            (false, _) => 0,
            (true, 0) => return None,
            (true, _) => {
                (self.ticked_ns + TICK_NS).saturating_sub(self.handler.now_ns).max(1_000_000)
            }
        };
        Some(Timespec { tv_sec: 0, tv_nsec: ns.min(999_999_999) as _ })
    }

    fn event(&mut self, place: TicketPlace, flags: EventFlags) {
        let ends = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        self.drive(place, |handler, c| {
            c.is_ended |= flags.intersects(ends);
            c.is_readable |= flags.intersects(ends | EventFlags::IN);
            if c.is_waiting() && flags.intersects(EventFlags::HUP | EventFlags::ERR) {
                return handler.leave_lane();
            }
            handler.turn(c)
        });
    }

    /// Gives a connection a turn, if it still has its place.
    fn drive(
        &mut self,
        place: TicketPlace,
        turn: impl FnOnce(&mut ServiceHandler, &mut Connection) -> Next,
    ) {
        let Some(held) = self.connections.get_mut(place.slot as usize) else { return };
        let Some(c) = held.as_deref_mut().filter(|c| c.place == place) else { return };
        let next = turn(&mut self.handler, c);
        if next == Next::Detach {
            let _ = epoll::delete(&self.epoll, &c.socket);
        }
        match next {
            Next::Wait => {}
            Next::Again => self.again.push_back(place),
            // The descriptor is not shared: closing it removes it from epoll.
            Next::Close | Next::Detach => {
                if let Some(c) = held.take() {
                    self.handler.release(*c);
                    self.free.push(place.next());
                }
            }
        }
    }

    fn open_mail(&mut self) {
        for mail in self.shared().mailboxes[self.handler.number].empty() {
            match mail {
                Mail::Accepted { socket, peer } => self.add(socket, peer),
                Mail::Done { place, done } => {
                    self.drive(place, |handler, c| handler.resume(c, done));
                }
            }
        }
    }

    fn accept(&mut self, listener: usize) {
        for _ in 0..ACCEPTS {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            match acceptfrom_with(&self.shared().listeners[listener], flags) {
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
        let accepted = acceptfrom_with(&self.shared().listeners[listener], flags);
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
        let (all, most) = (connections(&self.shared().counters), self.shared().connections_max);
        if all * 10 >= most * 9 {
            self.close_idle(if all < most { FRESH_NS } else { 0 });
        }
        if connections(&self.shared().counters) >= most || !self.shared().enter(peer) {
            return self.turn_away(&socket);
        }
        self.own().accepted.add(1);
        let load = |number: &usize| self.shared().counters[*number].connections.load(Relaxed);
        let least =
            (0..self.shared().counters.len()).min_by_key(load).unwrap_or(self.handler.number);
        let target =
            if load(&self.handler.number) > load(&least) + 1 { least } else { self.handler.number };
        self.shared().counters[target].connections.fetch_add(1, Relaxed);
        if target == self.handler.number {
            self.add(socket, peer);
        } else {
            self.shared().mailboxes[target].leave(Mail::Accepted { socket, peer });
        }
    }

    /// As well as possible without a place for the connection.
    fn turn_away(&mut self, socket: &OwnedFd) {
        self.own().refused.add(1);
        self.own().status(503);
        let _ = send(socket, REFUSED, SendFlags::NOSIGNAL);
        let _ = shutdown(socket, Shutdown::Write);
        // Unread bytes would reset the connection before the client has read the refusal.
        let _ = recv(socket, &mut self.handler.input[..], RecvFlags::empty());
    }

    /// Adds a connection that is counted already.
    fn add(&mut self, socket: OwnedFd, peer: Option<IpAddr>) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.connections.push(None);
            TicketPlace::new((self.connections.len() - 1) as u32)
        });
        // Edges: registered once, and never changed.
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        let is_added =
            epoll::add(&self.epoll, &socket, EventData::new_u64(place.to_bits()), flags).is_ok();
        let c = Connection::new(socket, peer, place, self.handler.now_ns);
        self.connections[place.slot as usize] = Some(Box::new(c));
        self.drive(place, |handler, c| if is_added { handler.turn(c) } else { Next::Close });
    }

    /// Makes room: closes the hundredth of the connections that is idle for longest, at least for
    /// `least_ns`. If no time is asked for, also one that was answered and waits for its client, or
    /// has sent half a head: whoever has sent no request keeps nobody away.
    fn close_idle(&mut self, least_ns: u64) {
        let is_left = |c: &Connection| {
            matches!(c.state, ConnectionState::Lingering | ConnectionState::Reading) || c.has_left()
        };
        let may = |c: &Connection| c.is_idle() || (least_ns == 0 && is_left(c));
        let now_ns = self.handler.now_ns;
        let mut idle: Vec<(u64, TicketPlace)> = self
            .present()
            .filter(|c| may(c) && now_ns.saturating_sub(c.since_ns) >= least_ns)
            .map(|c| (c.since_ns, c.place))
            .collect();
        idle.sort_unstable_by_key(|(since_ns, place)| (*since_ns, place.slot));
        let mut left = (self.shared().connections_max / 100).max(1);
        for (_, place) in idle {
            if left == 0 {
                break;
            }
            self.drive(place, |handler, c| {
                // A request whose event was not handled yet.
                if c.is_idle() && c.has_arrived() {
                    c.is_readable = true;
                    return handler.turn(c);
                }
                left -= 1;
                handler.own().timed_out.add(1);
                Next::Close
            });
        }
    }

    fn present(&self) -> impl Iterator<Item = &Connection> {
        self.connections.iter().filter_map(Option::as_deref)
    }

    /// Applies the time limits.
    fn tick(&mut self) {
        let (limits, now_ns) = (&self.shared().limits, self.handler.now_ns);
        let late: Vec<TicketPlace> =
            self.present().filter(|c| c.is_late(limits, now_ns)).map(|c| c.place).collect();
        for place in late {
            self.drive(place, ServiceHandler::time_out);
        }
        self.handler.drop_cancelled();
    }

    /// Accepts nothing more, and closes what has no response under way.
    fn stop(&mut self) {
        self.is_stopping = true;
        for listener in &self.shared().listeners {
            let _ = epoll::delete(&self.epoll, listener);
        }
        let reading = |c: &&Connection| matches!(c.state, ConnectionState::Reading);
        let waiting: Vec<TicketPlace> = self.present().filter(reading).map(|c| c.place).collect();
        for place in waiting {
            self.drive(place, |_, _| Next::Close);
        }
    }
}

fn reserve() -> Option<OwnedFd> {
    std::fs::File::open("/dev/null").ok().map(OwnedFd::from)
}
