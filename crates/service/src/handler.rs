//! The turns of connections: each reads, answers and sends until it must wait.

use std::fs::File;
use std::ops::ControlFlow::{Break, Continue};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use fathom_measure::clock::wall_ns;
use rustix::net::{Shutdown, shutdown, sockopt};

use crate::connection::{Connection, ConnectionInput, ConnectionState, Flow, Next, Waiting};
use crate::counters::ServiceCounters;
use crate::head::{self, Method};
use crate::job::{Done, FileRequest, Job, Work};
use crate::media;
use crate::page::{Made, ServicePage};
use crate::refusal::{Refusal, Refused};
use crate::reply::{self, Date, Reply};
use crate::resident::{ResidentProbe, loads_of};
use crate::root::Opened;
use crate::route::{Route, route};
use crate::selection::{ServiceSelection, Version, select, select_page};
use crate::send::{self, Exchange, SendBody, SendPart, SendResponse, SendStep, Stamp};
use crate::shared::ServiceShared;
use crate::target::encode;
use crate::ticket::Ticket;

const INPUT_BYTES: usize = 16 << 10;
/// Requests, and bytes of one response, that a connection may have before others have their turn.
const REQUESTS_PER_TURN: u32 = 16;
const BYTES_PER_TURN: usize = 4 << 20;

/// What the connections of a reactor share: one has its turn at a time.
pub(crate) struct ServiceHandler {
    pub(crate) shared: Arc<ServiceShared>,
    /// The reactor's.
    pub(crate) number: usize,
    /// Where bytes arrive, and the head of a response with a small body.
    pub(crate) input: Vec<u8>,
    output: Vec<u8>,
    date: Date,
    probe: ResidentProbe,
    /// `Shared::evicted` when the probe last heard of it.
    evicted: u64,
    /// The time of this round of events.
    pub(crate) now_ns: u64,
    /// Jobs of lanes that nobody waits for may be in their queues.
    has_cancelled: bool,
    /// Scripted by tests.
    clock: fn() -> u64,
}

impl ServiceHandler {
    pub(crate) fn new(shared: Arc<ServiceShared>, number: usize, clock: fn() -> u64) -> Self {
        let probe = ResidentProbe::new(shared.cold, Arc::clone(&shared.loads));
        Self {
            shared,
            number,
            input: vec![0; INPUT_BYTES],
            output: Vec::new(),
            date: Date::default(),
            probe,
            evicted: 0,
            now_ns: clock(),
            has_cancelled: false,
            clock,
        }
    }

    pub(crate) fn own(&self) -> &ServiceCounters {
        &self.shared.counters[self.number]
    }

    /// A round of events begins.
    pub(crate) fn begin_round(&mut self) {
        self.now_ns = (self.clock)();
        self.date.set(wall_ns());
        let evicted = self.shared.evicted.load(Relaxed);
        if evicted != self.evicted {
            self.evicted = evicted;
            self.probe.forget();
        }
    }

    /// The place of a connection is free.
    pub(crate) fn release(&mut self, c: Connection) {
        self.shared.leave(c.peer);
        self.has_cancelled |= c.is_waiting();
        drop(c);
        self.own().connections.fetch_sub(1, Relaxed);
    }

    /// Drops jobs that nobody waits for: they have files open.
    pub(crate) fn drop_cancelled(&mut self) {
        if std::mem::take(&mut self.has_cancelled) {
            let is_wanted = |job: &Job| !job.ticket.is_left();
            self.shared.queues.iter().for_each(|queue| queue.retain(is_wanted));
        }
    }

    pub(crate) fn turn(&mut self, c: &mut Connection) -> Next {
        for _ in 0..REQUESTS_PER_TURN {
            let flow = match std::mem::replace(&mut c.state, ConnectionState::Reading) {
                ConnectionState::Reading => self.read(c),
                ConnectionState::Responding(response) => self.respond(c, response),
                ConnectionState::Lingering => {
                    c.state = ConnectionState::Lingering;
                    let is_over = c.drop_input(&mut self.input);
                    Break(if is_over { Next::Close } else { Next::Wait })
                }
                waiting => {
                    c.state = waiting;
                    Break(Next::Wait)
                }
            };
            if let Break(next) = flow {
                return next;
            }
        }
        Next::Again
    }

    /// Handles the next request that arrived.
    fn read(&mut self, c: &mut Connection) -> Flow {
        let mut input = std::mem::take(&mut self.input);
        let flow = match c.receive(&mut input, self.shared.limits.head_bytes, self.now_ns) {
            ConnectionInput::Head(head) => self.request(c, &head),
            ConnectionInput::Malformed(refused, bytes) => self.refuse(c, refused, &bytes),
            ConnectionInput::Part => Continue(()),
            ConnectionInput::Nothing => Break(Next::Wait),
            ConnectionInput::End => Break(Next::Close),
        };
        self.input = input;
        flow
    }

    /// Answers a complete head.
    fn request(&mut self, c: &mut Connection, head: &[u8]) -> Flow {
        let request = match head::parse(head, self.shared.limits.fields) {
            Ok(request) => request,
            Err(refused) => return self.refuse(c, refused, head),
        };
        let mut exchange = Exchange {
            begun_ns: (self.clock)(),
            close: request.close,
            linger: request.method == Method::Other,
            is_head: request.method == Method::Head,
            is_http_1_0: request.is_http_1_0,
            is_work: true,
        };
        match route(&self.shared, &request) {
            Err(refused) => self.refuse_in(c, exchange, refused),
            Ok(Route::Health) => {
                self.shared.trip();
                exchange.is_work = false;
                let made =
                    Made { held: None, status: 200, media: media::TEXT, body: b"ok\n".to_vec() };
                self.made(c, exchange, made)
            }
            // More bytes belong to the next request, which does not come.
            Ok(Route::Far) if !c.pending.is_empty() => {
                self.refuse_in(c, exchange, Refusal::EarlyBytes.close())
            }
            Ok(Route::Far) => match self.to_far_end(c) {
                Ok(()) => Break(Next::Detach),
                Err(why) => self.refuse_in(c, exchange, why.close()),
            },
            Ok(Route::Page(page)) => self.page(c, exchange, page),
            Ok(Route::Source { bytes, congestion }) => {
                exchange.is_work = false;
                self.source(c, exchange, bytes, congestion.as_deref())
            }
            Ok(Route::File(path, dose)) => {
                let is_get = request.method == Method::Get;
                let conditions = request.fields.conditions;
                let asked = FileRequest { exchange, is_get, path: &path[..], dose, conditions };
                let cached = if dose.waits() { None } else { self.shared.root.open_cached(&path) };
                match cached {
                    Some(opened) => self.opened(c, &asked, opened),
                    None => {
                        let work = Work::Open(Box::new(asked.map(<[u8]>::to_vec)));
                        self.submit(c, exchange, false, work)
                    }
                }
            }
        }
    }

    /// Gives the connection to a far end, in a thread of its own, since starting one blocks.
    fn to_far_end(&self, c: &Connection) -> Result<(), Refusal> {
        let (socket, peer) = (c.socket.try_clone().map_err(|_| Refusal::Busy)?, c.peer);
        self.shared.far.knock(peer)?;
        let shared = Arc::clone(&self.shared);
        let run = move || {
            shared.trip();
            shared.far.serve(socket, peer, shared.token.as_ref());
        };
        self.shared.spawn("far".to_owned(), run).map(drop).map_err(|_| {
            self.shared.far.forget(peer);
            Refusal::Busy
        })
    }

    /// Bytes from memory: what the network carries without files.
    fn source(
        &mut self,
        c: &mut Connection,
        exchange: Exchange,
        bytes: u64,
        congestion: Option<&str>,
    ) -> Flow {
        let set = congestion.map(|name| sockopt::set_tcp_congestion(&c.socket, name));
        if set.is_some_and(|set| set.is_err()) {
            return self.refuse_in(c, exchange, Refusal::Source.keep());
        }
        let reply = self.reply(exchange, 200, bytes, media::UNKNOWN);
        self.begin(c, exchange, &reply, SendBody::Filling(bytes))
    }

    fn opened(
        &mut self,
        c: &mut Connection,
        request: &FileRequest<&[u8]>,
        opened: Result<Opened, Refusal>,
    ) -> Flow {
        match opened {
            Err(why) => self.refuse_in(c, request.exchange, why.keep()),
            Ok(opened) if opened.is_folder => self.folder(c, request, opened.file),
            Ok(opened) => {
                if !request.dose.is_long() {
                    request.dose.spin();
                }
                self.file(c, request, opened)
            }
        }
    }

    fn folder(
        &mut self,
        c: &mut Connection,
        &FileRequest { exchange, path, conditions, .. }: &FileRequest<&[u8]>,
        folder: File,
    ) -> Flow {
        if path.is_empty() || path.ends_with(b"/") {
            return match select_page(&conditions) {
                ServiceSelection::PreconditionFailed => {
                    self.refuse_in(c, exchange, Refusal::Precondition.keep())
                }
                ServiceSelection::NotModified => {
                    let reply = self.reply(exchange, 304, 0, media::HTML);
                    self.begin(c, exchange, &reply, SendBody::Filling(0))
                }
                _ => self.page(c, exchange, ServicePage::Index { folder, path: path.to_vec() }),
            };
        }
        let location = format!("/{}/", encode(path));
        let mut reply = self.reply(exchange, 301, 0, media::TEXT);
        reply.location = Some(&location);
        self.begin(c, exchange, &reply, SendBody::Filling(0))
    }

    fn file(
        &mut self,
        c: &mut Connection,
        request: &FileRequest<&[u8]>,
        Opened { file, stat, .. }: Opened,
    ) -> Flow {
        let &FileRequest { exchange, is_get, path, dose, conditions } = request;
        let version = Version::from_stat(&stat, self.date.wall_ns);
        let (status, part) = match select(&conditions, &version, is_get).answer(version.bytes) {
            Ok(answer) => answer,
            Err(why) => return self.refuse_in(c, exchange, why.keep()),
        };
        let filling = if status == 200 { dose.wire_bytes } else { 0 };
        let length = part.end - part.start + filling;
        let mut reply = self.reply(exchange, status, length, media::media_type_of(path));
        reply.version = Some(&version);
        reply.part = (status == 206).then(|| part.clone());
        let part = SendPart::new(file, Stamp::from_stat(&stat), part.start, part.end);
        self.begin(c, exchange, &reply, SendBody::File(part, filling))
    }

    fn reply<'r>(
        &self,
        exchange: Exchange,
        status: u16,
        length: u64,
        media: &'static str,
    ) -> Reply<'r> {
        let close = exchange.close || self.shared.stops();
        let connection = match (close, exchange.is_http_1_0) {
            (true, _) => reply::ReplyConnection::Close,
            (false, true) => reply::ReplyConnection::KeepAlive,
            (false, false) => reply::ReplyConnection::Default,
        };
        let (version, part, location, allow) = (None, None, None, None);
        Reply { status, length, media, version, part, location, allow, connection }
    }

    /// Refuses a request that could not be read. `bytes` is what arrived of it.
    fn refuse(&mut self, c: &mut Connection, refused: Refused, bytes: &[u8]) -> Flow {
        let exchange = Exchange {
            begun_ns: self.now_ns,
            close: refused.close,
            linger: refused.close,
            // A response to HEAD has no body, whatever else is wrong.
            is_head: bytes.strip_prefix(b"\r\n").unwrap_or(bytes).starts_with(b"HEAD "),
            is_http_1_0: false,
            is_work: true,
        };
        self.refuse_in(c, exchange, refused)
    }

    fn refuse_in(
        &mut self,
        c: &mut Connection,
        mut exchange: Exchange,
        Refused { why, close }: Refused,
    ) -> Flow {
        exchange.close |= close;
        exchange.linger |= close;
        let Made { status, media, body, held } = Made::refusal(why);
        let mut reply = self.reply(exchange, status, body.len() as u64, media);
        reply.allow = why.allow();
        self.begin(c, exchange, &reply, SendBody::Bytes(body, held))
    }

    fn page(&mut self, c: &mut Connection, exchange: Exchange, page: ServicePage) -> Flow {
        let exchange = Exchange { is_work: matches!(page, ServicePage::Index { .. }), ..exchange };
        self.submit(c, exchange, false, Work::Page(page))
    }

    fn made(&mut self, c: &mut Connection, exchange: Exchange, made: Made) -> Flow {
        let reply = self.reply(exchange, made.status, made.body.len() as u64, made.media);
        self.begin(c, exchange, &reply, SendBody::Bytes(made.body, made.held))
    }

    /// Waits for a lane.
    fn submit(
        &mut self,
        c: &mut Connection,
        exchange: Exchange,
        has_begun: bool,
        work: Work,
    ) -> Flow {
        let limit_ns = work.limit_ns(self.shared.limits.wait_ns);
        let (ticket, claim) = Ticket::new(self.number, c.place);
        c.state = ConnectionState::Waiting(Waiting { exchange, has_begun, limit_ns, claim });
        c.since_ns = self.now_ns;
        match self.shared.queue(work.kind()).push(Job { ticket, work }) {
            true => Break(Next::Wait),
            false => self.give_up(c, Refusal::Queued),
        }
    }

    /// No lane does what the connection waits for. It is refused where nothing was sent.
    fn give_up(&mut self, c: &mut Connection, why: Refusal) -> Flow {
        self.has_cancelled = true;
        match std::mem::replace(&mut c.state, ConnectionState::Reading) {
            ConnectionState::Waiting(Waiting { exchange, has_begun: false, .. }) => {
                self.refuse_in(c, exchange, why.close())
            }
            // What was read before an error can still be received.
            _ => {
                if why == Refusal::Late {
                    c.abort();
                }
                self.broken()
            }
        }
    }

    /// Continues with what a lane has done.
    pub(crate) fn resume(&mut self, c: &mut Connection, done: Done) -> Next {
        let ConnectionState::Waiting(Waiting { exchange, .. }) = c.state else {
            // It has given up already.
            return Next::Wait;
        };
        let flow = match done {
            Done::Opened(request, opened) => {
                self.opened(c, &request.map(std::convert::identity), opened)
            }
            Done::Loaded(mut response, Ok(())) => {
                self.own().lane_reads.add(1);
                // The client is not charged for this wait either.
                response.checked.0 += self.now_ns.saturating_sub(c.since_ns);
                self.respond(c, response)
            }
            Done::Made(made) => self.made(c, exchange, made),
            Done::Loaded(_, Err(_)) | Done::Failed => self.give_up(c, Refusal::Unreadable),
        };
        self.follow(c, flow)
    }

    /// Goes on with a connection outside of its turn.
    fn follow(&mut self, c: &mut Connection, flow: Flow) -> Next {
        match flow {
            Break(next) => next,
            Continue(()) => self.turn(c),
        }
    }

    /// The client has left while it waited for a lane.
    pub(crate) fn leave_lane(&self) -> Next {
        self.own().broken.add(1);
        Next::Close
    }

    /// Closes or refuses a connection that is late, unless its client reads fast enough.
    pub(crate) fn time_out(&mut self, c: &mut Connection) -> Next {
        let now_ns = self.now_ns;
        let rate = self.shared.limits.rate_bytes_per_s as f64 / 1e9;
        let unsent = c.count_unsent();
        match &mut c.state {
            ConnectionState::Responding(response) => {
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
            ConnectionState::Reading if c.pending.is_empty() => {
                // All was handed to the kernel; the client may still be reading it.
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
            ConnectionState::Waiting(_) if c.is_ended => return self.leave_lane(),
            ConnectionState::Waiting(_) => {
                self.own().timed_out.add(1);
                let flow = self.give_up(c, Refusal::Late);
                return self.follow(c, flow);
            }
            ConnectionState::Reading => {
                self.own().timed_out.add(1);
                let pending = std::mem::take(&mut c.pending);
                let flow = self.refuse(c, Refusal::SlowHead.close(), &pending);
                return self.follow(c, flow);
            }
            ConnectionState::Lingering => {}
        }
        self.own().timed_out.add(1);
        Next::Close
    }

    /// Sends a head, and a small body with it in the same call.
    fn begin(
        &mut self,
        c: &mut Connection,
        exchange: Exchange,
        reply: &Reply<'_>,
        body: SendBody,
    ) -> Flow {
        let (head, socket) = ((reply, &self.date), c.socket.as_fd());
        let begun = send::begin(&mut self.output, socket, exchange, head, body, self.now_ns);
        let Ok((response, of_body)) = begun else { return self.broken() };
        self.count_sent(exchange, response.sent(), of_body);
        if response.is_done() {
            return self.finish(c, response);
        }
        self.respond(c, Box::new(response))
    }

    fn respond(&mut self, c: &mut Connection, mut response: Box<SendResponse>) -> Flow {
        let mut in_turn = 0;
        loop {
            match response.step(c.socket.as_fd(), &mut self.probe, self.now_ns) {
                Ok(SendStep::Sent(bytes)) => {
                    in_turn += bytes;
                    let of_body = response.count(bytes as u64);
                    self.count_sent(response.exchange, bytes as u64, of_body);
                    if in_turn > BYTES_PER_TURN {
                        c.state = ConnectionState::Responding(response);
                        return Break(Next::Again);
                    }
                }
                Ok(SendStep::WouldBlock) => {
                    c.state = ConnectionState::Responding(response);
                    return Break(Next::Wait);
                }
                Ok(SendStep::NeedsLane) => {
                    let (exchange, has_begun) = (response.exchange, response.sent() > 0);
                    if let Some(part) = response.part() {
                        loads_of(&self.shared.loads, part.stamp.inode).fetch_add(1, Relaxed);
                    }
                    return self.submit(c, exchange, has_begun, Work::Load(response));
                }
                Ok(SendStep::Done) => return self.finish(c, *response),
                Err(_) => return self.broken(),
            }
        }
    }

    fn broken(&self) -> Flow {
        self.own().broken.add(1);
        Break(Next::Close)
    }

    fn count_sent(&self, exchange: Exchange, bytes: u64, of_body: u64) {
        self.own().wire_bytes.add(bytes);
        if exchange.is_work {
            self.own().body_bytes.add(of_body);
        }
    }

    /// The last byte was handed to the kernel.
    fn finish(&mut self, c: &mut Connection, response: SendResponse) -> Flow {
        let SendResponse { exchange, status, .. } = response;
        let (now_ns, own) = ((self.clock)(), self.own());
        own.status(status);
        if exchange.is_work {
            own.responses.add(1);
            own.responses_ok.add(u64::from(status < 400));
            own.busy_ns.add(now_ns.saturating_sub(exchange.begun_ns));
        }
        if self.shared.cold
            && let Some(file) = response.into_file()
        {
            self.shared.evict_later(file);
        }
        (c.state, c.since_ns, c.unsent_bytes) = (ConnectionState::Reading, now_ns, 0);
        if !exchange.close && !self.shared.stops() {
            return Continue(());
        }
        // A close with unread bytes resets the connection, and the client may lose the response.
        if exchange.linger || c.is_readable || !c.pending.is_empty() {
            c.pending = Vec::new();
            c.state = ConnectionState::Lingering;
            c.is_readable = true;
            let _ = shutdown(&c.socket, Shutdown::Write);
            return Continue(());
        }
        Break(Next::Close)
    }
}
