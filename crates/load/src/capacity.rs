//! What network, disk, server CPU and client can give to this work, measured before the load.
//!
//! Each is a rate in bytes per second: of a source that sends from memory over the same kind of
//! sockets, of direct reads within the server's process, and of CPU times per request of warm
//! files, divided among the CPUs that either end may use.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use fathom_analysis::load::{BUSY, Resource};
use fathom_metric::{ProcedureError, Recorder};
use fathom_record::{LoadSlot, LoadWindow, ServerUse};

use crate::capacities::{Capacities, Rate};
use crate::engine::{Body, EngineChoice, Pause, Timing, Workload};
use crate::options::LoadOptions;
use crate::requests::Requests;
use crate::run::{LoadRun, duration};

/// Connections of a measurement: enough that none of them is the limit.
const CONNECTIONS: u32 = 8;
/// Bodies of the source: long ones, beside which a request costs little, but on a slow network
/// short ones, of which it completes many. Bytes in socket buffers are then few, too.
const SOURCE_BYTES: [u64; 2] = [128 << 10, 16 << 10];
/// Long bodies in the time, at least.
const COMPLETIONS_MIN: u64 = 400;
const TIME_NS: [u64; 2] = [300_000_000, 3_000_000_000];
/// A quota gives bytes of a disk in slices of 100 ms: in a shorter time their scatter hides the
/// rate.
const DISK_NS: u64 = TIME_NS[1];
/// Warm files.
const FILES_MAX: usize = 16;
const BYTES_MAX: u64 = 64 << 20;
/// Congestion controls that do not pace.
const UNPACED: [&str; 2] = ["cubic", "reno"];

/// How long the measurements take, warm-up left out.
pub fn planned_ns(load: &LoadOptions) -> u64 {
    // Network, perhaps once more with short bodies or unpaced, disk, and warm files.
    3 * time_ns(load) + DISK_NS
}

fn time_ns(load: &LoadOptions) -> u64 {
    (load.time.as_nanos() as u64 / 10).clamp(TIME_NS[0], TIME_NS[1])
}

/// Measures all capacities of a server that is `fathom serve`.
pub fn measure(
    run: &mut LoadRun<'_>,
    recorder: &mut dyn Recorder,
) -> Result<Capacities, ProcedureError> {
    let file_bytes = run.target.file_bytes.map(|bytes| bytes as f64);
    let mut all = Capacities { file_bytes, ..Capacities::default() };
    if run.target.control.is_none() {
        return Ok(all);
    }
    let congestion = run.target.congestion.clone().unwrap_or_default();
    let found = source(run, None, recorder)?;
    (all.network, all.network_under) = (found.rate, found.under);
    let over = |found: &CapacitySource, name: &str| {
        let (size, busy) = (found.bytes >> 10, found.under.map(Resource::word));
        let least = busy.map_or(String::new(), |busy| format!(", {busy} busy, so at least that"));
        let how = format!("{CONNECTIONS} connections for {}", duration(found.seconds));
        format!("bodies of {size} KiB from memory over {how}, {name}{least}")
    };
    all.methods.push(("network", over(&found, &congestion)));
    // On loopback both are work of CPUs.
    if congestion.starts_with("bbr")
        && !run.target.is_loopback_path
        && let Some((name, free)) = unpaced(run, recorder)?
        && let Some(rate) = free.rate
        && let Some(paced) = all.network.filter(|paced| paced.is_below(rate))
    {
        all.paced = Some(paced);
        (all.network, all.network_under) = (Some(rate), free.under);
        all.methods[0].1 = over(&free, name);
        all.methods.push(("pacing", over(&found, &congestion)));
    }
    disk(run, &mut all, recorder);
    cpus(run, &mut all, recorder)?;
    Ok(all)
}

/// Whether the measurements were stopped.
fn is_over(recorder: &dyn Recorder) -> bool {
    recorder.stop().now().load(Relaxed)
}

/// The CPU that limited a window, if a client thread may use `client_cpus`.
fn busy_cpu(window: &LoadWindow, client_cpus: f64) -> Option<Resource> {
    let server = window.server.as_ref().and_then(ServerUse::cpu_share);
    let window_ns = window.window_ns as f64 * client_cpus;
    let client = window.threads.iter().map(|thread| thread.cpu_ns as f64 / window_ns);
    let client = client.fold(0.0, f64::max);
    match server {
        Some(server) if server >= BUSY => Some(Resource::ServerCpu),
        _ if client >= BUSY => Some(Resource::Client),
        _ => None,
    }
}

/// Bytes by their arrival: those that the server has handed to its kernel are not on the wire yet.
fn arrivals(window: &LoadWindow) -> Option<Rate> {
    let bytes: Vec<f64> = window.slots.iter().map(|slot| slot.received_bytes as f64).collect();
    Rate::from_bytes(&bytes, window.window_ns as f64 / 1e9 / bytes.len().max(1) as f64)
}

/// What the source gave.
#[derive(Clone, Copy)]
struct CapacitySource {
    rate: Option<Rate>,
    /// Of a body.
    bytes: u64,
    /// The length of the window.
    seconds: f64,
    under: Option<Resource>,
}

fn source(
    run: &mut LoadRun<'_>,
    congestion: Option<&str>,
    recorder: &mut dyn Recorder,
) -> Result<CapacitySource, ProcedureError> {
    let name = congestion.map_or(String::new(), |name| format!("/{name}"));
    let mut found =
        CapacitySource { rate: None, bytes: SOURCE_BYTES[0], seconds: 0.0, under: None };
    let mut time_ns = time_ns(run.load);
    for bytes in SOURCE_BYTES {
        let files = [(format!("/.fathom/source/{bytes}{name}"), Some(bytes))];
        let requests = Requests::new(&files, &run.target.fields);
        let window = window(run, requests, ("network", time_ns), Body::Discard, recorder)?;
        let rate = window.as_ref().and_then(arrivals);
        let client_cpus = run.quota.map_or(1.0, |quota| quota.min(1.0));
        let under = window.as_ref().and_then(|window| busy_cpu(window, client_cpus));
        found = CapacitySource { rate, bytes, seconds: time_ns as f64 / 1e9, under };
        let completed = window.map_or(COMPLETIONS_MIN, |it| it.completed());
        if completed >= COMPLETIONS_MIN {
            break;
        }
        // Until as many short ones are complete.
        let short = completed.max(1) * (SOURCE_BYTES[0] / SOURCE_BYTES[1]);
        let needed_ns = (time_ns as f64 * COMPLETIONS_MIN as f64 / short as f64) as u64;
        time_ns = needed_ns.clamp(time_ns, TIME_NS[1]);
    }
    Ok(found)
}

/// The network without pacing, by the first congestion control that the server has.
fn unpaced(
    run: &mut LoadRun<'_>,
    recorder: &mut dyn Recorder,
) -> Result<Option<(&'static str, CapacitySource)>, ProcedureError> {
    for name in UNPACED {
        let Some(control) = &mut run.target.control else { break };
        let known = control.ask("GET", &format!("/.fathom/source/1/{name}"), 16);
        // The connection keeps the congestion control.
        control.reconnect();
        if known.is_ok_and(|answer| answer.status == 200) {
            return Ok(Some((name, source(run, Some(name), recorder)?)));
        }
    }
    Ok(None)
}

fn disk(run: &mut LoadRun<'_>, all: &mut Capacities, recorder: &mut dyn Recorder) {
    if is_over(recorder) {
        return;
    }
    run.progress(recorder, "capacity of the disk", 0);
    let Some(control) = &mut run.target.control else { return };
    let read = control.read_disk(DISK_NS / 1_000_000);
    run.done_ns += DISK_NS;
    all.disk = match read {
        Err(error) => Some(Err(error.to_string())),
        Ok(read) => Some(match read.unavailable {
            Some(why) => Err(why),
            None => {
                let slots: Vec<f64> = read.slots.iter().map(|&bytes| bytes as f64).collect();
                let rate = Rate::from_bytes(&slots, read.slot_ns as f64 / 1e9);
                rate.ok_or_else(|| "no bytes in the time".to_owned())
            }
        }),
    };
    let text = "direct reads of the same files, in random order, in the server's process";
    all.methods.push(("disk", text.to_owned()));
}

/// CPU time per request of warm files, or from memory where a file is evicted after each response.
fn cpus(
    run: &mut LoadRun<'_>,
    all: &mut Capacities,
    recorder: &mut dyn Recorder,
) -> Result<(), ProcedureError> {
    let target = &run.target;
    let bytes = target.file_bytes.unwrap_or(0);
    let (requests, what) = if target.is_cold {
        let source = [(format!("/.fathom/source/{bytes}"), Some(bytes))];
        (Requests::new(&source, &target.fields), "bytes from memory")
    } else {
        (target.requests.first(FILES_MAX, BYTES_MAX), "warm files")
    };
    let threads = run.load.client_threads(target, CONNECTIONS);
    let of = ("server CPU", time_ns(run.load));
    let Some(window) = window(run, requests, of, run.load.body.into(), recorder)? else {
        return Ok(());
    };
    all.add_cpus(window, what, (threads, run.quota));
    Ok(())
}

impl Capacities {
    /// From a window with requests for `what`, of a client with these threads and CPUs.
    fn add_cpus(&mut self, window: LoadWindow, what: &str, (threads, quota): (u32, Option<f64>)) {
        let completed = window.completed() as f64;
        if completed == 0.0 {
            return;
        }
        // By bytes, of which those of incomplete responses count. Divided by the complete ones they
        // would be off by one of each connection: only heads are, which are short.
        let sum = |of: fn(&LoadSlot) -> u64| window.slots.iter().map(of).sum::<u64>();
        let wire = Some(sum(|slot| slot.received_bytes)).filter(|&it| it > 0);
        let request_bytes = wire.map(|wire| match self.file_bytes {
            Some(bytes) => {
                bytes + wire.saturating_sub(sum(|slot| slot.body_bytes)) as f64 / completed
            }
            None => wire as f64 / completed,
        });
        let completed = wire.zip(request_bytes).map_or(completed, |(sum, one)| sum as f64 / one);
        let client_ns: u64 = window.threads.iter().map(|thread| thread.cpu_ns).sum();
        self.client_ns = Some(client_ns as f64 / completed);
        self.client_cpus = quota.map_or(f64::from(threads), |quota| quota.min(f64::from(threads)));
        // At a low utilisation wake-ups dominate, and the capacity is higher than this.
        let window_ns = window.window_ns as f64;
        let per_request = |ns: f64, cpus: f64| {
            let used = 100.0 * ns / window_ns / cpus;
            let unit = if cpus == 1.0 { "CPU" } else { "CPUs" };
            let least = if used < 50.0 { ", so at least that" } else { "" };
            let us = ns / completed / 1e3;
            format!("{what}: {us:.1} µs per request of {cpus} {unit}, {used:.0} % in use{least}")
        };
        self.methods.push(("client", per_request(client_ns as f64, self.client_cpus)));
        if let Some(server) = window.server.filter(|server| server.cpus > 0.0) {
            self.server_ns = Some(server.cpu_ns as f64 / completed);
            self.server_cpus = server.cpus.min(server.reactors as f64);
            self.request_bytes = request_bytes;
            self.methods.push(("server-cpu", per_request(server.cpu_ns as f64, self.server_cpus)));
        }
    }
}

fn window(
    run: &mut LoadRun<'_>,
    requests: Requests,
    (of, time_ns): (&str, u64),
    body: Body,
    recorder: &mut dyn Recorder,
) -> Result<Option<LoadWindow>, ProcedureError> {
    if is_over(recorder) {
        return Ok(None);
    }
    let case = crate::options::LoadVariant {
        choice: EngineChoice::Random,
        think: std::time::Duration::ZERO,
    };
    let work = Workload {
        requests: Arc::new(requests),
        pause: Pause::NONE,
        fresh: false,
        body,
        ..run.load.workload(&run.target, case, CONNECTIONS, run.load.seed)
    };
    let timing = Timing::with_window(time_ns, None);
    let what = format!("capacity of the {of}");
    let outcome = run.window(&work, timing, &what, recorder)?;
    let is_whole = outcome.end == crate::engine::End::Complete;
    Ok(is_whole.then_some(outcome.tally.window))
}

#[cfg(test)]
mod tests {
    use fathom_analysis::load::SLOTS;
    use fathom_record::{Fact, LoadThread, Params, Unit};

    use super::*;
    use crate::figures::LoadTelemetry;
    use crate::fixture;
    use crate::metrics;
    use crate::used::between;

    #[test]
    fn rate_is_below_one_that_is_clearly_higher() {
        let at = |bytes_s, half| Rate { bytes_s, half };
        assert!(at(100.0, 0.0).is_below(at(126.0, 0.0)));
        assert!(!at(100.0, 0.0).is_below(at(125.0, 0.0)), "a quarter more is not enough");
        // 110 and 135; 110 and 105.
        assert!(at(100.0, 0.1).is_below(at(150.0, 0.1)));
        assert!(!at(100.0, 0.1).is_below(at(150.0, 0.3)), "their intervals overlap");
        assert!(!at(100.0, 0.6).is_below(at(150.0, 0.0)));
    }

    #[test]
    fn rate_is_all_bytes_by_all_time() {
        let rate = Rate::from_bytes(&[10.0, 30.0], 0.5).expect("a rate");
        assert!((rate.bytes_s - 40.0).abs() < 1e-9);
        // Student's t of one degree of freedom, 12.706 × 14.142 ÷ √2, by the mean of 20.
        assert!((rate.half - 6.353).abs() < 1e-3, "{}", rate.half);
        assert_eq!(Rate::from_bytes(&[0.0, 0.0], 1.0), None);
        assert_eq!(Rate::from_bytes(&[], 1.0), None);
    }

    #[test]
    fn cpu_that_limits_is_of_its_share() {
        let of = |cpu_ns: u64, server: Option<u64>| {
            let threads = vec![LoadThread { cpu_ns, wait_ns: 0, wall_ns: 1_000 }];
            let at = |at_ns, cpu_ns| LoadTelemetry {
                at_ns,
                cpu_ns,
                cpus: Some(1.0),
                threads: Some(1),
                ..LoadTelemetry::default()
            };
            let server = server.map(|ns| between(&at(0, 0), &at(1_000, ns)));
            // A thread that may use half a CPU.
            let window = LoadWindow { window_ns: 1_000, threads, server, ..LoadWindow::default() };
            busy_cpu(&window, 0.5)
        };
        assert_eq!(of(499, None), Some(Resource::Client));
        assert_eq!(of(250, Some(10)), None);
        assert_eq!(of(499, Some(999)), Some(Resource::ServerCpu));
    }

    #[test]
    fn cpu_time_of_a_request_is_by_completed_bytes() {
        let of = |counts, partial: Option<u64>, known: Option<f64>, (threads, quota)| {
            let server = Some(between(&fixture::telemetry(0), &fixture::telemetry(1)));
            let mut all = Capacities { file_bytes: known, ..Capacities::default() };
            let window = fixture::outcome(counts, 1e6).tally.window;
            let mut window = LoadWindow { server, ..window };
            let of_wire = |slot: &mut LoadSlot| slot.received_bytes *= partial.map_or(0, |_| 1);
            window.slots.iter_mut().for_each(of_wire);
            window.slots[0].received_bytes += partial.unwrap_or(0);
            window.slots[0].body_bytes += partial.unwrap_or(0);
            all.add_cpus(window, "warm files", (threads, quota));
            let bytes = all.request_bytes;
            let numbers = [all.server_ns, all.client_ns, bytes].map(|it| it.map(f64::round));
            let methods = all.methods.into_iter().map(|(of, how)| format!("{of}: {how}"));
            (numbers, [all.server_cpus, all.client_cpus], methods.collect::<Vec<_>>())
        };
        // 500 ms of the server and 250 ms of the client, within 1.25 s.
        let (numbers, cpus, methods) = of([15; SLOTS], Some(0), Some(64e3), (2, None));
        let per_request = [500e6 / 150.0, 250e6 / 150.0].map(|ns: f64| Some(ns.round()));
        assert_eq!(numbers, [per_request[0], per_request[1], Some(66_000.0)]);
        assert_eq!(cpus, [2.0, 2.0], "of four CPUs two reactors");
        let expected = [
            "client: warm files: 1666.7 µs per request of 2 CPUs, 10 % in use, so at least that",
            "server-cpu: warm files: 3333.3 µs per request of 2 CPUs, 20 % in use, so at least \
             that",
        ];
        assert_eq!(methods, expected);
        // One and a half more arrived that were not complete.
        let (numbers, cpus, methods) = of([5; SLOTS], Some(96_000), Some(64e3), (1, Some(0.25)));
        let completed = 50.0 + 96.0 / 66.0;
        let per_request = [500e6 / completed, 250e6 / completed].map(|ns: f64| Some(ns.round()));
        assert_eq!(numbers, [per_request[0], per_request[1], Some(66_000.0)]);
        assert_eq!(
            (cpus, &methods[0][..]),
            ([2.0, 0.25], "client: warm files: 4858.7 µs per request of 0.25 CPUs, 80 % in use")
        );
        // Nothing on the wire is not measured.
        let (numbers, ..) = of([15; SLOTS], None, Some(64e3), (2, None));
        assert_eq!((numbers[0], numbers[2]), (Some((500e6_f64 / 150.0).round()), None));
        assert_eq!(of([0; SLOTS], Some(5), None, (1, None)).0, [None; 3]);
    }

    #[test]
    fn record_of_a_capacity_has_its_rate_and_its_method() {
        let all = Capacities {
            network: Some(Rate { bytes_s: 1e6, half: 0.1 }),
            client_ns: Some(1e6),
            client_cpus: 1.0,
            request_bytes: Some(1_000.0),
            file_bytes: Some(800.0),
            disk: Some(Ok(Rate { bytes_s: 4e6, half: 0.0 })),
            methods: vec![("network", "by 8 connections".to_owned())],
            ..Capacities::default()
        };
        let measured = all.measured(&Params::one("to", "far"));
        let of = |at: usize| &measured[at];
        assert_eq!(of(0).metric, metrics::CAPACITY.0.id);
        assert_eq!(of(0).params, Params::one("to", "far").and("of", "network"));
        assert_eq!((&of(0).values[..], &of(2).values[..]), (&[1e6][..], &[1e6][..]));
        // A disk reads no heads.
        let requests = [1_000.0, 5_000.0, 1_000.0];
        for (one, rate) in measured.iter().zip(requests) {
            assert_eq!(one.facts[0], Fact::quantity("requests", rate, Unit::PerSecond));
        }
        let (value, interval) = of(0).headline.expect("a number");
        let limits = interval.map(|interval| (interval.low, interval.high));
        assert_eq!((value, limits), (1e6, Some((9e5, 1.1e6))));
        assert_eq!(of(1).headline.map(|(_, interval)| interval), Some(None));
        assert!(of(0).verdict.is_some());
        let facts = |at: usize| of(at).facts.iter().map(|it| it.name.clone()).collect::<Vec<_>>();
        assert_eq!(
            (facts(0), facts(1)),
            (vec!["requests".to_owned(), "method".to_owned()], vec!["requests".to_owned()])
        );
    }

    #[test]
    fn cpu_capacity_is_cpus_by_time_per_request() {
        let all = Capacities {
            server_ns: Some(1e6),
            server_cpus: 0.5,
            request_bytes: Some(1_000.0),
            ..Capacities::default()
        };
        let rates = all.rates();
        assert_eq!(rates, [("server-cpu", Rate { bytes_s: 500_000.0, half: 0.0 })]);
        assert_eq!(Capacities { server_ns: Some(0.0), ..all }.rates(), [], "no time, no rate");
    }
}
