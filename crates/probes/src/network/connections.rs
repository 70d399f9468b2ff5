//! Connections to a far end, made and closed one by one: what the metrics of connecting and of
//! closing share.

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Duration;

use fathom_far::{ACCEPTED, CLOSED, Far, ProtocolClosing};
use fathom_http::{ConnectError, Connector};
use fathom_measure::clock::monotonic_raw_ns;
use fathom_measure::sampler::LOOPBACK;
use fathom_record::Histogram;
use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{RecvFlags, Shutdown, SocketFlags, connect, recv, shutdown};

use super::ends;
use super::near::check_cpu;
use super::ports::{self, Ports};
use super::tcp_info::TcpInfo;
use crate::prelude::*;

/// What of a connection is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timed {
    Connect,
    CloseFin,
    CloseReset,
    /// From shutdown(2) to the end of the FIN exchange.
    Teardown,
}

/// A metric of one part of a connection.
pub struct ConnectionMetric {
    pub(super) timed: Timed,
    pub(super) about: &'static About,
    pub(super) predict: fn(&ProbeCase, &Inputs<'_>) -> Model,
}

metric!(ConnectionMetric.about);

impl Probe for ConnectionMetric {
    fn cases(&self, _: &Host, sizes: &Sizes) -> Vec<ProbeCase> {
        match (self.timed, sizes.effort) {
            (Timed::CloseReset, Effort::Quick) => Vec::new(),
            _ => vec![ProbeCase { params: Params::one("to", LOOPBACK), cost_ns: 30e6 }],
        }
    }

    fn remote(&self, _: &ProbeCase, to: &str) -> Option<ProbeCase> {
        Some(ProbeCase { params: Params::one("to", to), cost_ns: 400e6 })
    }

    fn predict(&self, case: &ProbeCase, _: &Host, known: &Inputs<'_>) -> Model {
        (self.predict)(case, known)
    }

    fn visit(&self, cases: &[ProbeCase], sampler: &mut Sampler) -> Result<()> {
        let parse = |params: &Params| to(params).map(str::to_owned);
        each_parsed(cases, sampler, parse, |index, to, sampler| {
            measure(self.timed, index, &to, sampler)
        })
    }
}

/// A wait for the other end, at most: a lost SYN is sent again after 1, 3 and 7 s.
const WAIT: Duration = Duration::from_secs(5);
/// Connections of one value on this host, and to another, whose round trips make it long.
const BATCH: u64 = 16;
const BATCH_REMOTE: u64 = 1;
/// Before a timed call: until then the far end on this host sleeps in poll(2).
const SETTLE_NS: f64 = 20_000.0;

const ESTABLISHED: u8 = 1;
const TIME_WAIT: u8 = 6;
const CLOSE: u8 = 7;

pub(super) const TO: Parameter = Parameter::new(
    "to",
    "loopback, remote",
    "the far end is on this host · on another, by whose name it is recorded",
);

/// The far end of a case.
pub(super) fn to(params: &Params) -> Option<&str> {
    params.text("to")
}

/// A round trip to the same far end, as a term of a model.
pub(super) fn rtt(to: &str, mode: &str, bytes: i64) -> Params {
    Params::one("bytes", bytes).and("cpus", 2).and("mode", mode).and("to", to)
}

pub(super) fn wake<'a>() -> Term<'a> {
    let params = Params::one("via", "futex");
    Term::once("os.wake.cross_cpu", params)
}

fn measure(timed: Timed, case: usize, to: &str, sampler: &mut Sampler) -> Result<()> {
    let mut near = ConnectionNear::open(timed, to, sampler)?;
    let before = ports::time_waits();
    let timings = RefCell::new(Histogram::new());
    let operation = |clock: &Clock| near.value(clock, &mut timings.borrow_mut());
    let batch = if to == LOOPBACK { BATCH } else { BATCH_REMOTE };
    sampler.run(vec![single(case, batch, operation).timed(&timings)]);
    near.report(case, before, sampler)
}

/// The near end of all connections of a case.
struct ConnectionNear {
    timed: Timed,
    to: String,
    far: Far,
    /// By which the far end reports what it has done.
    data: TcpStream,
    target: SocketAddr,
    bind: Option<IpAddr>,
    is_here: bool,
    ports: Ports,
    made: u64,
    /// Voluntary context switches within connect(2).
    slept: u64,
    /// Of the latest connection, once it was accepted.
    info: Option<TcpInfo>,
}

impl ConnectionNear {
    fn open(timed: Timed, to: &str, sampler: &mut Sampler) -> Result<Self> {
        let place = sampler.resources().far_end(to)?;
        // The end that closes first gets the TIME_WAIT, unless the other one answers by RST.
        let closing =
            if timed == Timed::CloseFin { ProtocolClosing::Reset } else { ProtocolClosing::Back };
        let (far, mut data) =
            ends::open(fathom_far::ProtocolWork::Accept { closing }, &place, 2, sampler)?;
        let data =
            data.pop().ok_or_else(|| SamplerFault::Failed("no data connection".to_owned()))?;
        data.set_read_timeout(Some(WAIT)).map_err(|error| failed(to, "SO_RCVTIMEO", error))?;
        let target = far.listens_at();
        let target = target.ok_or_else(|| SamplerFault::Failed("no listening port".to_owned()))?;
        let (is_here, bind) = (place.address.is_none(), place.bind);
        let ports = Ports::of_a_visit();
        let to = to.to_owned();
        let (made, slept, info) = (0, 0, None);
        Ok(Self { timed, to, far, data, target, bind, is_here, ports, made, slept, info })
    }

    /// Makes the connections of one value.
    fn value(&mut self, clock: &Clock, timings: &mut Histogram) -> Result<f64> {
        let batch = if self.is_here { BATCH } else { BATCH_REMOTE };
        let mut all_ns = 0.0;
        for _ in 0..batch {
            let ns = self.once(clock)?;
            timings.add(ns);
            all_ns += ns;
        }
        Ok(all_ns / batch as f64)
    }

    /// Makes and closes a connection. Nanoseconds of the timed part.
    fn once(&mut self, clock: &Clock) -> Result<f64> {
        self.ports.take()?;
        let is_reset = matches!(self.timed, Timed::Connect | Timed::CloseReset);
        let socket = socket(self.target, self.bind, is_reset, WAIT)?;
        settle(clock);
        let switches = thread_usage().ru_nvcsw;
        let start = clock.start();
        let connected = connect(&socket, &self.target);
        let connect_ns = clock.ns(start, clock.stop());
        self.slept += (thread_usage().ru_nvcsw - switches) as u64;
        connected.map_err(|error| self.failed("connect", error))?;
        self.wait_for(ACCEPTED)?;
        self.info = TcpInfo::from_socket(&socket);
        let ns = match self.timed {
            Timed::Connect => {
                drop(socket);
                connect_ns
            }
            Timed::CloseFin | Timed::CloseReset => {
                settle(clock);
                let closing = clock.start();
                drop(socket);
                clock.ns(closing, clock.stop())
            }
            Timed::Teardown => {
                settle(clock);
                tear_down(&socket, clock)?
            }
        };
        self.wait_for(CLOSED)?;
        self.made += 1;
        Ok(ns)
    }

    /// Polls for the report of a far end on this host, so that this end does not sleep.
    fn wait_for(&self, expected: u8) -> Result<()> {
        let until_ns = monotonic_raw_ns() + WAIT.as_nanos() as u64;
        let flags = if self.is_here { RecvFlags::DONTWAIT } else { RecvFlags::empty() };
        let mut report = [0];
        loop {
            match recv(&self.data, &mut report, flags) {
                Ok((1, _)) if report[0] == expected => return Ok(()),
                Ok((0, _)) => return Err(ends::fault(&self.to, fathom_far::FarError::Closed)),
                Ok(_) => {
                    return Err(SamplerFault::WrongWork("reports in another order".to_owned()));
                }
                Err(Errno::AGAIN | Errno::INTR) if monotonic_raw_ns() < until_ns => {}
                Err(error) => return Err(self.failed("wait for the far end", error)),
            }
        }
    }

    fn failed(&self, call: &'static str, error: Errno) -> SamplerFault {
        failed(&self.to, call, timed_out(error))
    }

    fn report(self, case: usize, before: Option<u64>, sampler: &mut Sampler) -> Result<()> {
        let Self { to, far, data, made, slept, info, is_here, timed, .. } = self;
        let control = sockopt::tcp_congestion(&data).unwrap_or_default();
        drop(data);
        let outcome = far.finish().map_err(|error| ends::fault(&to, error))?;
        let counts = format!("near {made}, far {}", outcome.count);
        sampler.check(case, "connections", made == outcome.count, counts);
        if timed == Timed::Connect && is_here {
            let text = format!("{slept} voluntary context switches in {made} calls of connect");
            sampler.check(case, "awake", slept == 0, text);
        }
        check_cpu(case, sampler);
        let names = ["TIME_WAIT sockets before", "TIME_WAIT sockets after"];
        for (name, count) in names.into_iter().zip([before, ports::time_waits()]) {
            if let Some(count) = count {
                sampler.state(case, Fact::quantity(name, count as f64, Unit::Ratio));
            }
        }
        let facts = info.map(|info| info.facts(&info, [&control, &outcome.congestion]));
        // Nothing is sent, so that the window stays.
        let facts = facts.into_iter().flatten().filter(|fact| !fact.name.starts_with("final"));
        facts.for_each(|fact| sampler.state(case, fact));
        sampler.keep_far_end(case, outcome.far);
        Ok(())
    }
}

/// A socket whose calls end within `wait`. `is_reset`: closing it sends RST, which leaves no
/// TIME_WAIT.
/// `bind`: the source address, if not the kernel's choice.
pub(super) fn socket(
    target: SocketAddr,
    bind: Option<IpAddr>,
    is_reset: bool,
    wait: Duration,
) -> Result<OwnedFd> {
    let connector = Connector { from: bind, resets: is_reset, ..Connector::default() };
    let set = connector.socket(target, SocketFlags::empty()).and_then(|socket| {
        // It limits connect(2), too.
        let set = sockopt::set_socket_timeout(&socket, Timeout::Send, Some(wait));
        set.map_err(ConnectError::Socket).map(|()| socket)
    });
    set.map_err(|error| SamplerFault::system("socket", error.errno()))
}

/// From shutdown(2) until both directions are closed: the kernel then keeps the connection in
/// TIME_WAIT, and shows its socket as closed.
fn tear_down(socket: &OwnedFd, clock: &Clock) -> Result<f64> {
    let state = || TcpInfo::from_socket(socket).map(|info| info.state);
    match state() {
        Some(ESTABLISHED) => {}
        Some(_) => return Err(SamplerFault::WrongWork("the far end closed first".to_owned())),
        None => {
            return Err(SamplerFault::unavailable("TCP_INFO is too short", Remedy::kernel("4.10")));
        }
    }
    let until_ns = monotonic_raw_ns() + WAIT.as_nanos() as u64;
    let start = clock.start();
    shutdown(socket, Shutdown::Write).map_err(|error| SamplerFault::system("shutdown", error))?;
    loop {
        match state() {
            Some(TIME_WAIT | CLOSE) => return Ok(clock.ns(start, clock.stop())),
            _ if monotonic_raw_ns() > until_ns => {
                let text = format!("no FIN of the far end within {} s", WAIT.as_secs());
                return Err(SamplerFault::Failed(text));
            }
            _ => {}
        }
    }
}

fn settle(clock: &Clock) {
    let start = clock.start();
    while clock.ns(start, clock.stop()) < SETTLE_NS {
        std::hint::spin_loop();
    }
}

/// A connect(2) that ran into its limit says EINPROGRESS.
pub(super) fn timed_out(error: Errno) -> std::io::Error {
    match error {
        Errno::INPROGRESS | Errno::AGAIN => Errno::TIMEDOUT.into(),
        error => error.into(),
    }
}

fn failed(to: &str, call: &'static str, error: std::io::Error) -> SamplerFault {
    ends::fault(to, fathom_far::FarError::System { call, error })
}

#[cfg(test)]
mod tests;
