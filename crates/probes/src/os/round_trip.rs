//! os.pipe.rtt, os.fifo.rtt, os.unix.rtt and os.semaphore.rtt: a token to another process on the
//! same CPU, and back.

use fathom_measure::Sampler;
use fathom_measure::sampler::Fault;
use fathom_record::{Counters, Host, NoModel, Params, Prediction};
use rustix::net::SocketType;

use super::link::{Link, pipe, posix, socket, sysv};
use super::ping_pong::{Kind, Others, Ring};
use super::turns::{self, Part};
use fathom_metric::order::Order;
use fathom_metric::sum::{Sum, Term};
use fathom_metric::{About, Case, Inputs, Parameter, Probe, Sizes};

/// os.pipe.rtt.
pub static PIPE_RTT: RoundTrip =
    RoundTrip { about: &PIPE, parameter: "calls", kinds: &["bare", "libc"] };
/// os.fifo.rtt.
pub static FIFO_RTT: RoundTrip = RoundTrip { about: &FIFO, parameter: "", kinds: &[] };
/// os.unix.rtt.
pub static UNIX_RTT: RoundTrip =
    RoundTrip { about: &UNIX, parameter: "kind", kinds: &["stream", "datagram"] };
/// os.semaphore.rtt.
pub static SEMAPHORE_RTT: RoundTrip =
    RoundTrip { about: &SEMAPHORE, parameter: "kind", kinds: &["sysv", "posix"] };

/// A token's round trip through one kind of link.
pub struct RoundTrip {
    about: &'static About,
    /// The one parameter, and its values; none where there is one kind only.
    parameter: &'static str,
    kinds: &'static [&'static str],
}

const TIMED: &str = "one byte to another process and back, both on the worker's CPU: two writes, \
                     two reads, two switches. A round trip, not half of one";
const NOT_TIMED: &str = "making the link and the other process; anything of the C library, but for \
                         calls=libc: the calls are made by the bare instruction. Nothing is \
                         subtracted: what the switches cost alone is os.switch.process";
const BARE_ONLY: &str = "making the link and the other process; anything of the C library: the \
                         calls are made by the bare instruction. Nothing is subtracted: what the \
                         switches cost alone is os.switch.process";
const ONE_CPU: &str = "on two CPUs this would be two wake-ups (os.wake.cross_cpu), and lmbench, \
                       which pins nothing unless told, may measure either: both ends are on the \
                       worker's CPU, and the other says at its end where it ran";
const COUNTS: &str = "the byte that comes back is compared each time, both ends count their turns, \
                      and the kernel's counts of their switches are held against the round trips";
const PREEMPTED: &str = "a sleeper that is woken may run at once, in place of its waker: how many \
                         turns ended so stands in the record, and it decides some of the cost";

static PIPE: About = About {
    id: "os.pipe.rtt",
    title: "round trip by pipes",
    timed: TIMED,
    not_timed: NOT_TIMED,
    model: "a value: what os.switch.process leaves and what it takes away, 2 × \
            os.switch.process{set_bytes=0} + 2 × os.syscall{call=read1} + 2 × \
            os.syscall{call=write1}. The calls of os.syscall are on devices and shorter than those \
            on a pipe by its lock, its page and its queue of waiters. calls=libc: calls=bare and \
            four returns of a procedure, each of which costs os.syscall{call=getppid_called} − \
            os.syscall{call=getppid}",
    source: "lmbench's lat_pipe (McVoy & Staelin, USENIX 1996, § 6.7); Linux fs/pipe.c",
    pitfalls: &[
        ONE_CPU,
        COUNTS,
        PREEMPTED,
        "on many cores the return of the procedure around a system call is dear, and after a \
         switch several times as dear: programs, lmbench and perf \
         bench sched pipe pay that four times a round trip. calls=libc is what they measure",
    ],
    parameters: &[Parameter {
        name: "calls",
        values: "bare, libc",
        meaning: "by the instruction itself · by the C library's read and write, as programs do",
    }],
    needs: &["os.syscall", "os.switch.process"],
    expects: Counters::TURNS,
    noise_limit: 0.10,
    ..About::BASE
};

static FIFO: About = About {
    id: "os.fifo.rtt",
    title: "round trip by FIFOs",
    timed: TIMED,
    not_timed: BARE_ONLY,
    model: "a value: os.pipe.rtt{calls=bare}, since a FIFO that is open is a pipe",
    source: "lmbench's lat_fifo; Linux fs/pipe.c: the same code once open, but that a FIFO keeps \
             the times of its file",
    pitfalls: &[
        ONE_CPU,
        COUNTS,
        "a FIFO that is opened for reading and writing at once never ends: each is opened for \
         itself, so that a dead end is noticed",
        "since Linux 6.15 pipes keep no times any more, and FIFOs do; what that costs is the file \
         system's affair: both FIFOs lie in the folder for temporary files, without a name once \
         they are open",
    ],
    needs: &["os.pipe.rtt"],
    requires: "a folder for temporary files (TMPDIR) in which a FIFO may be made",
    expects: Counters::TURNS,
    noise_limit: 0.10,
    ..About::BASE
};

static UNIX: About = About {
    id: "os.unix.rtt",
    title: "round trip by Unix sockets",
    timed: TIMED,
    not_timed: BARE_ONLY,
    model: "a bound: a socket allocates and frees a buffer for each message, where a pipe keeps \
            its page: ≥ os.pipe.rtt{calls=bare}. What a buffer costs is known from this metric \
            alone",
    source: "lmbench's lat_unix (McVoy & Staelin, USENIX 1996); Linux net/unix/af_unix.c, \
             unix_stream_sendmsg and unix_dgram_sendmsg: sock_alloc_send_pskb",
    pitfalls: &[
        ONE_CPU,
        COUNTS,
        PREEMPTED,
        "the sockets are a pair without a name: connecting is another matter",
        "the sender of a stream sleeps on the queue that is also woken when its message is taken: \
         it may wake for nothing, and sleep again before the answer comes. That belongs to the \
         number, and is counted",
        "a datagram socket is not told that its peer is gone: a thread that sleeps until then \
         watches the other end, so that no wait is for ever",
    ],
    parameters: &[Parameter {
        name: "kind",
        values: "stream, datagram",
        meaning: "a stream of bytes · messages",
    }],
    needs: &["os.pipe.rtt"],
    expects: Counters::TURNS,
    noise_limit: 0.10,
    ..About::BASE
};

static SEMAPHORE: About = About {
    id: "os.semaphore.rtt",
    title: "round trip by semaphores",
    timed: "posting another process's semaphore and waiting for one's own, which it posts in turn, \
            both on the worker's CPU: two posts, two waits, two switches. A round trip, not half \
            of one. kind=sysv by the bare system calls, kind=posix by the C library",
    not_timed: "making the semaphores and the other process. Nothing is subtracted: what the \
                switches cost alone is os.switch.process",
    model: "a value: two switches and four calls that do little, 2 × \
            os.switch.process{set_bytes=0} + 4 × os.syscall{call=write1}; for kind=posix four \
            returns of a procedure besides, each of which costs os.syscall{call=getppid_called} − \
            os.syscall{call=getppid}",
    source: "lmbench's lat_sem (Staelin 2000); Linux ipc/sem.c; glibc nptl/sem_post.c and \
             sem_wait.c over futexes",
    pitfalls: &[
        ONE_CPU,
        PREEMPTED,
        "lmbench's lat_sem waits and posts by one call, which the kernel may finish for an end \
         that does not run: its ends take turns without a switch, and its figure is no round trip. \
         Here each end posts and waits apart, and the kernel's counts of switches are held \
         against the round trips",
        "a semaphore carries nothing: a token that lies beside it is compared each time",
        "a POSIX semaphore enters the kernel only to wake a sleeper and to sleep: an end that was \
         preempted by the one it woke finds its semaphore posted, and its wait is no system call",
        "semaphores do not tell that a process is dead: a thread that sleeps until then watches \
         the other end. A System V set outlives its users: the worker removes it, or the other \
         end if the worker is killed",
    ],
    parameters: &[Parameter {
        name: "kind",
        values: "sysv, posix",
        meaning: "System V semaphores (semop) · sem_t in shared memory, which is a futex",
    }],
    needs: &["os.syscall", "os.switch.process"],
    requires: "System V IPC for kind=sysv",
    expects: Counters::TURNS,
    noise_limit: 0.10,
    ..About::BASE
};

impl Probe for RoundTrip {
    fn about(&self) -> &'static About {
        self.about
    }

    /// As for switches.
    fn cases_share_visits(&self) -> bool {
        false
    }

    fn cases(&self, _: &Host, _: &Sizes) -> Vec<Case> {
        if self.kinds.is_empty() {
            return vec![Case::usual(Params::none())];
        }
        let case = |kind: &&str| Case::usual(Params::one(self.parameter, *kind));
        self.kinds.iter().map(case).collect()
    }

    fn predict(&self, case: &Case, _: &Host, known: &Inputs<'_>) -> Result<Prediction, NoModel> {
        match (self.about.id, case.params.text(self.parameter)) {
            ("os.pipe.rtt", Some("bare")) => {
                // The switch is itself the rest of such a round trip: no value can come from it.
                let parts = two_switches(&[("read1", 2.0), ("write1", 2.0)], known)?;
                Ok(parts.as_lower_limit())
            }
            ("os.pipe.rtt", _) => four_returns(known),
            ("os.semaphore.rtt", Some("sysv")) => two_switches(&[("write1", 4.0)], known),
            ("os.semaphore.rtt", _) => {
                let [called, bare] = RETURNS;
                two_switches(&[("write1", 4.0), called, bare], known)
            }
            ("os.fifo.rtt", _) => like_a_pipe(known),
            _ => {
                let source = "the same switches, and a buffer to allocate for each message";
                let order = Order { factor: 1.0, metric: PIPE.id, source };
                order.claim(&bare_pipe(), known)
            }
        }
    }

    fn visit(&self, cases: &[Case], sampler: &mut Sampler) -> Result<(), Fault> {
        for (index, case) in cases.iter().enumerate() {
            match (self.about.id, case.params.text(self.parameter)) {
                ("os.pipe.rtt", Some("bare")) => take(index, pipe::pipes(2), 1, sampler),
                ("os.pipe.rtt", Some("libc")) => take(index, pipe::called(2), 1, sampler),
                ("os.fifo.rtt", None) => take(index, pipe::fifos(2), 1, sampler),
                // Once for the answer, and once for nothing.
                (_, Some("stream")) => take(index, socket::sockets(SocketType::STREAM), 2, sampler),
                (_, Some("datagram")) => {
                    take(index, socket::sockets(SocketType::DGRAM), 1, sampler);
                }
                (_, Some("sysv")) => take(index, sysv::semaphores(), 1, sampler),
                (_, Some("posix")) => take(index, posix::semaphores(), 1, sampler),
                (id, kind) => {
                    let text = format!("{id} knows no link of the kind {kind:?}");
                    sampler.fault(index, Fault::Failed(text));
                }
            }
        }
        Ok(())
    }
}

/// Takes one case through these links, at whose ends so many waits make a round trip at most.
fn take<L: Link>(
    index: usize,
    links: Result<Vec<L>, Fault>,
    waits_max: u32,
    sampler: &mut Sampler,
) {
    let others = Others { kind: Kind::Process, set_bytes: 0, cpu: sampler.settings().cpu };
    let ring = links.and_then(|links| Ring::join(links, others));
    turns::take(index, ring, Part::RoundTrip { waits_max }, sampler);
}

/// What the returns of four procedures cost beyond four calls made without.
const RETURNS: [(&str, f64); 2] = [("getppid_called", 4.0), ("getppid", -4.0)];

fn bare_pipe() -> Params {
    Params::one("calls", "bare")
}

fn calls(calls: &[(&str, f64)]) -> Vec<Term<'static>> {
    let term = |(name, times): &(&str, f64)| {
        let params = Params::one("call", *name);
        Term { times: *times, metric: "os.syscall", params }
    };
    calls.iter().map(term).collect()
}

/// Two switches, and each of these calls so many times.
fn two_switches(others: &[(&str, f64)], known: &Inputs<'_>) -> Result<Prediction, NoModel> {
    let params = Params::one("set_bytes", 0);
    let mut terms = vec![Term { times: 2.0, metric: "os.switch.process", params }];
    terms.extend(calls(others));
    let sum = Sum {
        terms: &terms,
        tolerance: 0.25,
        source: "two turns, each of a call that wakes the other end, one that waits, and a switch",
        otherwise: "the calls' own work, or that of the C library, is not small beside the \
                    switches; or turns end by preemption more, or less, often than in \
                    os.switch.process: both checks count them",
    };
    sum.predict(known)
}

/// A round trip by bare calls, and the returns from as many procedures.
fn four_returns(known: &Inputs<'_>) -> Result<Prediction, NoModel> {
    let mut terms = vec![Term { times: 1.0, metric: PIPE.id, params: bare_pipe() }];
    terms.extend(calls(&RETURNS));
    let sum = Sum {
        terms: &terms,
        tolerance: 0.15,
        source: "the same calls in procedures, whose returns are mispredicted as that of getppid",
        otherwise: "the return of a procedure that made a system call is dearer after a switch \
                    than in a loop over one call, where the core's predictors settle",
    };
    sum.predict(known)
}

fn like_a_pipe(known: &Inputs<'_>) -> Result<Prediction, NoModel> {
    let sum = Sum {
        terms: &[Term { times: 1.0, metric: PIPE.id, params: bare_pipe() }],
        tolerance: 0.15,
        source: "Linux fs/pipe.c: one code for both once they are open",
        otherwise: "keeping the times of the FIFO's file, which pipes do not since Linux 6.15, is \
                    dear on the file system of the temporary folder",
    };
    sum.predict(known)
}

#[cfg(test)]
mod tests;
