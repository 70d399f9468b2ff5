//! network.tcp.rtt: a TCP request and its answer, between this process and a far end.

use std::cell::RefCell;
use std::net::TcpStream;

use fathom_far::{FarError, Outcome, round_trip};
use fathom_measure::sampler::LOOPBACK;
use fathom_metric::Far as FarNeed;
use fathom_record::{Counter, Histogram};
use rustix::net::sockopt;

use super::ends;
use crate::prelude::*;

pub struct TcpRtt;

static ABOUT: About = About {
    id: "network.tcp.rtt",
    title: "TCP round trip",
    timed: "a request of this many bytes to the far end over a kept TCP connection, and the same \
            bytes back: send and recv at each end. A full round trip, not half of one. Includes \
            one clock read and one histogram count for each trip, which the percentiles need",
    not_timed: "starting the far end, connecting, the control connection; the C library's \
                wrappers: the system calls are inlined",
    model: "mode=busy a bound: four calls that move bytes, ≥ 4 × os.syscall{call=getppid}. \
            mode=block, cpus=1 a bound: ≥ os.unix.rtt{kind=stream}, since TCP does more for each \
            byte. mode=block, cpus=2 a value: mode=busy + 2 × os.wake.cross_cpu{via=futex}. \
            bytes=56 a value: bytes=1, since both are one segment. To another host a bound: ≥ 2 × \
            os.syscall{call=getppid}, the calls of the near end",
    source: "Linux net/ipv4/tcp_input.c and tcp_output.c; on loopback the sender's call runs the \
             receiver's protocol work (net/core/dev.c, process_backlog)",
    pitfalls: &[
        "placement decides: on one CPU a trip has two context switches, on two CPUs two wake-ups \
         of an idle CPU, in a guest several times as long. Both ends are pinned, and cpus is a \
         parameter",
        "a far end that is a thread would share the worker's counters: it is a fresh process for \
         each visit, and its counters are in the sample",
        "Nagle's algorithm and delayed acknowledgements can add 40 ms: TCP_NODELAY is set at both \
         ends, and the answer carries the acknowledgement",
        "congestion control may pace even loopback (BBR): the record names that of both ends; a \
         request of one segment is hardly affected",
        "an end that is woken before it sleeps costs no wake-up: the kernel's context switch \
         counts of both ends are compared with the trips, and below 90 % the result is invalid",
    ],
    parameters: &[
        Parameter { name: "bytes", values: "1, 56", meaning: "request and answer; 56 as ping" },
        Parameter {
            name: "cpus",
            values: "1, 2",
            meaning: "both ends on the worker's CPU · each on its own",
        },
        Parameter {
            name: "mode",
            values: "block, busy",
            meaning: "sleep until data arrive · poll for them (cpus=2 only)",
        },
        Parameter {
            name: "to",
            values: "loopback, remote",
            meaning: "the far end is on this host · on another, by whose name it is recorded",
        },
    ],
    needs: &["os.syscall", "os.wake.cross_cpu", "os.unix.rtt"],
    requires: "a loopback interface; two CPUs for cpus=2",
    published: "135 µs on loopback, 2.05 ms between two hosts (2016)",
    expects: Counters::of(&[Counter::NotRunning, Counter::Interrupts]),
    noise_limit: 0.10,
    ..About::BASE
};

/// The parsed parameters of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Trip {
    bytes: u32,
    cpus: i64,
    busy: bool,
    to: String,
}

impl Trip {
    fn of(params: &Params) -> Option<Self> {
        Some(Self {
            bytes: u32::try_from(params.integer("bytes")?).ok()?,
            cpus: params.integer("cpus")?,
            busy: params.text("mode")? == "busy",
            to: params.text("to")?.to_owned(),
        })
    }

    fn params(&self) -> Params {
        let mode = if self.busy { "busy" } else { "block" };
        let sizes = Params::one("bytes", i64::from(self.bytes)).and("cpus", self.cpus);
        sizes.and("mode", mode).and("to", self.to.as_str())
    }
}

impl Probe for TcpRtt {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    /// An adaptive idle governor would carry its state from one case to the other.
    fn cases_share_visits(&self) -> bool {
        false
    }

    fn needs(&self) -> Needs {
        Needs { disk: None, far: Some(FarNeed::Anywhere) }
    }

    /// Received segments are processed in interrupt context. On one CPU the ends alternate.
    fn expects(&self, case: &Case) -> Counters {
        match Trip::of(&case.params) {
            Some(Trip { cpus: 1, .. }) => {
                Counters::of(&[Counter::Preemptions, Counter::RunQueue, Counter::Interrupts])
            }
            Some(Trip { busy: true, .. }) => Counters::of(&[Counter::Interrupts]),
            _ => ABOUT.expects,
        }
    }

    fn selection(&self, case: &Case, _: &Host) -> Result<Stratum, NotSelected> {
        match case.params.integer("cpus") {
            Some(1) => Ok(Stratum::FullSpeed),
            _ => Err(NotSelected::SecondCpu),
        }
    }

    fn cases(&self, _: &Host, _: &Sizes) -> Vec<Case> {
        // In the order in which the models need them.
        let kinds = [(1, 2, true), (1, 1, false), (1, 2, false)];
        let kinds = kinds.into_iter().chain([(56, 2, true), (56, 1, false), (56, 2, false)]);
        let case = |(bytes, cpus, busy)| {
            let to = LOOPBACK.to_owned();
            Case { params: Trip { bytes, cpus, busy, to }.params(), cost_ns: 10e6 }
        };
        kinds.map(case).collect()
    }

    fn remote(&self, case: &Case, to: &str) -> Option<Case> {
        let trip = Trip::of(&case.params).filter(|trip| trip.cpus == 2)?;
        // A round trip of 10 ms is timed singly.
        Some(Case { params: Trip { to: to.to_owned(), ..trip }.params(), cost_ns: 100e6 })
    }

    fn predict(&self, case: &Case, _: &Host, known: &Inputs<'_>) -> Model {
        let trip = parsed(&case.params, Trip::of)?;
        if trip.to != LOOPBACK {
            return at_least_getppid(2.0, "send and recv of the near end", known);
        }
        if trip.bytes != 1 {
            let otherwise = "more than one segment, or a size at which the stack changes its path";
            let source = "both are one segment; the copy of 55 bytes costs nanoseconds";
            let one = Trip { bytes: 1, ..trip }.params();
            return same_as((ABOUT.id, one), 0.15, (source, otherwise), known);
        }
        if trip.busy {
            return at_least_getppid(4.0, "send and recv at each end", known);
        }
        if trip.cpus == 1 {
            let source = "the same calls and switches, plus TCP, IP and the loopback device";
            return at_least("os.unix.rtt", &Params::one("kind", "stream"), source, known);
        }
        let busy = Trip { busy: true, ..trip }.params();
        let sum = Sum {
            terms: &[
                Term { times: 1.0, metric: ABOUT.id, params: busy },
                Term {
                    times: 2.0,
                    metric: "os.wake.cross_cpu",
                    params: Params::one("via", "futex"),
                },
            ],
            tolerance: 0.3,
            source: "the same calls, and each end is woken once",
            otherwise: "the wake-up overlaps the sender's call, or the idle states differ from \
                        those of the wake-up alone",
        };
        sum.predict(known)
    }

    fn visit(&self, cases: &[Case], sampler: &mut Sampler) -> Result<()> {
        each(cases, sampler, |index, case, sampler| {
            let trip = Trip::of(&case.params).ok_or_else(|| crate::unknown_case(&case.params))?;
            measure(index, &trip, sampler)
        })
    }
}

fn measure(case: usize, trip: &Trip, sampler: &mut Sampler) -> Result<()> {
    let place = sampler.resources().far_end(&trip.to)?;
    let work = fathom_far::Work::Echo { bytes: trip.bytes, busy: trip.busy };
    let (far, connections) = ends::open(work, &place, trip.cpus, sampler)?;
    let data = &connections[0];
    let congestion = sockopt::tcp_congestion(data).unwrap_or_default();
    let mut near = Near::new(trip, data);
    let before = Switches::of_this_thread();
    let timings = RefCell::new(Histogram::new());
    let clock = sampler.clock().clone();
    sampler.run(vec![Work::Batched {
        case,
        kernel: Box::new(|trips| near.repeat(trips, &clock, &timings)),
        twin: None,
        per_iteration: 1.0,
        to_unit: |ns| ns,
        timings: Some(&timings),
    }]);
    let own = Switches::of_this_thread().since(before);
    let (trips, error) = (near.trips, near.error.take());
    drop(connections);
    let outcome = far.finish();
    if let Some(error) = error {
        return Err(ends::fault(&trip.to, error));
    }
    let outcome = outcome.map_err(|error| ends::fault(&trip.to, error))?;
    check(case, trip, trips, own, &outcome, sampler);
    let both = format!("near {congestion}, far {}", outcome.congestion);
    let is_same = congestion == outcome.congestion || place.address.is_some();
    sampler.check(case, "tcp congestion", is_same, both);
    sampler.keep_far_end(case, outcome.far);
    Ok(())
}

/// The near end of the connection.
struct Near<'d> {
    data: &'d TcpStream,
    busy: bool,
    request: Vec<u8>,
    answer: Vec<u8>,
    trips: u64,
    error: Option<FarError>,
}

impl<'d> Near<'d> {
    fn new(trip: &Trip, data: &'d TcpStream) -> Self {
        let request = vec![0; trip.bytes as usize];
        let answer = request.clone();
        Self { data, busy: trip.busy, request, answer, trips: 0, error: None }
    }

    /// Makes round trips, each with its own request, and returns how many were right.
    fn repeat(&mut self, trips: u64, clock: &Clock, timings: &RefCell<Histogram>) -> u64 {
        let mut timings = timings.borrow_mut();
        let mut earlier = clock.start();
        for done in 0..trips {
            let first = done as u8;
            self.request.iter_mut().zip(0..).for_each(|(byte, at)| *byte = first.wrapping_add(at));
            match round_trip(self.data, &self.request, &mut self.answer, self.busy) {
                Ok(true) => self.trips += 1,
                Ok(false) => return done,
                Err(error) => {
                    self.error = Some(error);
                    return done;
                }
            }
            // One stamp for each trip: its end is the start of the next.
            let now = clock.stop();
            timings.add(clock.ns(earlier, now));
            earlier = now;
        }
        trips
    }
}

/// Context switches, voluntary and involuntary.
#[derive(Clone, Copy, Debug)]
struct Switches {
    voluntary: u64,
    involuntary: u64,
}

impl Switches {
    fn of_this_thread() -> Self {
        let usage = thread_usage();
        // The kernel's counts are never negative.
        Self { voluntary: usage.ru_nvcsw as u64, involuntary: usage.ru_nivcsw as u64 }
    }

    fn since(self, earlier: Self) -> Self {
        Self {
            voluntary: self.voluntary - earlier.voluntary,
            involuntary: self.involuntary - earlier.involuntary,
        }
    }

    fn total(self) -> f64 {
        (self.voluntary + self.involuntary) as f64
    }
}

/// Minimum share of trips at which an end slept, on one CPU and on two; see os.wake.cross_cpu.
const ASLEEP_MIN: [f64; 2] = [0.98, 0.90];
/// Maximum share at which a polling end slept, and switches beside the trips.
const ASLEEP_MAX: f64 = 0.02;
const EXTRA_SWITCHES: f64 = 16.0;

fn check(
    case: usize,
    trip: &Trip,
    trips: u64,
    own: Switches,
    outcome: &Outcome,
    sampler: &mut Sampler,
) {
    let counts = format!("near {trips}, far {}; each answer is its request", outcome.count);
    sampler.check(case, "round trips", trips == outcome.count, counts);
    let counted = &outcome.far.disturbance;
    let far = Switches {
        voluntary: counted.voluntary_switches,
        involuntary: counted.involuntary_switches,
    };
    let of = |end: Switches| format!("{} + {}", end.voluntary, end.involuntary);
    let counts = format!(
        "near {}, far {} in {trips} round trips (voluntary + involuntary)",
        of(own),
        of(far)
    );
    let passed = [own, far].iter().all(|end| match trip.busy {
        true => end.voluntary as f64 <= ASLEEP_MAX * trips as f64 + EXTRA_SWITCHES,
        false => end.total() >= ASLEEP_MIN[usize::from(trip.cpus == 2)] * trips as f64,
    });
    let name = if trip.busy { "awake" } else { "asleep when woken" };
    sampler.check(case, name, passed, counts);
    let allowed = affinity::allowed();
    let is_pinned = allowed == [sampler.settings().cpu];
    sampler.check(case, "CPU", is_pinned, format!("affinity: {allowed:?}"));
}

#[cfg(test)]
mod tests;
