//! The present run: its target, its windows and what is looked at meanwhile.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use fathom_analysis::load::{SWEEPS, whole_seconds};
use fathom_measure::affinity;
use fathom_measure::clock::{monotonic_raw_ns as now_ns, process_cpu_ns};
use fathom_measure::condition::MachineTime;
use fathom_metric::{Event, ProcedureError, Recorder};
use fathom_record::quantity::time_option;

use crate::capacities::Capacities;
use crate::engine::{self, End, Fault, Live, Moment, Outcome, Pause, Tally, Timing, Workload};
use crate::figures::LoadTelemetry;
use crate::memory::LoadMemory;
use crate::options::{LoadOptions, LoadVariant, ServerCache};
use crate::readings::Readings;
use crate::seconds::{Seconds, Watched};
use crate::server::LocalServer;
use crate::share::SharePlan;
use crate::step::Step;
use crate::target::{LOOPBACK, Target};
use crate::used::between;

/// A server that answers faster has nothing to do.
const SETTLED_MIN_NS: u64 = 50_000_000;
/// Requests after a window, at most: behind a queue, one waits for all before it.
const SETTLING_MAX: usize = 10;
/// Between two readings of memory and telemetry.
const READING_NS: u64 = 1_000_000_000;
const PROGRESS_NS: u64 = 200_000_000;

impl LoadOptions {
    pub fn window_ns(&self) -> u64 {
        (self.time.as_nanos() as u64 / SWEEPS as u64).max(1)
    }

    /// The plan of a share from the common start on.
    pub fn fixed_plan(&self, start_ns: u64) -> Option<SharePlan> {
        self.share.map(|_| SharePlan::new(start_ns, self.window_ns()))
    }

    /// Threads of the generator.
    pub fn client_threads(&self, target: &Target, clients: u32) -> u32 {
        let cpus = affinity::allowed().len() as u32;
        // The server needs a CPU too.
        let usual = if target.to == LOOPBACK { cpus / 2 } else { cpus };
        self.threads.unwrap_or(usual).clamp(1, clients)
    }

    /// The most threads of any step.
    pub fn most_threads(&self) -> u32 {
        self.threads.unwrap_or(affinity::allowed().len() as u32)
    }

    pub fn workload(
        &self,
        target: &Target,
        case: LoadVariant,
        clients: u32,
        seed: u64,
    ) -> Workload {
        Workload {
            address: target.address.clone(),
            tls: target.tls.clone(),
            requests: Arc::clone(&target.requests),
            clients,
            rate: None,
            threads: self.client_threads(target, clients),
            first: 0,
            shift_ns: 0,
            choice: case.choice,
            pause: Pause {
                mean_ns: case.think.as_nanos() as u64,
                distribution: self.think_distribution,
            },
            fresh: self.fresh,
            body: self.body.into(),
            connect_timeout_ns: self.connect_timeout.as_nanos() as u64,
            timeout_ns: self.timeout.as_nanos() as u64,
            congestion: self.congestion.clone(),
            seed,
            spin_ns: 0,
            follow: target.follow.clone(),
            meter: None,
        }
    }
}

/// The present run.
pub struct LoadRun<'l> {
    pub load: &'l LoadOptions,
    pub target: Target,
    pub memory: LoadMemory,
    /// Of the present case.
    pub readings: Readings,
    /// CPUs of this process, if it has a quota.
    pub quota: Option<f64>,
    /// Of the measured time.
    pub done_ns: u64,
    pub all_ns: u64,
    pub has_numbers: bool,
    pub dead: Option<Fault>,
    pub capacities: Capacities,
    /// Whether it was said that counters of the server went backwards.
    pub has_warned: bool,
    /// Whether the last window ended with requests in flight.
    pub has_left_requests: bool,
    pub watched: Arc<Watched>,
    /// Of a share.
    pub plan: Option<SharePlan>,
    /// The server whose operations are counted.
    pub counted: Option<LocalServer>,
}

impl<'l> LoadRun<'l> {
    /// Before its first window.
    pub fn new(load: &'l LoadOptions, target: Target, watched: Arc<Watched>) -> Self {
        Self {
            load,
            target,
            memory: LoadMemory::default(),
            readings: Readings::default(),
            quota: None,
            done_ns: 0,
            all_ns: 0,
            has_numbers: false,
            dead: None,
            capacities: Capacities::default(),
            has_warned: false,
            has_left_requests: false,
            watched,
            plan: None,
            counted: None,
        }
    }

    pub fn window(
        &mut self,
        work: &Workload,
        timing: Timing,
        what: &str,
        recorder: &mut dyn Recorder,
    ) -> Result<Outcome, ProcedureError> {
        self.settle(work, timing.begin_ns, recorder)?;
        await_begin(timing.begin_ns, recorder);
        let work = &Workload { meter: Some(Arc::clone(&self.watched.meter)), ..work.clone() };
        let times = (self.memory.begun_ns, now_ns());
        let mut watcher = Watcher {
            target: &mut self.target,
            memory: &mut self.memory,
            readings: &mut self.readings,
            recorder: &mut *recorder,
            begin: None,
            end: None,
            begin_time: None,
            end_time: None,
            from: None,
            read_ns: 0,
            shown_ns: 0,
            seconds: Seconds::from_watched(&self.watched, (work, what), times),
            what,
            done_ns: self.done_ns,
            all_ns: self.all_ns,
            timing,
        };
        let mut outcome = engine::run(work, timing, &mut |moment, live| watcher.at(moment, live))
            .map_err(|error| {
            ProcedureError::failed(format!("start the client threads: {error}"))
        })?;
        if let Some(second) = watcher.seconds.rest(now_ns()) {
            watcher.recorder.event(Event::Second(&second));
        }
        self.watched.meter.rest();
        let Tally { heat, window, .. } = &mut outcome.tally;
        heat.from_ns = heat.from_ns.saturating_sub(times.0);
        window.begun_ns = heat.from_ns;
        self.has_left_requests = window.in_flight > 0;
        let span = watcher.begin_time.zip(watcher.end_time);
        let is_whole = outcome.end == engine::End::Complete;
        let has_ended = is_whole && watcher.end.is_none() && watcher.target.local.is_some();
        let telemetry = watcher.begin.zip(watcher.end);
        // Differences of counters that went backwards would be figures of nothing.
        let is_right = telemetry.as_ref().is_none_or(|(begin, end)| end.follows(begin));
        if !is_right && !std::mem::replace(&mut self.has_warned, true) {
            let text = "figures of the server are unavailable: its counters went backwards";
            recorder.event(Event::Warning(text));
        }
        if has_ended && !std::mem::replace(&mut self.has_warned, true) {
            let text = "figures of the server are unavailable: its processes have ended";
            recorder.event(Event::Warning(text));
        }
        let telemetry = telemetry.filter(|_| is_right);
        self.done_ns += timing.window_ns;
        // Of this machine, whatever its address: in a network namespace, too.
        let here = telemetry.as_ref().filter(|(begin, _)| {
            span.is_some_and(|(at, _)| (at.asked_ns..=at.read_ns).contains(&begin.at_ns))
        });
        // Without its CPU time a server on this machine would be one of the others.
        let is_known = here.is_some() || !self.target.is_loopback_path;
        let of_server = here.map_or(0, |(begin, end)| end.cpu_ns.saturating_sub(begin.cpu_ns));
        let span = span.filter(|_| is_known);
        window.others = span.and_then(|(begin, end)| others(begin, end, of_server));
        window.server = telemetry.map(|(begin, end)| between(&begin, &end));
        window.quota = self.quota;
        Ok(outcome)
    }

    /// Waits until the server has worked off what the window before left in flight, which would be
    /// measured in the next one: until it answers a request as fast as the first, or for as long as
    /// a response may take.
    fn settle(
        &mut self,
        work: &Workload,
        begin_ns: Option<u64>,
        recorder: &dyn Recorder,
    ) -> Result<(), ProcedureError> {
        if !std::mem::take(&mut self.has_left_requests) {
            return Ok(());
        }
        let (pause, rate) = (Pause::NONE, None);
        let one = Workload { clients: 1, threads: 1, pause, rate, spin_ns: 0, ..work.clone() };
        let begun_ns = now_ns();
        // A planned window does not wait.
        let most_ns = begin_ns.map_or(u64::MAX, |at| at.saturating_sub(begun_ns));
        let most_ns = most_ns.min(work.timeout_ns);
        let usual_ns = SETTLED_MIN_NS.max(2 * self.target.first_ns) as f64;
        for _ in 0..SETTLING_MAX {
            if begin_ns.is_some_and(|at| now_ns() >= at) {
                break;
            }
            let left_ns = most_ns.saturating_sub(now_ns() - begun_ns).max(1);
            let timing = Timing::with_window(left_ns, Some(1));
            let goes_on = |_: Moment, _: &Live| !recorder.stop().now().load(Relaxed);
            let outcome = engine::run(&one, timing, &mut { goes_on }).map_err(|error| {
                ProcedureError::failed(format!("start a client thread: {error}"))
            })?;
            let response_ns: f64 = outcome.tally.window.slots.iter().map(|slot| slot.sum_ns).sum();
            if outcome.end != End::Complete || response_ns <= usual_ns {
                break;
            }
        }
        Ok(())
    }

    /// Shows work that has no windows.
    pub fn progress(&self, recorder: &mut dyn Recorder, what: &str, inside_ns: u64) {
        let done = self.done_ns + inside_ns;
        let left = duration(self.all_ns.saturating_sub(done) as f64 / 1e9);
        let what = format!("{left} left, {what}");
        recorder.event(Event::Progress { done, all: self.all_ns, what: &what });
    }

    /// Brings the server's page cache into the requested state, and keeps the proof.
    pub fn set_cache(&mut self, step: &mut Step) -> Result<(), ProcedureError> {
        let (what, word) = match self.load.server_cache {
            ServerCache::AsIs => return Ok(()),
            ServerCache::Cold => ("evict", "evicted"),
            ServerCache::Warm => ("warm", "read"),
        };
        let Some(control) = &mut self.target.control else { return Ok(()) };
        let change = control.change_cache(what).map_err(|error| {
            ProcedureError::failed(format!("{}: {what} the files: {error}", self.load.target))
        })?;
        let share = change.resident_bytes_after.map(|it| it as f64 / change.bytes.max(1) as f64);
        let text = match share {
            Some(share) => format!("{word}, {:.1} % resident", 100.0 * share),
            None => format!("{word}, residency unknown"),
        };
        let is_right = match self.load.server_cache {
            ServerCache::Cold => share.is_some_and(|share| share <= 0.01),
            _ => share.is_some_and(|share| share >= 0.99),
        };
        if !is_right {
            step.measured.cache_doubt = Some(text.clone());
        }
        step.cache.push(text);
        Ok(())
    }
}

/// Sleeps until the planned begin of a window, or until the load is stopped.
fn await_begin(begin_ns: Option<u64>, recorder: &dyn Recorder) {
    while let Some(left_ns) = begin_ns.and_then(|at| at.checked_sub(now_ns()))
        && left_ns > 0
        && !recorder.stop().now().load(Relaxed)
    {
        std::thread::sleep(Duration::from_nanos(left_ns.min(PROGRESS_NS)));
    }
}

/// CPU times at a moment.
#[derive(Clone, Copy)]
struct Times {
    machine: MachineTime,
    /// Of this process.
    own_ns: u64,
    /// Before the server was asked for its own, and after all readings.
    asked_ns: u64,
    read_ns: u64,
}

/// The machine's time is counted in steps of 10 ms.
const OTHERS_MIN_NS: u64 = 200_000_000;
/// A machine that is idle for a larger share of its time has a CPU for everyone.
const IDLE_MAX: f64 = 0.1;

/// CPUs that all but the two ends used, if the machine was hardly idle.
fn others(begin: Times, end: Times, of_server: u64) -> Option<f64> {
    let elapsed_ns = end.read_ns.checked_sub(begin.read_ns).filter(|ns| *ns >= OTHERS_MIN_NS)?;
    let machine = end.machine.since(begin.machine)?;
    let of_client = end.own_ns.checked_sub(begin.own_ns)?;
    let all_ns = (machine.used_ns + machine.idle_ns).max(1);
    let is_busy = machine.idle_ns as f64 <= IDLE_MAX * all_ns as f64;
    let others = machine.used_ns.saturating_sub(of_client).saturating_sub(of_server);
    is_busy.then(|| others as f64 / elapsed_ns as f64)
}

/// Looks at a sweep from outside: telemetry, memory, progress and Ctrl-C.
struct Watcher<'w> {
    target: &'w mut Target,
    memory: &'w mut LoadMemory,
    readings: &'w mut Readings,
    recorder: &'w mut dyn Recorder,
    begin: Option<LoadTelemetry>,
    end: Option<LoadTelemetry>,
    begin_time: Option<Times>,
    end_time: Option<Times>,
    /// The state when the window began.
    from: Option<Live>,
    read_ns: u64,
    shown_ns: u64,
    seconds: Seconds,
    what: &'w str,
    done_ns: u64,
    all_ns: u64,
    timing: Timing,
}

impl Watcher<'_> {
    fn at(&mut self, moment: Moment, live: &Live) -> bool {
        let is_due = live.now_ns.saturating_sub(self.read_ns) >= READING_NS;
        if is_due || matches!(moment, Moment::Begin | Moment::End) {
            self.read_ns = live.now_ns;
            let asked_ns = now_ns();
            let telemetry = self.target.telemetry();
            self.memory.read(telemetry.as_ref());
            self.readings.add(self.memory.since_begin_ns(), telemetry.as_ref());
            let times = || {
                let machine = MachineTime::now()?;
                Some(Times { machine, own_ns: process_cpu_ns(), asked_ns, read_ns: now_ns() })
            };
            match moment {
                Moment::Begin => {
                    (self.begin, self.from) = (telemetry, Some(*live));
                    self.begin_time = times();
                }
                Moment::End => {
                    self.end = telemetry;
                    self.end_time = times();
                }
                Moment::WarmUp | Moment::Running => {}
            }
        }
        if let Some(local) = &mut self.target.local {
            local.look();
        }
        if let Some(second) = self.seconds.at(moment, live) {
            self.recorder.event(Event::Second(&second));
        }
        if live.now_ns.saturating_sub(self.shown_ns) >= PROGRESS_NS {
            self.shown_ns = live.now_ns;
            self.show(live);
        }
        !self.recorder.stop().now().load(Relaxed)
    }

    fn show(&mut self, live: &Live) {
        let window_ns = self.timing.window_ns;
        let (mut inside, mut rates) = (0, "warm-up".to_owned());
        if let Some(from) = &self.from {
            inside = (live.now_ns - from.now_ns).min(window_ns);
            let seconds = inside.max(1) as f64 / 1e9;
            let requests = (live.completed - from.completed) as f64 / seconds;
            let megabytes = (live.body_bytes - from.body_bytes) as f64 / seconds / 1e6;
            rates = format!("{requests:.1} requests/s, {megabytes:.1} MB/s");
        }
        let (passed, all) = (self.done_ns + inside, self.all_ns);
        let left = duration(Duration::from_nanos(all.saturating_sub(passed)).as_secs_f64());
        let failed =
            if live.failed > 0 { format!(", {} failed", live.failed) } else { String::new() };
        // A narrow terminal cuts the end.
        let what = format!("{left} left{failed}, {}: {rates}", self.what);
        self.recorder.event(Event::Progress { done: passed, all, what: &what });
    }
}

/// `450 ms`, `1.5 s`, `90 s`, `2.5 min`, `12 min`, `3.5 h`.
pub fn duration(seconds: f64) -> String {
    let (value, unit) = match seconds {
        s if s > 0.0 && s < 0.9995 => (1e3 * s, "ms"),
        s if s < 120.0 => (s, "s"),
        s if s < 7200.0 => (s / 60.0, "min"),
        s => (s / 3600.0, "h"),
    };
    // A whole number below 10 might be half as much again; a zero after the point says nothing.
    let value = if value < 10.0 { (10.0 * value).round() / 10.0 } else { value.round() };
    format!("{value} {unit}")
}

/// A time that is not shorter, as an option takes it.
pub fn whole_time(seconds: f64) -> String {
    time_option(whole_seconds(seconds))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::sync::atomic::AtomicU32;

    use clap::Parser as _;

    use super::*;
    use crate::fixture::{Texts, target};
    use crate::requests::{Fields, Requests};

    #[test]
    fn progress_has_the_rates_of_the_window() {
        let mut recorder = Texts::new();
        let load = LoadOptions::parse_from(["load", "http://far/"]);
        let work = load.workload(&target(false), load.all_cases()[0], 4, 1);
        let at = |ms: u64, completed, body_bytes, failed| Live {
            now_ns: 5_000_000_000 + ms * 1_000_000,
            completed,
            body_bytes,
            failed,
            ..Live::default()
        };
        let mut watcher = Watcher {
            target: &mut target(false),
            memory: &mut LoadMemory::default(),
            readings: &mut Readings::default(),
            recorder: &mut recorder,
            begin: None,
            end: None,
            begin_time: None,
            end_time: None,
            from: None,
            read_ns: 0,
            shown_ns: 0,
            seconds: Seconds::from_watched(&Watched::new(1), (&work, "4 clients"), (0, 0)),
            what: "4 clients",
            done_ns: 10_000_000_000,
            all_ns: 15_000_000_000,
            timing: Timing::with_window(2_000_000_000, None),
        };
        watcher.show(&at(0, 70, 700, 0));
        watcher.from = Some(at(1_000, 100, 1_000_000, 0));
        watcher.show(&at(1_500, 300, 4_000_000, 0));
        watcher.show(&at(4_000, 700, 9_000_000, 3));
        let expected = "\
            10000000000 of 15000000000: 5 s left, 4 clients: warm-up\n\
            10500000000 of 15000000000: 4.5 s left, 4 clients: 400.0 requests/s, 6.0 MB/s\n\
            12000000000 of 15000000000: 3 s left, 3 failed, 4 clients: 300.0 requests/s, \
            4.0 MB/s\n";
        assert_eq!(recorder.all, expected);
    }

    /// A server that answers its first request after 300 ms and others at once, and the number of
    /// its requests.
    fn queue() -> (std::net::SocketAddr, Arc<AtomicU32>) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, count) = (listener.local_addr().unwrap(), Arc::new(AtomicU32::new(0)));
        let requests = Arc::clone(&count);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut lines = BufReader::new(stream.unwrap());
                let mut line = String::new();
                while lines.read_line(&mut line).is_ok_and(|bytes| bytes > 2) {
                    line.clear();
                }
                if line != "\r\n" {
                    continue;
                }
                if requests.fetch_add(1, Relaxed) == 0 {
                    // mood: the server's answer is late, however busy the machine is
                    std::thread::sleep(Duration::from_millis(300));
                }
                let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx";
                let _ = lines.get_mut().write_all(answer);
            }
        });
        (address, count)
    }

    #[test]
    fn next_window_waits_for_what_the_last_one_left() {
        let (address, count) = queue();
        let load = LoadOptions::parse_from(["load", "http://far/", "--clients", "1"]);
        let fields = Fields { host: "far".to_owned(), ..Fields::default() };
        let requests = Arc::new(Requests::new(&[("/f".to_owned(), None)], &fields));
        let target = Target { address: address.into(), requests, ..target(false) };
        let mut run = LoadRun::new(&load, target, Watched::new(1));
        let work = load.workload(&run.target, load.all_cases()[0], 1, 1);
        run.settle(&work, None, &Texts::new()).unwrap();
        assert_eq!(count.load(Relaxed), 0, "nothing was left");
        run.has_left_requests = true;
        run.settle(&work, None, &Texts::new()).unwrap();
        // The first one shows that the server is busy.
        let requests = count.load(Relaxed);
        assert!((2..=SETTLING_MAX as u32).contains(&requests), "{requests}");
        run.settle(&work, None, &Texts::new()).unwrap();
        assert_eq!(count.load(Relaxed), requests, "once");
    }

    #[test]
    fn duration_below_ten_has_a_digit() {
        let times = [0.0, 0.05, 0.45, 0.9996, 1.5, 3.0, 9.96, 90.0, 119.6, 150.0, 720.0, 12_600.0];
        let words = times.map(duration).join(", ");
        let expected =
            "0 s, 50 ms, 450 ms, 1 s, 1.5 s, 3 s, 10 s, 90 s, 120 s, 2.5 min, 12 min, 3.5 h";
        assert_eq!(words, expected);
    }

    #[test]
    fn others_use_what_the_ends_do_not_on_a_busy_machine() {
        let at = |read_ms: u64, used_ms: u64, idle_ms: u64, own_ms: u64| Times {
            machine: MachineTime { used_ns: used_ms * 1_000_000, idle_ns: idle_ms * 1_000_000 },
            own_ns: own_ms * 1_000_000,
            asked_ns: 0,
            read_ns: read_ms * 1_000_000,
        };
        let begin = at(0, 0, 0, 0);
        let of = |idle_ms| others(begin, at(1_000, 2_000, idle_ms, 700), 800_000_000);
        assert_eq!(of(0), Some(0.5));
        assert_eq!(of(222), Some(0.5));
        assert_eq!(of(223), None, "more than a tenth idle");
        assert_eq!(others(at(0, 5, 0, 0), at(1_000, 4, 0, 0), 0), None, "backwards");
        // Forty requests are done in 3 ms, of which two CPUs of the machine counted 10 each.
        assert_eq!(others(begin, at(3, 20, 0, 1), 0), None, "too short to be counted");
    }
}
