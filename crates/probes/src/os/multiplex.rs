//! os.select, os.poll and os.epoll: which of many descriptors is ready?

use std::os::fd::{AsRawFd as _, OwnedFd};

use fathom_measure::sampler::Fault;
use fathom_measure::{Sampler, Work};
use fathom_record::{Host, NoModel, Origin, Params, Prediction, Remedy};
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::raw_call::system_call_of_six;
use fathom_metric::order::{Order, earlier};
use fathom_metric::sum::{Sum, Term};
use fathom_metric::{About, Case, Inputs, Parameter, Probe, Sizes};

/// os.select.
pub static SELECT: Multiplex = Multiplex { about: &SELECT_ABOUT, call: Call::Select };
/// os.poll.
pub static POLL: Multiplex = Multiplex { about: &POLL_ABOUT, call: Call::Poll };
/// os.epoll.
pub static EPOLL: Multiplex = Multiplex { about: &EPOLL_ABOUT, call: Call::Epoll };

/// One of the three calls, over sets that grow.
pub struct Multiplex {
    about: &'static About,
    call: Call,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Select,
    Poll,
    Epoll,
}

const NOT_TIMED: &str = "making the descriptors; waiting: one of them is ready before the call, \
                         and the time limit is 0; what a C library does around the call";
const MODEL: &str = "a bound at the two small cases: fds=10 ≥ os.syscall{call=getppid}, fds=100 \
                     ≥ fds=10. A value for fds=500: the line through the two goes on, since each \
                     descriptor costs the same work and the call's own is paid once. The small \
                     cases have no value: what one descriptor costs is known from them alone";
const FILES: &str = "descriptors that are copies of one (dup), as lmbench's lat_select makes them, \
                     share one file in the kernel, which is then always cached: here each is an \
                     eventfd of its own";
const ONE_READY: &str = "what is asked of the file matters: an eventfd looks at one counter, a \
                         socket or a pipe at more. Exactly one is ready, the last, and each call's \
                         result is compared with 1, its descriptor once a batch";
const FDS: &str = "number of descriptors watched; the last one is ready";
const REQUIRES: &str = "as many descriptors within the hard limit of RLIMIT_NOFILE; the soft one \
                        is raised";

static SELECT_ABOUT: About = About {
    id: "os.select",
    title: "select on many descriptors",
    timed: "copying the set, which the call overwrites, and one pselect6, as the C library's \
            select makes it, by the bare instruction: n eventfds watched for reading, the last \
            one ready, time limit 0",
    not_timed: NOT_TIMED,
    model: MODEL,
    source: "Linux fs/select.c, do_select: one pass over the bits, one lookup and one question to \
             the file for each",
    pitfalls: &[
        FILES,
        ONE_READY,
        "select scans all numbers up to the highest descriptor, watched or not: here they lie \
         close together",
    ],
    parameters: &[Parameter { name: "fds", values: "10, 100, 500", meaning: FDS }],
    needs: &["os.syscall"],
    requires: REQUIRES,
    ..About::BASE
};

static POLL_ABOUT: About = About {
    id: "os.poll",
    title: "poll on many descriptors",
    timed: "one poll (ppoll on aarch64, which has no other) by the bare instruction: n eventfds \
            watched for reading, the last one ready, time limit 0",
    not_timed: NOT_TIMED,
    model: MODEL,
    source: "Linux fs/select.c, do_sys_poll: eight bytes in and two out for each descriptor, one \
             lookup and one question to the file",
    pitfalls: &[FILES, ONE_READY],
    parameters: &[Parameter { name: "fds", values: "10, 100, 500", meaning: FDS }],
    needs: &["os.syscall"],
    requires: REQUIRES,
    ..About::BASE
};

static EPOLL_ABOUT: About = About {
    id: "os.epoll",
    title: "epoll_wait on many descriptors",
    timed: "one epoll_wait (epoll_pwait on aarch64, which has no other) by the bare instruction: \
            n eventfds watched for reading, level-triggered, the last one ready, time limit 0, \
            room for 16 events",
    not_timed: "telling the kernel what to watch (epoll_ctl), which is done once, before; making \
                the descriptors; waiting; what a C library does around the call",
    model: "a bound for fds=10, ≥ os.syscall{call=getppid}; a value beyond: as fds=10, ± 30 %, \
            for the kernel walks the list of the ready, not the set",
    source: "Linux fs/eventpoll.c, ep_send_events: the ready list",
    pitfalls: &[
        FILES,
        ONE_READY,
        "it is cheap for what it is not asked: adding and removing a descriptor are system calls \
         of their own, which select and poll have no need of",
    ],
    parameters: &[Parameter { name: "fds", values: "10, 100, 500", meaning: FDS }],
    needs: &["os.syscall"],
    requires: REQUIRES,
    ..About::BASE
};

const SIZES: [i64; 3] = [10, 100, 500];
/// Room for events of one epoll_wait.
const EVENTS: usize = 16;
/// Descriptors that the rest of the program may have open.
const OTHERS: u64 = 64;

fn params(fds: i64) -> Params {
    Params::one("fds", fds)
}

fn fds_of(case: &Case) -> i64 {
    case.params.integer("fds").unwrap_or(0)
}

impl Probe for Multiplex {
    fn about(&self) -> &'static About {
        self.about
    }

    /// Each set is alone in its process, so that its descriptors lie as close together as they
    /// can: select scans the gaps.
    fn cases_share_visits(&self) -> bool {
        false
    }

    fn cases(&self, _: &Host, _: &Sizes) -> Vec<Case> {
        let case = |fds: &i64| Case { params: params(*fds), cost_ns: 8e6 + 4e3 * *fds as f64 };
        SIZES.iter().map(case).collect()
    }

    fn predict(&self, case: &Case, _: &Host, known: &Inputs<'_>) -> Result<Prediction, NoModel> {
        let fds = fds_of(case);
        let order =
            |metric, params, source| Order { factor: 1.0, metric, source }.claim(&params, known);
        match (self.call, fds) {
            (_, 10) => {
                let source = "the same entry and exit, and a walk between them";
                order("os.syscall", Params::one("call", "getppid"), source)
            }
            (Call::Epoll, _) => {
                let terms = [Term { times: 1.0, metric: self.about.id, params: params(10) }];
                let source = "the ready list is walked, not the set: Linux fs/eventpoll.c, \
                              ep_send_events";
                let otherwise = "the call walks what is not ready";
                Sum { terms: &terms, tolerance: 0.3, source, otherwise }.predict(known)
            }
            (_, 100) => {
                let source = "the same call, with ninety descriptors more to ask";
                order(self.about.id, params(10), source)
            }
            _ => along_the_line(self.about.id, fds, known),
        }
    }

    fn visit(&self, cases: &[Case], sampler: &mut Sampler) -> Result<(), Fault> {
        let most = cases.iter().map(fds_of).sum::<i64>().max(0) as u64;
        raise_limit(most + OTHERS);
        let mut works = Vec::new();
        for (index, case) in cases.iter().enumerate() {
            match self.watch(fds_of(case).max(0) as usize) {
                Ok(mut watch) => works.push(Work::batched(index, move |calls| watch.repeat(calls))),
                Err(fault) => sampler.fault(index, fault),
            }
        }
        sampler.run(works);
        Ok(())
    }
}

impl Multiplex {
    fn watch(&self, fds: usize) -> Result<Watch, Fault> {
        let mut files = Vec::with_capacity(fds);
        for number in 1..=fds {
            files.push(event(u32::from(number == fds)).map_err(|error| too_few(fds, error))?);
        }
        let asked = match self.call {
            Call::Select => Asked::set(&files),
            Call::Poll => Asked::list(&files),
            Call::Epoll => Asked::registered(&files).map_err(|error| too_few(fds, error))?,
        };
        Ok(Watch { files, asked, wanted: 1 })
    }
}

/// The line through the two small cases, further on. Not the one through a call that asks nobody
/// (getppid) and the smallest: what the call itself does, copying and checking, would then be
/// counted once for every ten descriptors.
fn along_the_line(metric: &str, fds: i64, known: &Inputs<'_>) -> Result<Prediction, NoModel> {
    let [ten, hundred] = [10, 100].map(params);
    let from = earlier(metric, &ten, known)?;
    let to = earlier(metric, &hundred, known)?;
    if to <= from {
        return Err(NoModel::NoSlope);
    }
    let (a, b) = (format!("{metric}{ten}"), format!("{metric}{hundred}"));
    let rest = fds - 100;
    let value = to + (to - from) * rest as f64 / 90.0;
    let formula = format!("{b} + ({b} − {a}) × {rest} ÷ 90");
    let source = "each descriptor costs one lookup and one question to its file: Linux \
                  fs/select.c, do_select and do_poll";
    Ok(Prediction::sum(0.0, value, 0.3, &formula, source)
        .with_input(&a, from, Origin::this_run(&a))
        .with_input(&b, to, Origin::this_run(&b))
        .otherwise("a descriptor costs more among many: the files leave the first-level cache"))
}

/// A file that is ready for reading if its count is not 0.
fn event(count: u32) -> rustix::io::Result<OwnedFd> {
    eventfd(count, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
}

/// Raises the soft limit on descriptors as far as needed and allowed. The worker's own, which ends
/// with it.
fn raise_limit(needed: u64) {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < needed) {
        let current = Some(limit.maximum.map_or(needed, |maximum| maximum.min(needed)));
        // If it cannot be raised, opening tells.
        let _ = setrlimit(Resource::Nofile, Rlimit { current, maximum: limit.maximum });
    }
}

/// What it means that so many descriptors cannot be had.
fn too_few(fds: usize, error: rustix::io::Errno) -> Fault {
    let remedy = match error {
        rustix::io::Errno::MFILE => Remedy::raise(&["`ulimit -Hn`", "LimitNOFILE"]),
        rustix::io::Errno::NFILE => Remedy::raise(&["fs.file-max"]),
        rustix::io::Errno::NOMEM => Remedy::FreeMemory,
        rustix::io::Errno::NOSPC => Remedy::raise(&["fs.epoll.max_user_watches"]),
        rustix::io::Errno::PERM | rustix::io::Errno::NOSYS => Remedy::LeaveSandbox,
        _ => return Fault::system("eventfd", error),
    };
    Fault::unavailable(format!("{fds} descriptors to watch: {error}"), remedy)
}

/// Descriptors, and the question whether one is ready.
struct Watch {
    /// Open as long as they are watched.
    files: Vec<OwnedFd>,
    asked: Asked,
    /// How many are ready: what each call must return.
    wanted: isize,
}

/// The question as each call puts it, and where the answer is found.
enum Asked {
    Select { watched: Vec<u64>, set: Vec<u64>, highest: usize },
    Poll { list: Vec<libc::pollfd> },
    Epoll { epoll: OwnedFd, events: [libc::epoll_event; EVENTS] },
}

const WORD_BITS: usize = u64::BITS as usize;

impl Asked {
    fn set(files: &[OwnedFd]) -> Self {
        let highest = files.iter().map(|file| file.as_raw_fd() as usize).max().unwrap_or(0);
        let mut watched = vec![0; highest / WORD_BITS + 1];
        for file in files {
            let number = file.as_raw_fd() as usize;
            watched[number / WORD_BITS] |= 1 << (number % WORD_BITS);
        }
        Self::Select { set: watched.clone(), watched, highest }
    }

    fn list(files: &[OwnedFd]) -> Self {
        let entry = |file: &OwnedFd| libc::pollfd {
            fd: file.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        Self::Poll { list: files.iter().map(entry).collect() }
    }

    fn registered(files: &[OwnedFd]) -> rustix::io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (number, file) in (1..).zip(files) {
            let data = epoll::EventData::new_u64(number);
            epoll::add(&epoll, file, data, epoll::EventFlags::IN)?;
        }
        let events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
        Ok(Self::Epoll { epoll, events })
    }

    /// Asks once: how many are ready, or a negative errno.
    #[inline(always)]
    fn ask(&mut self) -> isize {
        match self {
            Self::Select { watched, set, highest } => {
                set.copy_from_slice(watched);
                let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
                let (set, now) = (set.as_mut_ptr() as usize, &raw const now as usize);
                let arguments = [*highest + 1, set, 0, 0, now, 0];
                // SAFETY: the set has a bit for each number up to the highest, the time lives
                // until the call returns, and the rest may be absent.
                unsafe { system_call_of_six(libc::SYS_pselect6, arguments) }
            }
            Self::Poll { list } => poll(list),
            Self::Epoll { epoll, events, .. } => wait(epoll, events),
        }
    }

    /// Whether the last answer named the last of `fds` descriptors and no other.
    fn named_the_last(&self, fds: usize) -> bool {
        match self {
            Self::Select { watched, set, highest } => {
                let mut alone = vec![0; watched.len()];
                alone[highest / WORD_BITS] = 1 << (highest % WORD_BITS);
                *set == alone
            }
            Self::Poll { list } => list.split_last().is_some_and(|(last, others)| {
                last.revents == libc::POLLIN && others.iter().all(|other| other.revents == 0)
            }),
            Self::Epoll { events, .. } => {
                let libc::epoll_event { events, u64: named } = events[0];
                named == fds as u64 && events == libc::EPOLLIN as u32
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn poll(list: &mut [libc::pollfd]) -> isize {
    let arguments = [list.as_mut_ptr() as usize, list.len(), 0, 0, 0, 0];
    // SAFETY: the list is as long as it says, and writable; the time limit is 0.
    unsafe { system_call_of_six(libc::SYS_poll, arguments) }
}

#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn poll(list: &mut [libc::pollfd]) -> isize {
    let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let arguments = [list.as_mut_ptr() as usize, list.len(), &raw const now as usize, 0, 0, 0];
    // SAFETY: the list is as long as it says, and writable; the time lives until the call returns.
    unsafe { system_call_of_six(libc::SYS_ppoll, arguments) }
}

#[cfg(target_arch = "x86_64")]
const EPOLL_WAIT: i64 = libc::SYS_epoll_wait;
#[cfg(target_arch = "aarch64")]
const EPOLL_WAIT: i64 = libc::SYS_epoll_pwait;

#[inline(always)]
fn wait(epoll: &OwnedFd, events: &mut [libc::epoll_event; EVENTS]) -> isize {
    let descriptor = epoll.as_raw_fd() as usize;
    let arguments = [descriptor, events.as_mut_ptr() as usize, EVENTS, 0, 0, 0];
    // SAFETY: there is room for as many events as it says; the time limit is 0 and there is no
    // mask of signals.
    unsafe { system_call_of_six(EPOLL_WAIT, arguments) }
}

impl Watch {
    /// Asks that often, and returns how often the answer was right; never, if the last one named
    /// another descriptor.
    fn repeat(&mut self, calls: u64) -> u64 {
        let wanted = self.wanted;
        let mut right = 0;
        for _ in 0..calls {
            right += u64::from(self.asked.ask() == wanted);
        }
        if self.asked.named_the_last(self.files.len()) { right } else { 0 }
    }
}

#[cfg(test)]
mod tests;
