//! os.pipe.rtt, os.fifo.rtt, os.unix.rtt and os.semaphore.rtt: an IPC round trip between two
//! processes on one CPU.

use rustix::net::SocketType;

use super::link::{Link, pipe, posix, socket, sysv};
use super::ping_pong::{PeerKind, PeerOptions, Ring};
use super::turns::{self, Quantity};
use crate::prelude::*;

pub static PIPE_RTT: RoundTrip =
    RoundTrip { about: &PIPE, parameter: "calls", kinds: &["bare", "libc"] };
pub static FIFO_RTT: RoundTrip = RoundTrip { about: &FIFO, parameter: "", kinds: &[] };
pub static UNIX_RTT: RoundTrip =
    RoundTrip { about: &UNIX, parameter: "kind", kinds: &["stream", "datagram"] };
pub static SEMAPHORE_RTT: RoundTrip =
    RoundTrip { about: &SEMAPHORE, parameter: "kind", kinds: &["sysv", "posix"] };

/// An IPC round trip through one kind of link.
pub struct RoundTrip {
    about: &'static About,
    /// The parameter and its values; empty for a metric without parameter.
    parameter: &'static str,
    kinds: &'static [&'static str],
}

const BASE: About = About {
    timed: "one byte to another process and back, both on the worker's CPU: two writes, two reads, \
            two context switches. A full round trip, not half of one",
    not_timed: "creating the link and the peer process; the C library's wrappers: the system calls \
                are inlined. Nothing is subtracted: os.switch.process has the cost of the switch \
                alone",
    // As for os.switch.process.
    cases_share_visits: false,
    ..super::TURNS
};
const ONE_CPU: &str = "on two CPUs this would be two wake-ups (os.wake.cross_cpu); lmbench, which \
                       pins nothing by default, may measure either. Both processes run on the \
                       worker's CPU, which the peer verifies at its exit";
const COUNTS: &str = "each returned byte is compared, both processes count their turns, and the \
                      kernel's counts of their context switches are compared with the round trips";
const PREEMPTED: &str = "a woken process may preempt its waker, which changes the cost: the record \
                         has the number of involuntary switches";

static PIPE: About = About {
    id: "os.pipe.rtt",
    title: "round trip by pipes",
    not_timed: "creating the link and the peer process; the C library's wrappers (except \
                calls=libc): the system calls are inlined. Nothing is subtracted: \
                os.switch.process has the cost of the switch alone",
    model: "calls=bare a bound: ≥ 2 × os.switch.process{set_bytes=0} + 2 × os.syscall{call=read1} \
            + 2 × os.syscall{call=write1}; the calls of os.syscall are on devices, without a \
            pipe's lock, page and wait queue. calls=libc a value: calls=bare + four function \
            returns, each of which costs os.syscall{call=getppid_called} − \
            os.syscall{call=getppid}. No value for calls=bare: os.switch.process is derived from \
            such a round trip",
    source: "lmbench's lat_pipe (McVoy & Staelin, USENIX 1996, § 6.7); Linux fs/pipe.c",
    pitfalls: &[
        ONE_CPU,
        COUNTS,
        PREEMPTED,
        "on many cores the return from the function around a system call is mispredicted, and \
         costs several times as much after a switch: programs, lmbench and perf bench sched pipe \
         pay that four times a round trip. Compare them with calls=libc",
    ],
    parameters: &[Parameter::new(
        "calls",
        "bare, libc",
        "inlined system calls · the C library's read and write, as programs use",
    )],
    needs: &["os.syscall", "os.switch.process"],
    ..BASE
};

static FIFO: About = About {
    id: "os.fifo.rtt",
    title: "round trip by FIFOs",
    model: "a value: os.pipe.rtt{calls=bare} ± 15 %, since an open FIFO is a pipe",
    source: "lmbench's lat_fifo; Linux fs/pipe.c: the same code once open, except that a FIFO \
             updates its file's timestamps",
    pitfalls: &[
        ONE_CPU,
        COUNTS,
        "a FIFO opened for reading and writing never reports end of file: both ends are opened \
         separately, so that a dead peer is noticed",
        "since Linux 6.15 pipes no longer update timestamps, but FIFOs do; the cost depends on the \
         file system: both FIFOs are in the temporary folder, unlinked once open",
    ],
    needs: &["os.pipe.rtt"],
    requires: "a temporary folder (TMPDIR) that supports FIFOs",
    ..BASE
};

static UNIX: About = About {
    id: "os.unix.rtt",
    title: "round trip by Unix sockets",
    model: "a bound: a socket allocates and frees a buffer for each message, where a pipe keeps \
            its page: ≥ os.pipe.rtt{calls=bare}. The cost of a buffer is known from this metric \
            alone",
    source: "lmbench's lat_unix (McVoy & Staelin, USENIX 1996); Linux net/unix/af_unix.c, \
             unix_stream_sendmsg and unix_dgram_sendmsg: sock_alloc_send_pskb",
    pitfalls: &[
        ONE_CPU,
        COUNTS,
        PREEMPTED,
        "the sockets are an unnamed, connected pair: os.unix.connect measures connecting",
        "a stream's sender sleeps on a wait queue that is also woken when its message is read: \
         spurious wake-ups before the answer are part of the number, and counted",
        "a datagram socket does not report that its peer is gone: a sleeping thread watches the \
         peer process, so that no wait is endless",
    ],
    parameters: &[Parameter::new("kind", "stream, datagram", "SOCK_STREAM · SOCK_DGRAM")],
    needs: &["os.pipe.rtt"],
    ..BASE
};

static SEMAPHORE: About = About {
    id: "os.semaphore.rtt",
    title: "round trip by semaphores",
    timed: "posting the peer process's semaphore and waiting for one's own, which the peer posts, \
            both on the worker's CPU: two posts, two waits, two context switches. A full round \
            trip, not half of one. kind=sysv by inlined system calls, kind=posix by the C library",
    not_timed: "creating the semaphores and the peer process. Nothing is subtracted: \
                os.switch.process has the cost of the switch alone",
    model: "a value: two switches and four short calls, 2 × os.switch.process{set_bytes=0} + 4 × \
            os.syscall{call=write1}; kind=posix adds four function returns, each of which costs \
            os.syscall{call=getppid_called} − os.syscall{call=getppid}",
    source: "lmbench's lat_sem (Staelin 2000); Linux ipc/sem.c; glibc nptl/sem_post.c and \
             sem_wait.c over futexes",
    pitfalls: &[
        ONE_CPU,
        PREEMPTED,
        "lmbench's lat_sem waits and posts in one call, which the kernel may complete for a \
         process that is not running: its processes alternate without a switch, so its figure is \
         no round trip. Here posts and waits are separate calls, and the kernel's context switch \
         counts are compared with the round trips",
        "a semaphore carries no data: a token in shared memory is compared each time",
        "a POSIX semaphore enters the kernel only to wake a sleeper or to sleep: a process \
         that is preempted by the peer it woke later finds its own semaphore posted, and its wait \
         makes no system call",
        "semaphores do not report a dead process: a sleeping thread watches the peer. A System V \
         set outlives its users: the worker removes it, or the peer if the worker is killed",
    ],
    parameters: &[Parameter::new(
        "kind",
        "sysv, posix",
        "System V semaphores (semop) · sem_t in shared memory (a futex)",
    )],
    needs: &["os.syscall", "os.switch.process"],
    requires: "System V IPC for kind=sysv",
    ..BASE
};

metric!(RoundTrip.about);

impl Probe for RoundTrip {
    fn cases(&self, _: &Host, _: &Sizes) -> Vec<ProbeCase> {
        if self.kinds.is_empty() {
            return vec![ProbeCase::usual(Params::none())];
        }
        let case = |kind: &&str| ProbeCase::usual(Params::one(self.parameter, *kind));
        self.kinds.iter().map(case).collect()
    }

    fn predict(&self, case: &ProbeCase, _: &Host, known: &Inputs<'_>) -> Model {
        match (self.about.id, case.params.text(self.parameter)) {
            ("os.pipe.rtt", Some("bare")) => {
                // The switch metric is itself derived from such a round trip, so it gives a bound
                // only.
                let parts = two_switches(&[("read1", 2.0), ("write1", 2.0)], known)?;
                Ok(parts.as_lower_limit())
            }
            ("os.pipe.rtt", _) => four_returns(known),
            ("os.semaphore.rtt", Some("sysv")) => {
                // Mainly the switch, which was computed from such a round trip.
                Ok(two_switches(&[("write1", 4.0)], known)?.self_consistent())
            }
            ("os.semaphore.rtt", _) => {
                let [called, bare] = RETURNS;
                Ok(two_switches(&[("write1", 4.0), called, bare], known)?.self_consistent())
            }
            ("os.fifo.rtt", _) => {
                let source = "Linux fs/pipe.c: the same code once they are open";
                let otherwise = "updating the FIFO's timestamps, which pipes no longer do since \
                                 Linux 6.15, is expensive on the file system of the temporary \
                                 folder";
                same_as((PIPE.id, bare_pipe()), 0.15, (source, otherwise), known)
            }
            _ => {
                let source = "the same switches, plus allocating a buffer for each message";
                at_least(PIPE.id, &bare_pipe(), source, known)
            }
        }
    }

    fn visit(&self, cases: &[ProbeCase], sampler: &mut Sampler) -> Result<()> {
        for (index, case) in cases.iter().enumerate() {
            match (self.about.id, case.params.text(self.parameter)) {
                ("os.pipe.rtt", Some("bare")) => measure(index, pipe::pipes(2), 1, sampler),
                ("os.pipe.rtt", Some("libc")) => measure(index, pipe::libc_pipes(2), 1, sampler),
                ("os.fifo.rtt", None) => measure(index, pipe::fifos(2), 1, sampler),
                // Two waits: one for the answer, one spurious wake-up.
                (_, Some("stream")) => {
                    measure(index, socket::sockets(SocketType::STREAM), 2, sampler);
                }
                (_, Some("datagram")) => {
                    measure(index, socket::sockets(SocketType::DGRAM), 1, sampler);
                }
                (_, Some("sysv")) => measure(index, sysv::semaphores(), 1, sampler),
                (_, Some("posix")) => measure(index, posix::semaphores(), 1, sampler),
                _ => {
                    let fault = SamplerFault::Failed(format!("unknown link kind: {}", case.params));
                    sampler.fault(index, fault);
                }
            }
        }
        Ok(())
    }
}

/// Measures one case over these links, on which a process blocks at most `waits_max` times a trip.
fn measure<L: Link>(index: usize, links: Result<Vec<L>>, waits_max: u32, sampler: &mut Sampler) {
    let (kind, cpu) = (PeerKind::Process, sampler.settings().cpu);
    let options = PeerOptions { kind, set_bytes: 0, cpu };
    let ring = links.and_then(|links| Ring::join(links, options));
    turns::measure(index, ring, Quantity::RoundTrip { waits_max }, sampler);
}

/// The cost of four function returns: four calls in a function minus four inlined.
const RETURNS: [(&str, f64); 2] = [("getppid_called", 4.0), ("getppid", -4.0)];

fn bare_pipe() -> Params {
    Params::one("calls", "bare")
}

fn calls(calls: &[(&str, f64)]) -> Vec<Term<'static>> {
    let term = |(name, times): &(&str, f64)| {
        let params = Params::one("call", *name);
        Term::new(*times, "os.syscall", params)
    };
    calls.iter().map(term).collect()
}

/// Two switches and these calls.
fn two_switches(others: &[(&str, f64)], known: &Inputs<'_>) -> Model {
    let params = Params::one("set_bytes", 0);
    let mut terms = vec![Term::new(2.0, "os.switch.process", params)];
    terms.extend(calls(others));
    let sum = Sum {
        terms: &terms,
        tolerance: 0.25,
        source: "two turns, each of a call that wakes the peer, one that blocks, and a switch",
        otherwise: "the work of the calls or the C library is not small compared with the \
                    switches; or turns end by preemption more or less often than in \
                    os.switch.process: compare the counts in both checks",
    };
    sum.predict(known)
}

/// A round trip by inlined calls plus four function returns.
fn four_returns(known: &Inputs<'_>) -> Model {
    let mut terms = vec![Term::once(PIPE.id, bare_pipe())];
    terms.extend(calls(&RETURNS));
    let sum = Sum {
        terms: &terms,
        tolerance: 0.25,
        source: "the same calls in functions, whose returns are mispredicted as getppid's is",
        otherwise: "the return from a function that made a system call costs more after a switch \
                    than in a loop over one call, which trains the branch predictors",
    };
    Ok(sum.predict(known)?.self_consistent())
}

#[cfg(test)]
mod tests;
