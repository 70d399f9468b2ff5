//! A connection's turn: it reads, answers and sends until it must wait.

use std::fs::File;
use std::ops::ControlFlow::{self, Break, Continue};
use std::ops::Range;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown, sockopt};

use crate::connection::{Connection, State, Waiting};
use crate::head::{self, Method, Request};
use crate::held::{Held, SMALL};
use crate::lane::{Done, Job, Ticket, Work, evict_later};
use crate::media;
use crate::page::{Made, Page};
use crate::reactor::Reactor;
use crate::refusal::{Refusal, Refused};
use crate::reply::{self, Reply};
use crate::resident::{loads_of, read_now};
use crate::root::Opened;
use crate::route::{Route, route};
use crate::selection::{Selection, Version, select, select_page};
use crate::send::{Exchange, FILLING, Part, Response, Stamp, Step};
use crate::target::encode;

/// Requests, and bytes of one response, that a connection may have before others have their turn.
const REQUESTS_PER_TURN: u32 = 16;
const BYTES_PER_TURN: usize = 4 << 20;
/// Dropped of a client that sends on.
const LINGER_BYTES: usize = 1 << 20;

/// What follows a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// An event or a lane brings the next turn.
    Wait,
    /// There is more to do, after the others.
    Again,
    Close,
}

pub(crate) type Flow = ControlFlow<Next>;

/// The body of a response.
enum Body {
    None,
    Bytes(Vec<u8>, Option<Held>),
    /// A file and a range of its bytes.
    File(File, Stamp, Range<u64>),
}

/// A body, and bytes from memory behind it.
struct Filled {
    body: Body,
    filling: u64,
}

impl From<Body> for Filled {
    fn from(body: Body) -> Self {
        Self { body, filling: 0 }
    }
}

impl Reactor {
    pub(crate) fn turn(&mut self, c: &mut Connection, slot: u32) -> Next {
        for _ in 0..REQUESTS_PER_TURN {
            let flow = match std::mem::replace(&mut c.state, State::Reading) {
                State::Reading => self.read(c, slot),
                State::Responding(response) => self.respond(c, slot, response),
                State::Lingering => Break(self.linger(c)),
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

    /// Handles the next request that arrived, or reads more.
    fn read(&mut self, c: &mut Connection, slot: u32) -> Flow {
        if !c.pending.is_empty() {
            let pending = std::mem::take(&mut c.pending);
            match c.scan.end(&pending, self.shared.limits.head_bytes) {
                Err(refused) => return self.refuse(c, slot, refused, &pending),
                Ok(Some(end)) => {
                    c.pending = pending[end..].to_vec();
                    return self.request(c, slot, &pending[..end], None);
                }
                Ok(None) => c.pending = pending,
            }
        }
        if !c.is_readable {
            return Break(Next::Wait);
        }
        let mut input = std::mem::take(&mut self.input);
        let flow = match recv(&c.socket, &mut input[..], RecvFlags::empty()) {
            Ok((0, _)) => Break(Next::Close),
            Ok((bytes, _)) => {
                // Less than there was room for: the socket is empty.
                c.is_readable = bytes == input.len() || c.is_ended;
                self.received(c, slot, &input[..bytes])
            }
            Err(Errno::AGAIN) => {
                c.is_readable = false;
                Break(Next::Wait)
            }
            Err(Errno::INTR) => Continue(()),
            Err(_) => Break(Next::Close),
        };
        self.input = input;
        flow
    }

    /// A whole request is handled where it lies; parts of one are kept.
    fn received(&mut self, c: &mut Connection, slot: u32, bytes: &[u8]) -> Flow {
        if !c.pending.is_empty() {
            c.pending.extend_from_slice(bytes);
            return Continue(());
        }
        c.since_ns = self.now_ns;
        match c.scan.end(bytes, self.shared.limits.head_bytes) {
            Err(refused) => self.refuse(c, slot, refused, bytes),
            Ok(Some(end)) => {
                if end < bytes.len() {
                    c.pending = bytes[end..].to_vec();
                }
                self.request(c, slot, &bytes[..end], None)
            }
            Ok(None) => {
                c.pending = bytes.to_vec();
                Continue(())
            }
        }
    }

    /// Answers a complete head. `opened` is what a lane found for it, with the time when the
    /// request was complete.
    fn request(
        &mut self,
        c: &mut Connection,
        slot: u32,
        head: &[u8],
        opened: Option<(Result<Opened, Refusal>, u64)>,
    ) -> Flow {
        c.scan = head::Scan::default();
        let request = match head::parse(head, self.shared.limits.fields) {
            Ok(request) => request,
            Err(refused) => return self.refuse(c, slot, refused, head),
        };
        let mut exchange = Exchange {
            begun_ns: opened.as_ref().map_or_else(self.clock, |(_, begun_ns)| *begun_ns),
            close: request.close,
            linger: request.method == Method::Other,
            is_head: request.method == Method::Head,
            is_http_1_0: request.is_http_1_0,
            is_work: true,
        };
        let (path, dose) = match route(&self.shared, &request) {
            Err(refused) => return self.refuse_in(c, slot, exchange, refused),
            Ok(Route::Health) => {
                self.shared.trip();
                exchange.is_work = false;
                let made =
                    Made { held: None, status: 200, media: media::TEXT, body: b"ok\n".to_vec() };
                return self.made(c, slot, exchange, made);
            }
            // More bytes belong to the next request, which does not come.
            Ok(Route::Far) if !c.pending.is_empty() => {
                return self.refuse_in(c, slot, exchange, Refusal::EarlyBytes.close());
            }
            Ok(Route::Far) => match self.to_far_end(c) {
                Ok(()) => return Break(Next::Close),
                Err(why) => return self.refuse_in(c, slot, exchange, why.close()),
            },
            Ok(Route::Page(page)) => return self.page(c, slot, exchange, page),
            Ok(Route::Source { bytes, congestion }) => {
                exchange.is_work = false;
                return self.source(c, slot, exchange, bytes, congestion.as_deref());
            }
            Ok(Route::File(path, dose)) => (path, dose),
        };
        let now = || if dose.waits() { None } else { self.shared.root.open_cached(&path) };
        let opened = opened.map(|(opened, _)| opened).or_else(now);
        match opened {
            None => {
                let state = State::Opening { head: head.to_vec(), begun_ns: exchange.begun_ns };
                self.submit(c, slot, state, Work::Open(path.into_owned(), dose))
            }
            Some(Err(why)) => self.refuse_in(c, slot, exchange, why.keep()),
            Some(Ok(opened)) if opened.is_folder => {
                self.folder(c, slot, exchange, &request, opened, &path)
            }
            Some(Ok(opened)) => {
                if !dose.is_long() {
                    dose.spin();
                }
                self.file(c, slot, exchange, &request, opened, (&path, dose.wire_bytes))
            }
        }
    }

    /// Bytes from memory: what the network carries without files.
    fn source(
        &mut self,
        c: &mut Connection,
        slot: u32,
        exchange: Exchange,
        bytes: u64,
        congestion: Option<&str>,
    ) -> Flow {
        let set = congestion.map(|name| sockopt::set_tcp_congestion(&c.socket, name));
        if set.is_some_and(|set| set.is_err()) {
            return self.refuse_in(c, slot, exchange, Refusal::Source.keep());
        }
        let reply = self.reply(exchange, 200, bytes, media::UNKNOWN);
        self.begin(c, slot, exchange, &reply, Filled { body: Body::None, filling: bytes })
    }

    fn folder(
        &mut self,
        c: &mut Connection,
        slot: u32,
        exchange: Exchange,
        request: &Request<'_>,
        opened: Opened,
        path: &[u8],
    ) -> Flow {
        if path.is_empty() || path.ends_with(b"/") {
            return match select_page(&request.fields) {
                Selection::PreconditionFailed => {
                    self.refuse_in(c, slot, exchange, Refusal::Precondition.keep())
                }
                Selection::NotModified => {
                    let reply = self.reply(exchange, 304, 0, media::HTML);
                    self.begin(c, slot, exchange, &reply, Body::None)
                }
                _ => {
                    let page = Page::Index { folder: opened.file, path: path.to_vec() };
                    self.page(c, slot, exchange, page)
                }
            };
        }
        let location = format!("/{}/", encode(path));
        let mut reply = self.reply(exchange, 301, 0, media::TEXT);
        reply.location = Some(&location);
        self.begin(c, slot, exchange, &reply, Body::None)
    }

    fn file(
        &mut self,
        c: &mut Connection,
        slot: u32,
        exchange: Exchange,
        request: &Request<'_>,
        opened: Opened,
        (path, filling): (&[u8], u64),
    ) -> Flow {
        let version = Version::of(&opened.stat, self.date.wall_ns);
        let is_get = request.method == Method::Get;
        let (status, part) = match select(&request.fields, &version, is_get).answer(version.bytes) {
            Ok(answer) => answer,
            Err(why) => return self.refuse_in(c, slot, exchange, why.keep()),
        };
        let filling = if status == 200 { filling } else { 0 };
        let length = part.end - part.start + filling;
        let mut reply = self.reply(exchange, status, length, media::of(path));
        reply.version = Some(&version);
        reply.part = (status == 206).then(|| part.clone());
        let body = Body::File(opened.file, Stamp::of(&opened.stat), part);
        self.begin(c, slot, exchange, &reply, Filled { body, filling })
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
            (true, _) => reply::Connection::Close,
            (false, true) => reply::Connection::KeepAlive,
            (false, false) => reply::Connection::Default,
        };
        let (version, part, location, allow) = (None, None, None, None);
        Reply { status, length, media, version, part, location, allow, connection }
    }

    /// Refuses a request that could not be read. `bytes` is what arrived of it.
    pub(crate) fn refuse(
        &mut self,
        c: &mut Connection,
        slot: u32,
        refused: Refused,
        bytes: &[u8],
    ) -> Flow {
        let exchange = Exchange {
            begun_ns: self.now_ns,
            close: refused.close,
            linger: refused.close,
            // A response to HEAD has no body, whatever else is wrong.
            is_head: bytes.strip_prefix(b"\r\n").unwrap_or(bytes).starts_with(b"HEAD "),
            is_http_1_0: false,
            is_work: true,
        };
        self.refuse_in(c, slot, exchange, refused)
    }

    fn refuse_in(
        &mut self,
        c: &mut Connection,
        slot: u32,
        mut exchange: Exchange,
        Refused { why, close }: Refused,
    ) -> Flow {
        exchange.close |= close;
        exchange.linger |= close;
        let Made { status, media, body, held } = Made::refusal(why);
        let mut reply = self.reply(exchange, status, body.len() as u64, media);
        reply.allow = why.allow();
        self.begin(c, slot, exchange, &reply, Body::Bytes(body, held))
    }

    fn page(&mut self, c: &mut Connection, slot: u32, exchange: Exchange, page: Page) -> Flow {
        let state = State::Making(Exchange { is_work: page.is_work(), ..exchange });
        self.submit(c, slot, state, Work::Page(page))
    }

    fn made(&mut self, c: &mut Connection, slot: u32, exchange: Exchange, made: Made) -> Flow {
        let reply = self.reply(exchange, made.status, made.body.len() as u64, made.media);
        self.begin(c, slot, exchange, &reply, Body::Bytes(made.body, made.held))
    }

    /// Waits for a lane.
    fn submit(&mut self, c: &mut Connection, slot: u32, state: State, work: Work) -> Flow {
        let generation = self.generations[slot as usize];
        let limit_ns = work.limit_ns(self.shared.limits.wait_ns);
        let is_cancelled = Arc::new(AtomicBool::new(false));
        c.waiting = Some(Waiting { is_cancelled: Arc::clone(&is_cancelled), limit_ns });
        (c.state, c.since_ns) = (state, self.now_ns);
        let ticket = Ticket { reactor: self.number, slot, generation, is_cancelled };
        match self.shared.queue(work.kind()).push(Job { ticket, work }) {
            true => Break(Next::Wait),
            false => self.give_up(c, slot, Refusal::Queued),
        }
    }

    /// No lane does what the connection waits for. It is refused where nothing was sent.
    pub(crate) fn give_up(&mut self, c: &mut Connection, slot: u32, why: Refusal) -> Flow {
        c.waiting = None;
        self.has_cancelled = true;
        match std::mem::replace(&mut c.state, State::Reading) {
            State::Opening { head, .. } => self.refuse(c, slot, why.close(), &head),
            State::Making(exchange) | State::Loading { exchange, has_begun: false } => {
                self.refuse_in(c, slot, exchange, why.close())
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
    pub(crate) fn resume(&mut self, c: &mut Connection, slot: u32, done: Done) -> Next {
        // It has given up already.
        if c.waiting.take().is_none() {
            return Next::Wait;
        }
        let flow = match (std::mem::replace(&mut c.state, State::Reading), done) {
            (State::Opening { head, begun_ns }, Done::Opened(opened)) => {
                self.request(c, slot, &head, Some((opened, begun_ns)))
            }
            (State::Loading { .. }, Done::Loaded(mut response, Ok(()))) => {
                self.own().lane_reads.add(1);
                // The client is not charged for this wait either.
                response.checked.0 += self.now_ns.saturating_sub(c.since_ns);
                self.respond(c, slot, response)
            }
            (State::Making(exchange), Done::Made(made)) => self.made(c, slot, exchange, made),
            (state, _) => {
                c.state = state;
                self.give_up(c, slot, Refusal::Unreadable)
            }
        };
        self.follow(c, slot, |_, _| flow)
    }

    /// Sends a head, and a small body with it in the same call.
    fn begin(
        &mut self,
        c: &mut Connection,
        slot: u32,
        exchange: Exchange,
        reply: &Reply<'_>,
        body: impl Into<Filled>,
    ) -> Flow {
        let mut head = std::mem::take(&mut self.head);
        reply.write(&mut head, &self.date);
        let flow = self.begin_with(c, slot, exchange, reply.status, &head, body.into());
        self.head = head;
        flow
    }

    fn begin_with(
        &mut self,
        c: &mut Connection,
        slot: u32,
        exchange: Exchange,
        status: u16,
        head: &[u8],
        Filled { body, filling }: Filled,
    ) -> Flow {
        let mut filling = if exchange.is_head { 0 } else { filling };
        let at = (self.now_ns, 0);
        self.output.clear();
        self.output.extend_from_slice(head);
        // A small source, too, leaves in the same call.
        if matches!(body, Body::None) && filling <= SMALL {
            self.output.resize(head.len() + filling as usize, FILLING[0]);
            filling = 0;
        }
        let mut part = None;
        match body {
            Body::None => {}
            Body::Bytes(..) if exchange.is_head => {}
            // Of a large page there is no second copy.
            Body::Bytes(mut bytes, held) if bytes.len() as u64 > SMALL => {
                bytes.splice(..0, head.iter().copied());
                let rest = Response::rest(exchange, status, bytes, head.len(), at, None, 0);
                return self.respond(c, slot, rest.holding(held));
            }
            Body::Bytes(bytes, _) => self.output.extend_from_slice(&bytes),
            Body::File(file, stamp, range) if exchange.is_head || range.is_empty() => {
                part = Some(Part::new(file, stamp, range.end, range.end));
            }
            Body::File(file, stamp, range) => {
                let small = range.end - range.start;
                part = Some(Part::new(file, stamp, range.start, range.end));
                if small > SMALL || filling > 0 || !self.append(part.as_ref(), small as usize) {
                    let memory = head.to_vec();
                    let length = head.len();
                    let rest = Response::rest(exchange, status, memory, length, at, part, filling);
                    return self.respond(c, slot, rest);
                }
            }
        }
        if filling > 0 {
            let memory = std::mem::take(&mut self.output);
            let rest = Response::rest(exchange, status, memory, head.len(), at, part, filling);
            return self.respond(c, slot, rest);
        }
        let sent = loop {
            match send(&c.socket, &self.output, SendFlags::NOSIGNAL) {
                Ok(sent) => break sent,
                Err(Errno::AGAIN) => break 0,
                Err(Errno::INTR) => {}
                Err(_) => return self.broken(),
            }
        };
        self.count_sent(exchange, sent as u64, sent.saturating_sub(head.len()) as u64);
        if sent == self.output.len() {
            return self.finish(c, exchange, status, part.map(|part| part.file));
        }
        // What is left of a file's bytes is read again, so that a slow reader keeps no copy.
        let file_at = if part.is_some() { head.len() } else { self.output.len() };
        let memory = self.output[sent.min(file_at)..file_at].to_vec();
        if let Some(part) = &mut part {
            part.at += sent.saturating_sub(head.len()) as u64;
        }
        let at = (at.0, sent as u64);
        let rest = Response::rest(exchange, status, memory, head.len(), at, part, 0);
        self.respond(c, slot, rest)
    }

    /// Copies a small part behind the head, if it is in memory.
    fn append(&mut self, part: Option<&Part>, bytes: usize) -> bool {
        let (Some(part), at) = (part, self.output.len()) else { return false };
        self.output.resize(at + bytes, 0);
        read_now(&part.file, &mut self.output[at..], part.at) == Ok(bytes)
            && part.stamp.check(&part.file).is_ok()
    }

    fn respond(&mut self, c: &mut Connection, slot: u32, mut response: Box<Response>) -> Flow {
        let mut in_turn = 0;
        loop {
            match response.step(c.socket.as_fd(), &mut self.probe, self.now_ns) {
                Ok(Step::Sent(bytes)) => {
                    in_turn += bytes;
                    let of_body = response.count(bytes as u64);
                    self.count_sent(response.exchange, bytes as u64, of_body);
                    if in_turn > BYTES_PER_TURN {
                        c.state = State::Responding(response);
                        return Break(Next::Again);
                    }
                }
                Ok(Step::WouldBlock) => {
                    c.state = State::Responding(response);
                    return Break(Next::Wait);
                }
                Ok(Step::NeedsLane) => {
                    let has_begun = response.sent() > 0;
                    if let Some(part) = response.part() {
                        loads_of(&self.shared.loads, part.stamp.inode).fetch_add(1, Relaxed);
                    }
                    let state = State::Loading { exchange: response.exchange, has_begun };
                    return self.submit(c, slot, state, Work::Load(response));
                }
                Ok(Step::Done) => {
                    let (exchange, status) = (response.exchange, response.status);
                    return self.finish(c, exchange, status, response.into_file());
                }
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
    fn finish(
        &mut self,
        c: &mut Connection,
        exchange: Exchange,
        status: u16,
        file: Option<File>,
    ) -> Flow {
        let now_ns = (self.clock)();
        let own = self.own();
        own.status(status);
        if exchange.is_work {
            own.responses.add(1);
            own.responses_ok.add(u64::from(status < 400));
            own.busy_ns.add(now_ns.saturating_sub(exchange.begun_ns));
        }
        if self.shared.cold
            && let Some(file) = file
        {
            evict_later(&self.shared, file);
        }
        (c.state, c.since_ns, c.unsent_bytes) = (State::Reading, now_ns, 0);
        if !exchange.close && !self.shared.stops() {
            return Continue(());
        }
        // A close with unread bytes resets the connection, and the client may lose the response.
        if exchange.linger || c.is_readable || !c.pending.is_empty() {
            c.pending = Vec::new();
            c.state = State::Lingering;
            c.is_readable = true;
            let _ = shutdown(&c.socket, Shutdown::Write);
            return Continue(());
        }
        Break(Next::Close)
    }

    /// Drops what a client still sends.
    fn linger(&mut self, c: &mut Connection) -> Next {
        let mut dropped = 0;
        while dropped < LINGER_BYTES {
            match recv(&c.socket, &mut self.input[..], RecvFlags::empty()) {
                Ok((0, _)) => return Next::Close,
                Ok((bytes, _)) => dropped += bytes,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    c.state = State::Lingering;
                    return Next::Wait;
                }
                Err(_) => return Next::Close,
            }
        }
        Next::Close
    }
}
