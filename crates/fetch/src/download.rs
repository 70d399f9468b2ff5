//! One download: requests, resumption, parallel ranges and retries.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use fathom_http::{Framing, Tls, Url, resolve};
use fathom_measure::clock::monotonic_raw_ns as now_ns;
use fathom_metric::{Event, Recorder};
use fathom_paths::ReceivePath;
use fathom_record::quantity::quantity;
use fathom_record::{Activity, Unit, system_cause};

use crate::connection::{ConnectionClient, ConnectionFault, First, Range, Response, check_part};
use crate::open::{PAUSE, open, open_part};
use crate::options::{Fetch, Receive};
use crate::part::{FetchPlace, FetchState, Part};
use crate::receive::{Segment, not_written, receive};

/// A smaller part does not amortize a connection of its own.
const PART_MIN: u64 = 8 << 20;
/// The longest pause before a retry; that before the first is doubled each time.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// Longest pause that a server may ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);
/// Progress after which all retries are left again.
const PROGRESS: u64 = 1 << 20;
/// The largest file of any kernel.
const BYTES_MAX: u64 = i64::MAX as u64;
/// Between two looks at progress and Ctrl-C, and the least time between two writes of the state.
const TICK: Duration = Duration::from_millis(100);

/// A complete file.
pub struct Complete {
    pub place: FetchPlace,
    pub bytes: u64,
    /// In this run.
    pub received: u64,
    pub resumed_from: u64,
    pub ns: u64,
    /// Until the first response began.
    pub setup_ns: u64,
    pub sync_ns: u64,
    pub resolve_ns: u64,
    /// If a request was needed.
    pub first: Option<First>,
    pub etag: Option<String>,
    pub connections: usize,
    pub retries: u32,
    pub path: ReceivePath,
    /// The length was not announced, nor the end marked.
    pub has_open_end: bool,
}

pub struct Download<'d> {
    fetch: &'d Fetch,
    /// As asked for, and where the redirects led.
    asked: Url,
    url: Url,
    client: ConnectionClient<'d>,
    part: Part,
    state: FetchState,
    segments: Vec<Segment>,
    /// When the first response began.
    opened_ns: Option<u64>,
    resolve_ns: u64,
    /// Bytes of the file that earlier runs received.
    resumed_from: u64,
    connections: usize,
    path: ReceivePath,
    has_open_end: bool,
    /// Why the next attempt begins at the first byte.
    anew: Option<String>,
    /// Unless its answers to them were wrong.
    uses_ranges: bool,
    /// The server did not send what a range asked for.
    cannot_resume: bool,
}

impl<'d> Download<'d> {
    pub fn new(
        fetch: &'d Fetch,
        (text, asked, tls): (&str, Url, Option<&'d Tls>),
        place: FetchPlace,
        fields: Vec<String>,
        recorder: &mut dyn Recorder,
    ) -> Result<Self, String> {
        let begun_ns = now_ns();
        let addresses = resolve(&asked.host, asked.port);
        let resolve_ns = now_ns() - begun_ns;
        let addresses = addresses.map_err(|error| format!("look up {}: {error}", asked.host))?;
        let client = ConnectionClient {
            addresses,
            tls,
            fields,
            congestion: fetch.congestion.as_deref(),
            connect_timeout: fetch.connect_timeout,
            timeout: fetch.timeout,
            stop: false.into(),
            first: OnceLock::new(),
            copies: false.into(),
            received: AtomicU64::new(0),
        };
        let (part, kept) = Part::open(place, fetch.force)?;
        let resumed = match kept {
            Ok(state) if state.url != text => Err("it is of another URL".to_owned()),
            Ok(FetchState { etag: None, .. } | FetchState { bytes: None, .. }) => {
                Err("the server gave no strong ETag".to_owned())
            }
            other => other,
        };
        let state = resumed.unwrap_or_else(|why| {
            if part.file.metadata().is_ok_and(|file| file.len() > 0) {
                let warning = format!("{}.part is not resumed: {why}", part.place.shown);
                recorder.event(Event::Warning(&warning));
            }
            FetchState::default()
        });
        let missing = state.missing.iter();
        let segments: Vec<_> = missing.map(|(from, to)| Segment::new(*from, *to)).collect();
        let mut state = state;
        text.clone_into(&mut state.url);
        let resumed_from = done(&segments, state.bytes);
        Ok(Self {
            fetch,
            url: asked.clone(),
            asked,
            client,
            part,
            state,
            segments,
            resumed_from,
            connections: 1,
            path: ReceivePath::Copy,
            has_open_end: false,
            opened_ns: None,
            resolve_ns,
            anew: None,
            uses_ranges: true,
            cannot_resume: false,
        })
    }

    /// Downloads; `None` after Ctrl-C.
    ///
    /// # Errors
    /// If the file is not complete, with what is left of it.
    pub fn run(mut self, recorder: &mut dyn Recorder) -> Result<Option<Complete>, String> {
        let (begun_ns, mut retries, mut left) = (now_ns(), 0, self.fetch.retries);
        let (mut pause, mut progress) = (PAUSE, self.done());
        loop {
            // Of a run that was killed before the rename.
            let is_complete = self.state.bytes.is_some() && self.state.missing.is_empty();
            // Also after Ctrl-C in a pause.
            let stops = recorder.stop().now().load(Ordering::Relaxed);
            let attempt = match is_complete {
                true => Ok(()),
                false if stops => Err(ConnectionFault::Stopped),
                false => self.attempt(recorder),
            };
            let (what, asked) = match attempt {
                Ok(()) => break,
                Err(ConnectionFault::Stopped) => {
                    let text = format!("stopped: {}", self.keep());
                    recorder.event(Event::Warning(&text));
                    return Ok(None);
                }
                Err(ConnectionFault::Passing(what, asked)) => (what, asked),
                Err(ConnectionFault::Changed(what)) => {
                    self.anew = Some("the file changed on the server".to_owned());
                    (what, Some(Duration::ZERO))
                }
                Err(ConnectionFault::Ranges(what)) => {
                    self.anew = Some("without ranges".to_owned());
                    (self.uses_ranges, self.cannot_resume) = (false, true);
                    (what, Some(Duration::ZERO))
                }
                Err(ConnectionFault::Final(what)) => {
                    return Err(format!("{what}; {}", self.keep()));
                }
            };
            // What was received anew, after a start from the first byte, is no progress.
            let done = self.done();
            if done >= progress + PROGRESS {
                (pause, left, progress) = (PAUSE, self.fetch.retries, done);
            }
            if left == 0 {
                let after = match self.fetch.retries {
                    0 => String::new(),
                    all => format!(" (retries: {all})"),
                };
                return Err(format!("{what}{after}; {}", self.keep()));
            }
            (left, retries) = (left - 1, retries + 1);
            let wait = asked.unwrap_or(pause);
            if wait > RETRY_AFTER_MAX {
                let delay = match wait.as_secs() {
                    // More than it could be read as.
                    u64::MAX => "a longer pause than 60 s".to_owned(),
                    seconds => format!("a pause of {seconds} s"),
                };
                let keep = self.keep();
                return Err(format!("{what}; the server asks for {delay}: try again then; {keep}"));
            }
            pause = (2 * pause).min(PAUSE_MAX);
            let seconds = wait.as_secs_f64();
            let name = &self.part.place.shown;
            let text = format!("{name}: {what}; retry {retries} in {seconds:.1} s");
            recorder.event(Event::Warning(&text));
            let until_ns = now_ns() + wait.as_nanos() as u64;
            while now_ns() < until_ns && !recorder.stop().now().load(Ordering::Relaxed) {
                std::thread::sleep(TICK.min(wait));
            }
        }
        self.complete(begun_ns, retries).map(Some)
    }

    fn complete(self, begun_ns: u64, retries: u32) -> Result<Complete, String> {
        let end_ns = now_ns();
        let bytes = self.done();
        let shown = &self.part.place.shown;
        let on_disk = self.part.file.metadata().map_err(|error| format!("{shown}: {error}"))?.len();
        if on_disk != bytes || self.state.bytes.is_some_and(|expected| expected != bytes) {
            let expected = self.state.bytes.unwrap_or(bytes);
            return Err(format!(
                "{shown}.part has {on_disk} bytes, expected {expected}; remove it"
            ));
        }
        let first = self.client.first.into_inner();
        let received = self.client.received.into_inner();
        let place = self.part.finish(self.fetch.force)?;
        Ok(Complete {
            place,
            bytes,
            received,
            resumed_from: self.resumed_from,
            ns: end_ns - begun_ns,
            setup_ns: self.opened_ns.map_or(0, |opened_ns| opened_ns - begun_ns),
            sync_ns: now_ns() - end_ns,
            resolve_ns: self.resolve_ns,
            first,
            etag: self.state.etag,
            connections: self.connections,
            retries,
            path: self.path,
            has_open_end: self.has_open_end,
        })
    }

    /// Bytes of the file that are received.
    fn done(&self) -> u64 {
        done(&self.segments, self.state.bytes)
    }

    /// Keeps what is received for a later run; says what that is.
    fn keep(&mut self) -> String {
        let shown = &self.part.place.shown;
        let done = self.done();
        if done == 0 {
            self.part.remove();
            return "nothing is kept".to_owned();
        }
        self.state.missing = missing(&self.segments);
        match (self.state.bytes, self.part.save(&self.state, true)) {
            (Some(bytes), Ok(())) if self.cannot_resume => format!(
                "{done} of {bytes} bytes are in {shown}.part; the server has no usable ranges: \
                 the next run starts anew"
            ),
            (Some(bytes), Ok(())) if self.state.etag.is_some() => format!(
                "{done} of {bytes} bytes are in {shown}.part; run the same command again to resume"
            ),
            (_, Err(error)) => format!("{shown}.part cannot be resumed: {error}"),
            _ => format!(
                "{done} bytes are in {shown}.part; without a length and a strong ETag of the \
                 server the next run starts anew"
            ),
        }
    }

    /// Receives what is missing, over all connections.
    fn attempt(&mut self, recorder: &mut dyn Recorder) -> Result<(), ConnectionFault> {
        self.client.stop.store(false, Ordering::Relaxed);
        let (client, asked) = (&self.client, &self.asked);
        let begins_anew = self.anew.is_some() || !self.uses_ranges;
        self.segments.retain(|segment| segment.missing().is_some());
        self.segments.sort_unstable_by_key(Segment::missing);
        let mut held_from = 0;
        for segment in &mut self.segments {
            segment.held_from = std::mem::replace(&mut held_from, segment.end);
        }
        let range = self.state.etag.as_deref().zip(self.segments.first());
        let range =
            range.map(|(etag, first)| Range { from: first.resumes_from(), to: first.end, etag });
        let range = range.filter(|_| !begins_anew && self.state.bytes.is_some());
        let name = self.part.place.name.clone();
        let mut tick = || {
            let stops = recorder.stop().now().load(Ordering::Relaxed);
            client.stop.fetch_or(stops, Ordering::Relaxed);
            let what = format!("{name}: waiting for the server");
            recorder.event(Event::Progress { done: 0, all: 1, what: &what });
        };
        let mut opened = ticking(client, vec![|| open(client, asked, range)], &mut tick)?;
        let (mut response, url) = opened.pop().unwrap_or(Err(ConnectionFault::Stopped))?;
        self.opened_ns.get_or_insert_with(now_ns);
        let has_ranges = response.fields.has_ranges || response.head.status == 206;
        match range {
            Some(range) if response.head.status == 206 => {
                check_part(&mut response, range, self.state.bytes)?;
                self.cannot_resume = false;
            }
            _ => self.begin_anew(&response, recorder)?,
        }
        self.url = url;
        self.check_space()?;
        if has_ranges && self.uses_ranges && self.state.etag.is_some() && self.state.bytes.is_some()
        {
            split(&mut self.segments, usize::from(self.fetch.connections));
        }
        if let (Receive::Mmap, Some(bytes)) = (self.fetch.receive, self.state.bytes) {
            self.part.file.set_len(bytes).map_err(|error| not_written(&error))?;
        }
        self.receive(response, recorder)
    }

    /// Empties the file for a body from its first byte on.
    fn begin_anew(
        &mut self,
        response: &Response,
        recorder: &mut dyn Recorder,
    ) -> Result<(), ConnectionFault> {
        let local = |error: std::io::Error| not_written(&error);
        let length = match response.head.framing {
            Framing::Length(bytes) => Some(bytes),
            Framing::Chunked(_) | Framing::UntilClose => None,
        };
        if let Some(bytes) = length.filter(|bytes| *bytes > BYTES_MAX) {
            let text = format!("implausible Content-Length: {bytes}, a file has less than 2^63");
            return Err(ConnectionFault::Final(text));
        }
        let lost = self.done();
        let is_untagged = self.state.etag.is_some() && !response.fields.has_etag;
        if lost > 0 && self.anew.is_none() && is_untagged && length != self.state.bytes {
            // Rather a page of a proxy than the file: what is there is not given up for it.
            let text = format!(
                "status 200 with another length and without the ETag of the file (if it has \
                 changed, remove {}.part)",
                self.part.place.shown
            );
            return Err(ConnectionFault::passing(text));
        }
        if lost > 0 {
            let why = match (&self.anew, &self.state.etag, &response.fields.etag) {
                (Some(why), ..) => why,
                (_, Some(_), _) if !self.uses_ranges => "without ranges",
                (_, None, _) => "the server gave no strong ETag",
                _ if self.state.bytes.is_none() => "the server announced no length",
                (_, Some(before), Some(now)) if before == now => {
                    self.cannot_resume = true;
                    "the server ignored the range"
                }
                (_, Some(_), _) => "the file changed on the server",
            };
            let shown = &self.part.place.shown;
            let text = format!("{shown}: {why}: started anew, without the {lost} bytes before");
            recorder.event(Event::Warning(&text));
        }
        self.anew = None;
        self.has_open_end = response.head.framing == Framing::UntilClose;
        self.segments = vec![Segment::new(0, length.unwrap_or(u64::MAX))];
        self.resumed_from = 0;
        self.state.etag = response.fields.etag.clone();
        self.state.bytes = length;
        self.state.missing = missing(&self.segments);
        // Before the file is emptied: no state may say more than the file has.
        self.part.save(&self.state, false).map_err(local)?;
        self.part.file.set_len(0).map_err(local)
    }

    fn check_space(&self) -> Result<(), ConnectionFault> {
        let needed: u64 =
            self.segments.iter().filter_map(Segment::missing).map(|it| it.1 - it.0).sum();
        let Ok(stat) = rustix::fs::fstatvfs(&self.part.file) else { return Ok(()) };
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        if self.state.bytes.is_none() || needed <= free {
            return Ok(());
        }
        let [needed, free] = [needed, free].map(|bytes| quantity(bytes as f64, Unit::Bytes));
        Err(ConnectionFault::Final(format!(
            "disk full: needs {needed}, its file system has {free} free; free space, or choose \
             another folder by -o"
        )))
    }

    fn receive(
        &mut self,
        first: Response,
        recorder: &mut dyn Recorder,
    ) -> Result<(), ConnectionFault> {
        let (client, url, file) = (&self.client, &self.url, &self.part.file);
        let (segments, length) = (&self.segments, self.state.bytes);
        let etag = self.state.etag.clone();
        let copies = length.is_none() || client.copies.load(Ordering::Relaxed);
        let path = if copies { ReceivePath::Copy } else { self.fetch.receive.path() };
        self.path = path;
        self.connections = segments.len().clamp(1, usize::from(self.fetch.connections));
        let next = AtomicUsize::new(1);
        let whole = |segment: &Segment, mut response: Option<Response>| {
            let mut from = segment.resumes_from();
            loop {
                let response = match response.take() {
                    Some(response) => response,
                    None => {
                        let range = Range {
                            from,
                            to: segment.end,
                            etag: etag.as_deref().unwrap_or_default(),
                        };
                        open_part(client, url, range, length)?
                    }
                };
                // A part has at least the first byte asked for, so that this ends.
                from = response.range.end;
                receive(client, response, (file, segment), path)?;
                if length.is_none() || segment.missing().is_none() {
                    return Ok(());
                }
            }
        };
        let work = |first: Option<Response>| {
            let (next, whole) = (&next, &whole);
            move || {
                let mut present = first.zip(segments.first());
                loop {
                    let (response, segment) = match present.take() {
                        Some((response, segment)) => (Some(response), segment),
                        None => match segments.get(next.fetch_add(1, Ordering::Relaxed)) {
                            Some(segment) => (None, segment),
                            None => return Ok(()),
                        },
                    };
                    let done = whole(segment, response);
                    if done.is_err() {
                        client.stop.store(true, Ordering::Relaxed);
                        return done;
                    }
                }
            }
        };
        let others = (1..self.connections).map(|_| None);
        let works = std::iter::once(Some(first)).chain(others).map(work).collect();
        let mut shown = Shown::new(self.part.place.name.clone());
        let (part, state) = (&self.part, &mut self.state);
        let mut tick = || {
            let stops = recorder.stop().now().load(Ordering::Relaxed);
            client.stop.fetch_or(stops, Ordering::Relaxed);
            state.missing = missing(segments);
            // Without a state the next run starts anew, which is no failure of this one.
            let _ = state.etag.as_ref().map(|_| part.save(state, false));
            shown.show(client, done(segments, state.bytes), state.bytes, recorder);
        };
        let ends = ticking(client, works, &mut tick)?;
        // A fault stops the other connections: those say nothing.
        let is_fault = |end: &Result<(), ConnectionFault>| {
            !matches!(end, Ok(()) | Err(ConnectionFault::Stopped))
        };
        let at = ends.iter().position(is_fault);
        let at = at.or_else(|| ends.iter().position(Result::is_err));
        at.map_or(Ok(()), |at| ends[at].clone())
    }
}

/// Ranges that are not received, in order.
fn missing(segments: &[Segment]) -> Vec<(u64, u64)> {
    let mut missing: Vec<_> = segments.iter().filter_map(Segment::missing).collect();
    missing.sort_unstable();
    missing
}

fn done(segments: &[Segment], bytes: Option<u64>) -> u64 {
    match bytes {
        Some(bytes) => bytes - missing(segments).iter().map(|(from, to)| to - from).sum::<u64>(),
        None => segments.first().map_or(0, |only| only.at.load(Ordering::Acquire)),
    }
}

/// Halves the largest segments until there are `count`.
fn split(segments: &mut Vec<Segment>, count: usize) {
    while segments.len() < count {
        let length = |one: &Segment| one.missing().map_or(0, |(from, to)| to - from);
        let Some(largest) = segments.iter_mut().max_by_key(|one| length(one)) else { return };
        let Some((from, to)) = largest.missing().filter(|(from, to)| to - from >= 2 * PART_MIN)
        else {
            return;
        };
        // At a page, so that no two connections write to one.
        let middle = (from + (to - from) / 2).next_multiple_of(4096);
        largest.end = middle;
        segments.push(Segment::new(middle, to));
    }
}

/// The line of progress.
struct Shown {
    name: String,
    begun_ns: u64,
    begun: Option<u64>,
}

impl Shown {
    fn new(name: String) -> Self {
        Self { name, begun_ns: now_ns(), begun: None }
    }

    fn show(
        &mut self,
        client: &ConnectionClient<'_>,
        done: u64,
        all: Option<u64>,
        recorder: &mut dyn Recorder,
    ) {
        let received = client.received.load(Ordering::Relaxed);
        let since = received - *self.begun.get_or_insert(received);
        let rate = since as f64 / ((now_ns() - self.begun_ns).max(1) as f64 / 1e9);
        let left = all.filter(|_| rate > 0.0).map(|all| (all - done) as f64 / rate);
        let left = left.map_or(String::new(), |left| format!(", {left:.0} s left"));
        let [done_text, rate] = [(done as f64, Unit::Bytes), (rate, Unit::BytesPerSecond)]
            .map(|it| quantity(it.0, it.1));
        let what = format!("{}: {done_text}, {rate}{left}", self.name);
        let (done, all) = all.map_or((0, 1), |all| (done, all));
        recorder.event(Event::Progress { done, all, what: &what });
    }
}

/// Runs each work in a thread, and `tick` now and then in this one.
fn ticking<T: Send>(
    client: &ConnectionClient<'_>,
    works: Vec<impl FnOnce() -> T + Send>,
    tick: &mut dyn FnMut(),
) -> Result<Vec<T>, ConnectionFault> {
    let running = AtomicUsize::new(0);
    let (running, main) = (&running, std::thread::current());
    let mut failed = None;
    let ends = std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for work in works {
            let main = main.clone();
            running.fetch_add(1, Ordering::Relaxed);
            let thread = std::thread::Builder::new().spawn_scoped(scope, move || {
                let end = work();
                running.fetch_sub(1, Ordering::Release);
                main.unpark();
                end
            });
            match thread {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    let cause = system_cause(&error, Activity::Other);
                    failed = Some(ConnectionFault::Final(format!("start a thread: {cause}")));
                    client.stop.store(true, Ordering::Relaxed);
                    break;
                }
            }
        }
        // A thread that panicked is finished, but still counted.
        while running.load(Ordering::Acquire) > 0 && threads.iter().any(|it| !it.is_finished()) {
            std::thread::park_timeout(TICK);
            tick();
        }
        let joined = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
        joined
            .map(|end| end.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect::<Vec<T>>()
    });
    failed.map_or(Ok(ends), Err)
}
