//! network.tcp.rtt and network.udp.rtt: a request and its answer, between this process and a far
//! end.

mod about;
mod model;

use std::net::TcpStream;

use fathom_far::{Far, FarError, ProtocolOutcome, TripEnd, datagram_trip, round_trip};
use fathom_measure::sampler::LOOPBACK;
use fathom_record::Counter;
use rustix::net::sockopt;

use super::ends;
use super::near::{Near, check_cpu, delayed_acknowledgements};
use super::tcp_info::TcpInfo;
use crate::os::child::Switches;
use crate::prelude::*;

pub static TCP_RTT: Rtt = Rtt { transport: Transport::Tcp, about: &about::TCP };
pub static UDP_RTT: Rtt = Rtt { transport: Transport::Udp, about: &about::UDP };

/// Round trips over one transport.
pub struct Rtt {
    transport: Transport,
    about: &'static About,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    Tcp,
    Udp,
}

/// The parsed parameters of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Trip {
    bytes: u32,
    cpus: i64,
    busy: bool,
    to: String,
}

impl Trip {
    fn from_params(params: &Params) -> Option<Self> {
        Some(Self {
            bytes: params.number("bytes")?,
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

metric!(Rtt.about);

impl Probe for Rtt {
    /// Received segments are processed in interrupt context. On one CPU the ends alternate.
    fn expects(&self, case: &ProbeCase) -> Counters {
        match Trip::from_params(&case.params) {
            Some(Trip { cpus: 1, .. }) => Counters::from_counters(&[
                Counter::Preemptions,
                Counter::RunQueue,
                Counter::Interrupts,
            ]),
            Some(Trip { busy: true, .. }) => Counters::from_counters(&[Counter::Interrupts]),
            _ => self.about.expects,
        }
    }

    fn selection(&self, case: &ProbeCase, _: &Host) -> Result<Stratum, NotSelected> {
        match case.params.integer("cpus") {
            Some(1) => Ok(Stratum::ToItself),
            _ => Err(NotSelected::SecondCpu),
        }
    }

    fn cases(&self, _: &Host, sizes: &Sizes) -> Vec<ProbeCase> {
        // In the order in which the models need them.
        let kinds = [(1, 2, true), (1, 1, false), (1, 2, false)];
        let kinds = kinds.into_iter().chain([(56, 2, true), (56, 1, false), (56, 2, false)]);
        let is_quick = |kind: &(u32, i64, bool)| match self.transport {
            Transport::Tcp => *kind != (56, 2, true),
            Transport::Udp => !kind.2 && *kind != (56, 1, false),
        };
        let case = |(bytes, cpus, busy)| {
            let to = LOOPBACK.to_owned();
            let cost_ns = if self.transport == Transport::Udp { 25e6 } else { 10e6 };
            ProbeCase { params: Trip { bytes, cpus, busy, to }.params(), cost_ns }
        };
        let is_all = sizes.effort != Effort::Quick;
        kinds.filter(|kind| is_all || is_quick(kind)).map(case).collect()
    }

    fn remote(&self, case: &ProbeCase, to: &str) -> Option<ProbeCase> {
        let trip = Trip::from_params(&case.params).filter(|trip| trip.cpus == 2)?;
        // A round trip of 10 ms is timed singly.
        Some(ProbeCase { params: Trip { to: to.to_owned(), ..trip }.params(), cost_ns: 100e6 })
    }

    fn predict(&self, case: &ProbeCase, _: &Host, known: &Inputs<'_>) -> Model {
        let trip = parsed(&case.params, Trip::from_params)?;
        model::predict(self.transport, self.about.id, trip, known)
    }

    fn visit(&self, cases: &[ProbeCase], sampler: &mut Sampler) -> Result<()> {
        each_parsed(cases, sampler, Trip::from_params, |index, trip, sampler| {
            self.measure(index, &trip, sampler)
        })
    }
}

impl Rtt {
    fn measure(&self, case: usize, trip: &Trip, sampler: &mut Sampler) -> Result<()> {
        let place = sampler.resources().far_end(&trip.to)?;
        let (bytes, busy) = (trip.bytes, trip.busy);
        let work = match self.transport {
            Transport::Tcp => fathom_far::ProtocolWork::Echo { bytes, busy },
            Transport::Udp => fathom_far::ProtocolWork::UdpEcho { bytes, busy },
        };
        let (far, mut connections) = ends::open(work, &place, trip.cpus, sampler)?;
        let visit = RttVisit { case, trip, far, data: connections.remove(0) };
        match self.transport {
            Transport::Tcp => visit.over_tcp(place.address.is_some(), sampler),
            Transport::Udp => visit.over_udp(sampler),
        }
    }
}

/// One case with its far end and its data connection.
struct RttVisit<'t> {
    case: usize,
    trip: &'t Trip,
    far: Far,
    data: TcpStream,
}

impl RttVisit<'_> {
    fn over_tcp(self, is_remote: bool, sampler: &mut Sampler) -> Result<()> {
        let (case, busy) = (self.case, self.trip.busy);
        let data = self.data.try_clone().map_err(|error| SamplerFault::system("dup", error))?;
        let mut near = over(&data, self.trip.bytes as usize, busy);
        let near_control = sockopt::tcp_congestion(&data).unwrap_or_default();
        let first = TcpInfo::from_socket(&data);
        let own = self.switches(&mut near, sampler)?;
        let last = TcpInfo::from_socket(&data);
        let trips = (near.trips, near.lost);
        drop(near);
        drop(data);
        let far_control = self.finish(trips, own, sampler)?;
        let both = format!("near {near_control}, far {far_control}");
        sampler.check(case, "tcp congestion", near_control == far_control || is_remote, both);
        if let Some((first, last)) = first.zip(last) {
            let facts = last.facts(&first, [&near_control, &far_control]);
            facts.into_iter().for_each(|fact| sampler.state(case, fact));
        }
        check_acknowledgements(case, last.map_or(0.0, |last| last.min_rtt_ns), sampler);
        Ok(())
    }

    fn over_udp(self, sampler: &mut Sampler) -> Result<()> {
        let (case, busy) = (self.case, self.trip.busy);
        let bytes = self.trip.bytes as usize;
        let socket = self.far.datagrams(&self.data);
        let socket = socket.map_err(|error| ends::fault(&self.trip.to, error))?;
        // One more: a longer datagram is not the answer.
        let mut answer = vec![0; bytes + 1];
        let mut near =
            Near::new(bytes, |request| datagram_trip(&socket, request, &mut answer, busy));
        let own = self.switches(&mut near, sampler)?;
        near.check_losses(case, sampler);
        let trips = (near.trips, near.lost);
        self.finish(trips, own, sampler).map(drop)
    }

    /// Makes the round trips. Returns the context switches of this end.
    fn switches<F>(&self, near: &mut Near<F>, sampler: &mut Sampler) -> Result<Switches>
    where
        F: FnMut(&[u8]) -> Result<TripEnd, FarError>,
    {
        let before = Switches::of_this_thread();
        near.run(self.case, sampler);
        let own = Switches::of_this_thread().since(&before);
        match near.fault(&self.trip.to) {
            // The reason why the sampler counted too few.
            Some(fault) => {
                sampler.explain(self.case, fault.clone());
                Err(fault)
            }
            None => Ok(own),
        }
    }

    /// Ends the work and checks it. Returns the far end's congestion control.
    fn finish(self, trips: (u64, u64), own: Switches, sampler: &mut Sampler) -> Result<String> {
        let Self { case, trip, far, data } = self;
        drop(data);
        let outcome = far.finish().map_err(|error| ends::fault(&trip.to, error))?;
        check(case, trip, trips, own, &outcome, sampler);
        sampler.keep_far_end(case, outcome.far);
        Ok(outcome.congestion)
    }
}

/// The near end of a connection.
fn over(
    data: &TcpStream,
    bytes: usize,
    busy: bool,
) -> Near<impl FnMut(&[u8]) -> Result<TripEnd, FarError>> {
    let mut answer = vec![0; bytes];
    Near::new(bytes, move |request| {
        let is_right = round_trip(data, request, &mut answer, busy)?;
        Ok(if is_right { TripEnd::Answered } else { TripEnd::Wrong })
    })
}

fn check_acknowledgements(case: usize, min_rtt_ns: f64, sampler: &mut Sampler) {
    let Some(timings) = sampler.timings(case) else { return };
    let share = delayed_acknowledgements(timings, min_rtt_ns);
    let text = share.map_or("none delayed by about 40 ms".to_owned(), |share| {
        format!("about 40 ms in {:.0} % of round trips: a delayed acknowledgement", share * 100.0)
    });
    sampler.check(case, "acknowledgements", share.is_none(), text);
}

/// Minimum share of trips at which an end slept, on one CPU and on two; see os.wake.cross_cpu.
const ASLEEP_MIN: [f64; 2] = [0.98, 0.90];
/// Maximum share at which a polling end slept, and switches beside the trips.
const ASLEEP_MAX: f64 = 0.02;
const EXTRA_SWITCHES: f64 = 16.0;

fn check(
    case: usize,
    trip: &Trip,
    (trips, lost): (u64, u64),
    own: Switches,
    outcome: &ProtocolOutcome,
    sampler: &mut Sampler,
) {
    let counts = format!("near {trips}, far {}; each answer is its request", outcome.count);
    // A request or its answer was lost.
    let is_right = (trips..=trips + lost).contains(&outcome.count);
    sampler.check(case, "round trips", is_right, counts);
    let counted = &outcome.far.disturbance;
    let far = Switches {
        voluntary: counted.voluntary_switches,
        involuntary: counted.involuntary_switches,
    };
    let of = |end: Switches| format!("{} + {}", end.voluntary, end.involuntary);
    let switches = format!(
        "near {}, far {} in {trips} round trips (voluntary + involuntary)",
        of(own),
        of(far)
    );
    let passed = [own, far].iter().all(|end| match trip.busy {
        true => end.voluntary as f64 <= ASLEEP_MAX * trips as f64 + EXTRA_SWITCHES,
        false => end.total() as f64 >= ASLEEP_MIN[usize::from(trip.cpus == 2)] * trips as f64,
    });
    let name = if trip.busy { "awake" } else { "asleep when woken" };
    sampler.condition(case, name, passed, switches);
    check_cpu(case, sampler);
}

#[cfg(test)]
mod tests;
