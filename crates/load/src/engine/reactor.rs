//! A thread of clients: one epoll instance, one receive buffer, no system call besides send, recv
//! and a shared epoll_wait per request.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::Relaxed;

use fathom_analysis::load::SLOTS;
use fathom_fileio::XorSum;
use fathom_http::{Connector, Stream, StreamError};
use fathom_measure::clock::{monotonic_raw_ns as now_ns, thread_cpu_ns};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::sockopt;

use super::client::{Asked, Client, ClientState, Progress};
use super::fault::by_words;
use super::meter::Dial;
use super::open::Open;
use super::pause::below;
use super::phases::EnginePhase;
use super::shared::{EngineSeat, EngineShared};
use super::wait::{EVENTS_MAX, wait};
use super::{Body, EngineChoice, Fault, SLICES, Tally, Workload, redirects};

/// Large enough for whatever a socket has received.
const BUFFER_BYTES: usize = 1 << 20;
/// Between two checks of the deadlines of all clients.
const DEADLINES_NS: u64 = 50_000_000;
/// Requests of an open loop that begin before the thread looks at events again.
const BEGUN_MAX: usize = 64;
/// Wait of a client after a failed request, so that a dead server is not flooded.
const BACK_OFF_NS: u64 = 100_000_000;

/// Registered once for each connection. Edge-triggered, so that no request needs epoll_ctl: after a
/// short read the socket is empty, and new data gives a new event.
const INTEREST: EventFlags =
    EventFlags::IN.union(EventFlags::OUT).union(EventFlags::RDHUP).union(EventFlags::ET);
const ENDED: EventFlags = EventFlags::RDHUP.union(EventFlags::HUP).union(EventFlags::ERR);

pub(super) struct Reactor<'w> {
    work: &'w Workload,
    shared: &'w EngineShared,
    seat: &'w EngineSeat,
    dial: Option<&'w Dial>,
    epoll: OwnedFd,
    /// Number of the first client; the others follow in steps of the number of threads.
    first: u32,
    clients: Vec<Client>,
    buffer: Vec<u8>,
    /// When idle clients send again.
    waking: BinaryHeap<Reverse<(u64, u32)>>,
    /// The open loop, unless it is a closed one.
    open: Option<Open>,
    tally: Tally,
    /// Whether responses are files, and whether they have no body.
    gets: bool,
    is_head: bool,
    /// The last stamp: when the handling of the present event began.
    now: u64,
}

impl<'w> Reactor<'w> {
    pub(super) fn new(
        work: &'w Workload,
        shared: &'w EngineShared,
        thread: u32,
    ) -> rustix::io::Result<Self> {
        let numbers = (thread..work.clients).step_by(work.threads as usize);
        let client = |number| {
            let mut client = Client::new(work.seed, number);
            client.sum = (work.body == Body::Verify).then(XorSum::default);
            client
        };
        let clients: Vec<Client> = numbers.map(client).collect();
        let open = work.rate.map(|rate| {
            let of = (thread, work.threads);
            let begun_ns = shared.begun_ns + work.shift_ns;
            Open::new(rate, begun_ns, of, work.seed, clients.len() as u32)
        });
        Ok(Self {
            work,
            shared,
            seat: &shared.seats[thread as usize],
            dial: work.meter.as_ref().and_then(|meter| meter.dial(thread)),
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            first: thread,
            clients,
            buffer: vec![0; BUFFER_BYTES],
            waking: BinaryHeap::new(),
            tally: Tally::new(work),
            gets: work.requests.message().gets(),
            is_head: work.requests.message().method == "HEAD",
            open,
            now: now_ns(),
        })
    }

    /// Runs until the end of the window.
    pub(super) fn run(mut self) -> Tally {
        self.shared.await_window();
        self.now = now_ns();
        if self.open.is_some() {
            // By default the kernel may wake a thread up to 50 µs late.
            let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        }
        let closed = if self.open.is_some() { 0 } else { self.clients.len() as u32 };
        for at in 0..closed {
            // Clients that think do not begin together: constant times would keep them in step.
            let mean_ns = self.work.pause.mean_ns.min(u32::MAX.into()) as u32;
            match below(mean_ns, &mut self.clients[at as usize].random) {
                0 => self.begin(at),
                wait => self.waking.push(Reverse((self.now + u64::from(wait), at))),
            }
        }
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let mut check_ns = self.now + DEADLINES_NS;
        while !self.shared.is_over(self.now) {
            let wake = self.wake_ns();
            let timeout = wake.min(check_ns).saturating_sub(now_ns());
            events.clear();
            if let Err(error) = wait(&self.epoll, &mut events, timeout)
                && error != Errno::INTR
            {
                break;
            }
            let ready_ns = now_ns();
            self.now = ready_ns;
            for event in &events {
                self.count_lag(ready_ns);
                self.handle(event.data.u64() as u32, event.flags);
                self.begin_due();
            }
            self.wake();
            self.begin_due();
            if self.now >= check_ns {
                self.check_deadlines();
                check_ns = self.now + DEADLINES_NS;
            }
        }
        self.count_in_flight();
        let Tally { window, window_faults, .. } = &mut self.tally;
        window.faults = by_words(window_faults);
        self.tally
    }

    /// Other clients were handled since a connection was ready. An open loop begins with all
    /// requests that were due before its thread ran: only those of the window count.
    fn count_lag(&mut self, ready_ns: u64) {
        if self.open.is_none() || self.shared.since_begin(ready_ns).is_some() {
            self.tally.window.lag_ns += (self.now - ready_ns) as f64;
            self.tally.window.lags += 1;
        }
    }

    fn count_in_flight(&mut self) {
        self.now = now_ns();
        let is_counted =
            |at: &u64| !self.shared.is_open_loop || self.shared.since_begin(*at).is_some();
        let in_flight = self.clients.iter().filter(|client| client.state != ClientState::Idle);
        let since = in_flight.map(|client| self.since_ns(client));
        let waiting = self.open.as_ref().and_then(|open| open.first_waiting_ns(self.shared));
        let since: Vec<u64> = since.chain(waiting).filter(is_counted).collect();
        let mut open = self.open.take();
        if let Some(open) = &mut open {
            open.arrive(self.now, self.shared, self.seat);
        }
        let window = &mut self.tally.window;
        window.in_flight = open.as_ref().map_or(since.len() as u64, Open::unfinished);
        let lasted = || since.iter().map(|at| self.now.saturating_sub(*at));
        window.in_flight_times = lasted().map(|ns| ns as f64).collect();
        window.longest_in_flight_ns = lasted().max().unwrap_or(0);
        window.sent_late = open.map(Open::into_late);
    }

    /// Since when the response time of a request counts.
    fn since_ns(&self, client: &Client) -> u64 {
        if self.open.is_some() { client.due_ns } else { client.begun_ns }
    }

    /// When the thread must be awake again.
    fn wake_ns(&self) -> u64 {
        let closed = || self.waking.peek().map_or(u64::MAX, |Reverse((at, _))| *at);
        self.open.as_ref().map_or_else(closed, Open::wake_ns)
    }

    /// Begins the requests of an open loop that are due.
    fn begin_due(&mut self) {
        for _ in 0..BEGUN_MAX {
            let Some(open) = &mut self.open else { return };
            open.arrive(self.now, self.shared, self.seat);
            let Some((at, due_ns)) = open.begin() else { return };
            self.clients[at as usize].due_ns = due_ns;
            self.begin(at);
        }
    }

    fn wake(&mut self) {
        while let Some(Reverse((at, client))) = self.waking.peek().copied() {
            if at > self.now {
                break;
            }
            self.waking.pop();
            self.begin(client);
        }
    }

    fn check_deadlines(&mut self) {
        for at in 0..self.clients.len() as u32 {
            let client = &self.clients[at as usize];
            if client.state != ClientState::Idle && client.deadline_ns <= self.now {
                let is_connecting =
                    matches!(client.state, ClientState::Connecting | ClientState::Securing);
                self.fail(at, if is_connecting { Fault::ConnectTimeout } else { Fault::Timeout });
            }
        }
    }

    /// Chooses a file and sends the request, over a new connection if there is none.
    fn begin(&mut self, at: u32) {
        // A run that is stopped before its window makes no request.
        if self.shared.is_over(self.now) || !self.shared.admits() {
            return;
        }
        self.dial.inspect(|dial| dial.begin());
        let files = self.work.requests.len() as u32;
        let number = self.first + at * self.work.threads;
        let client = &mut self.clients[at as usize];
        client.detour = None;
        client.file = match self.work.choice {
            EngineChoice::Random => match self.work.requests.weights() {
                None => below(files, &mut client.random),
                Some(all) => self.work.requests.at_weight(below(all, &mut client.random)),
            },
            EngineChoice::Fixed => (self.work.first + number) % files,
        };
        self.request(at);
    }

    fn request(&mut self, at: u32) {
        self.now = now_ns();
        self.clients[at as usize].begun_ns = self.now;
        self.dispatch(at);
    }

    /// Sends the present request.
    fn dispatch(&mut self, at: u32) {
        let now = self.now;
        let client = &mut self.clients[at as usize];
        (client.sent, client.ready_ns) = (0, now);
        if client.stream.is_none() {
            client.state = ClientState::Connecting;
            client.deadline_ns = now + self.work.connect_timeout_ns;
            if let Err(fault) = self.connect(at) {
                self.fail(at, fault);
            }
        } else {
            client.deadline_ns = now + self.work.timeout_ns;
            self.send(at);
        }
    }

    fn connect(&mut self, at: u32) -> Result<(), Fault> {
        let failed = |error: Errno| Fault::Connect(error.raw_os_error());
        let (congestion, resets) = (self.work.congestion.as_deref(), self.work.fresh);
        let connector = Connector { from: None, congestion, resets };
        let socket = connector.begin(&self.work.address);
        let socket = socket.map_err(|error| failed(error.errno()))?;
        if self.tally.congestion.is_none() {
            self.tally.congestion = sockopt::tcp_congestion(&socket).ok();
        }
        let data = EventData::new_u64(at.into());
        epoll::add(&self.epoll, &socket, data, INTEREST).map_err(failed)?;
        let stream = Stream::new(socket, self.work.tls.as_ref());
        let stream = stream.map_err(|error| Fault::Tls(error.fault))?;
        let client = &mut self.clients[at as usize];
        (client.stream, client.responses) = (Some(stream), 0);
        self.tally.window.connections += 1;
        let is_inside = self.shared.since_begin(self.now).is_some();
        self.tally.window.window_connections += u64::from(is_inside);
        Ok(())
    }

    fn send(&mut self, at: u32) {
        let client = &mut self.clients[at as usize];
        let Some(stream) = &mut client.stream else { return };
        let request = match &client.detour {
            None => self.work.requests.text(client.file),
            Some(detour) => &detour.request,
        };
        match stream.send(request, &mut client.sent) {
            Ok(true) => client.begin_response(),
            Ok(false) | Err(StreamError::System(Errno::AGAIN | Errno::INTR)) => {
                client.state = ClientState::Sending;
            }
            Err(error) => self.lost(at, Fault::from_error(&error)),
        }
    }

    fn handle(&mut self, at: u32, flags: EventFlags) {
        let Some(client) = self.clients.get_mut(at as usize) else { return };
        match client.state {
            ClientState::Connecting => self.connected(at),
            ClientState::Securing => self.shake_hands(at),
            ClientState::Sending if flags.contains(EventFlags::OUT) => self.send(at),
            ClientState::Waiting | ClientState::Receiving => {
                if flags.intersects(EventFlags::IN | ENDED) {
                    self.receive(at, flags.intersects(ENDED));
                }
            }
            ClientState::Sending if flags.intersects(ENDED) => self.fail(at, Fault::Closed),
            ClientState::Idle if flags.intersects(ENDED) && client.stream.take().is_some() => {
                self.tally.window.closed_idle += 1;
            }
            ClientState::Sending | ClientState::Idle => {}
        }
    }

    fn connected(&mut self, at: u32) {
        let client = &mut self.clients[at as usize];
        let Some(stream) = &client.stream else { return };
        match sockopt::socket_error(stream) {
            Ok(Ok(())) => {
                let is_secured = stream.is_secured();
                self.is_past(at, EnginePhase::Connect);
                if is_secured {
                    self.clients[at as usize].state = ClientState::Securing;
                    self.shake_hands(at);
                } else {
                    self.send(at);
                }
            }
            Ok(Err(error)) | Err(error) => self.fail(at, Fault::Connect(error.raw_os_error())),
        }
    }

    /// A phase of a new connection is over, and the time of what follows begins.
    fn is_past(&mut self, at: u32, phase: EnginePhase) {
        let client = &mut self.clients[at as usize];
        let since_ns = self.now.saturating_sub(client.ready_ns);
        if let Some(times) = self.tally.window.phases.get_mut(phase as usize) {
            times.add(since_ns as f64);
        }
        client.ready_ns = self.now;
        // A handshake is part of the connect.
        if phase == EnginePhase::Tls || self.work.tls.is_none() {
            client.deadline_ns = self.now + self.work.timeout_ns;
        }
    }

    fn shake_hands(&mut self, at: u32) {
        loop {
            let client = &mut self.clients[at as usize];
            let Some(stream) = &mut client.stream else { return };
            match stream.shake_hands(&mut self.buffer) {
                Ok(false) => {}
                Ok(true) => {
                    // Its cryptography took time.
                    self.now = now_ns();
                    self.is_past(at, EnginePhase::Tls);
                    self.send(at);
                }
                Err(StreamError::System(Errno::INTR)) if self.has_time(at) => continue,
                Err(StreamError::System(Errno::INTR)) => {}
                Err(error) => self.fail(at, Fault::from_error(&error)),
            }
            return;
        }
    }

    /// Whether a client may go on receiving: what arrives without an end is never short.
    fn has_time(&mut self, at: u32) -> bool {
        self.now = now_ns();
        let is_late = self.clients[at as usize].deadline_ns <= self.now;
        if is_late {
            self.fail(at, Fault::Timeout);
        }
        !is_late && !self.shared.is_over(self.now)
    }

    /// Reads what has arrived. `has_ended`: the server has closed, and no further event follows.
    fn receive(&mut self, at: u32, has_ended: bool) {
        loop {
            let client = &mut self.clients[at as usize];
            let missing = client.missing();
            let Some(stream) = &mut client.stream else { return };
            let (mut most, mut drops) = (BUFFER_BYTES, false);
            if let (Body::Discard, Some(missing @ 1..)) = (self.work.body, missing)
                && !stream.is_secured()
            {
                (most, drops) = (most.min(missing as usize), true);
            }
            let received = match stream.receive(&mut self.buffer[..most], drops) {
                Ok((0, _)) => client.end(),
                Ok((count, is_all)) => {
                    if client.first_ns == 0 {
                        client.first_ns = self.now;
                    }
                    let requests = &self.work.requests;
                    let asked = Asked {
                        length: requests.bytes(client.file),
                        as_coded: requests.as_coded(),
                        is_head: self.is_head,
                        follows: self.work.follow.is_some(),
                    };
                    let before = client.body_bytes;
                    let progress = client.receive(&self.buffer[..count], asked);
                    // An open loop counts where requests are due.
                    let part = client.part(client.body_bytes - before);
                    let part = if self.open.is_some() { 0.0 } else { part };
                    if let Some(slot) = self.shared.slot(self.now) {
                        let slot = &mut self.tally.window.slots[slot];
                        slot.received_bytes += count as u64;
                        let of_body = client.body_bytes - before;
                        slot.body_bytes += if client.is_accepted() { of_body } else { 0 };
                        slot.partial += part;
                    }
                    client.counted += part;
                    if progress == Ok(Progress::Incomplete) {
                        if is_all && !has_ended {
                            self.now = now_ns();
                            return;
                        }
                        if self.has_time(at) {
                            continue;
                        }
                        return;
                    }
                    progress
                }
                Err(StreamError::System(Errno::INTR)) if self.has_time(at) => continue,
                Err(StreamError::System(Errno::INTR | Errno::AGAIN)) => return,
                Err(StreamError::Cut) => self.clients[at as usize].cut(),
                Err(error) => Err(Fault::from_error(&error)),
            };
            match received {
                Ok(_) => self.complete(at, has_ended),
                Err(fault) => self.lost(at, fault),
            }
            return;
        }
    }

    fn complete(&mut self, at: u32, has_ended: bool) {
        let end_ns = now_ns();
        self.now = end_ns;
        let client = &mut self.clients[at as usize];
        client.responses += 1;
        if self.work.fresh || has_ended || !client.keeps() {
            client.stream = None;
        }
        client.state = ClientState::Idle;
        let (status, bytes, file) = (client.status, client.body_bytes, client.file);
        let is_wrong = status == 200
            && client.sum.is_some_and(|sum| *self.work.requests.content(file, || sum) != sum);
        let since_ns = self.since_ns(&self.clients[at as usize]);
        // A request of an open loop counts where it was due.
        let at_ns = if self.open.is_some() { since_ns } else { end_ns };
        if self.shared.since_begin(at_ns).is_some() {
            *self.tally.window.statuses.entry(status).or_default() += 1;
        }
        let mut astray = None;
        if let Some(base) = self.work.follow.as_ref().filter(|_| redirects(status)) {
            match self.clients[at as usize].follow(base, &self.work.requests) {
                Ok(()) => return self.dispatch(at),
                Err(fault) => astray = Some(fault),
            }
        }
        let slice = self.shared.slice(at_ns);
        let client = &self.clients[at as usize];
        if let Some(fault) = astray {
            self.count_fault(at, fault);
        } else if !self.work.requests.accepts(status) {
            self.count_fault(at, Fault::Status(status));
        } else if status == 200 && self.gets && self.work.requests.length(file, bytes) != bytes {
            self.count_fault(at, Fault::WrongLength);
        } else if is_wrong {
            self.tally.wrong_file.get_or_insert(file);
            self.count_fault(at, Fault::WrongContent);
        } else {
            let response_ns = (end_ns - since_ns) as f64;
            if let Some(slice) = slice {
                self.tally.heat.add(slice, end_ns - since_ns);
                let window = &mut self.tally.window;
                let slot = &mut window.slots[slice * SLOTS / SLICES];
                slot.completed += 1;
                slot.partial -= client.counted;
                slot.sum_ns += response_ns;
                slot.times.add(response_ns);
                if let [_, _, first_byte, body] = &mut window.phases[..] {
                    first_byte.add(client.first_ns.saturating_sub(client.ready_ns) as f64);
                    body.add((end_ns - client.first_ns) as f64);
                }
                if let Some(times) = &mut slot.times_from_send {
                    times.add((end_ns - client.begun_ns) as f64);
                }
            }
            self.seat.count(bytes);
            self.dial.inspect(|dial| dial.complete(end_ns - since_ns, bytes));
        }
        self.clients[at as usize].counted = 0.0;
        if self.work.spin_ns > 0 {
            let until_ns = thread_cpu_ns() + self.work.spin_ns;
            while thread_cpu_ns() < until_ns {
                std::hint::spin_loop();
            }
            self.now = now_ns();
        }
        self.next(at, 0);
    }

    /// Sends the next request now, or after the think time.
    fn next(&mut self, at: u32, least_ns: u64) {
        self.dial.inspect(|dial| dial.end());
        if let Some(open) = &mut self.open {
            let due_ns = self.clients[at as usize].due_ns;
            open.end(at, due_ns, self.shared, self.seat);
            return;
        }
        let client = &mut self.clients[at as usize];
        let pause = self.work.pause.draw(&mut client.random).max(least_ns);
        if self.shared.is_over(self.now) {
            return;
        }
        if pause == 0 {
            self.begin(at);
        } else {
            self.waking.push(Reverse((self.now + pause, at)));
        }
    }

    /// The connection is lost. A kept one may have been closed while the request was under way:
    /// the request is sent again over a new one, unless that might do something twice.
    fn lost(&mut self, at: u32, fault: Fault) {
        let client = &mut self.clients[at as usize];
        let is_stale = client.responses > 0
            && client.state != ClientState::Receiving
            && matches!(fault, Fault::Closed | Fault::Transfer(_));
        if is_stale && !self.work.requests.message().is_idempotent() {
            self.fail(at, Fault::Stale);
        } else if is_stale {
            client.stream = None;
            self.tally.window.closed_idle += 1;
            self.request(at);
        } else {
            self.fail(at, fault);
        }
    }

    fn fail(&mut self, at: u32, fault: Fault) {
        let client = &mut self.clients[at as usize];
        (client.stream, client.state) = (None, ClientState::Idle);
        self.count_fault(at, fault);
        self.next(at, BACK_OFF_NS);
    }

    fn count_fault(&mut self, at: u32, fault: Fault) {
        *self.tally.faults.entry(fault).or_default() += 1;
        let due_ns = self.clients[at as usize].due_ns;
        let at_ns = if self.open.is_some() { due_ns } else { self.now };
        if self.shared.since_begin(at_ns).is_some() {
            *self.tally.window_faults.entry(fault).or_default() += 1;
        }
        if let Some(slot) = self.shared.slot(self.now) {
            let counted = &mut self.clients[at as usize].counted;
            self.tally.window.slots[slot].partial -= std::mem::take(counted);
        }
        self.seat.failed.fetch_add(1, Relaxed);
        if matches!(fault, Fault::Connect(_) | Fault::ConnectTimeout | Fault::Tls(_)) {
            self.seat.unconnected.fetch_add(1, Relaxed);
        }
        self.shared.note(fault);
        self.work.meter.iter().for_each(|meter| meter.note(fault));
    }
}
