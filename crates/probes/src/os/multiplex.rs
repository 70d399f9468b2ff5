//! os.select, os.poll and os.epoll: finding the one ready descriptor among many.

use std::os::fd::{AsRawFd as _, OwnedFd};

use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::raw_call::system_call_of_six;
use crate::prelude::*;

pub static SELECT: Multiplex = Multiplex { about: &SELECT_ABOUT, call: MultiplexCall::Select };
pub static POLL: Multiplex = Multiplex { about: &POLL_ABOUT, call: MultiplexCall::Poll };
pub static EPOLL: Multiplex = Multiplex { about: &EPOLL_ABOUT, call: MultiplexCall::Epoll };

pub struct Multiplex {
    about: &'static About,
    call: MultiplexCall,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MultiplexCall {
    Select,
    Poll,
    Epoll,
}

const BASE: About = About {
    not_timed: "creating the descriptors; blocking: one descriptor is ready before the call, and \
                the timeout is 0; the C library's wrapper",
    model: "bounds for the two small cases: fds=10 ≥ os.syscall{call=getppid}, fds=100 ≥ fds=10. A \
            value for fds=500: extrapolated linearly from the two, since each descriptor costs the \
            same and the call itself is paid once. The small cases have no value: the cost per \
            descriptor is known from them alone",
    parameters: &[Parameter::new(
        "fds",
        "10, 100, 500",
        "number of descriptors watched; the last one is ready",
    )],
    needs: &["os.syscall"],
    requires: "fds descriptors within the hard limit of RLIMIT_NOFILE; the soft limit is raised",
    // One set per process keeps its descriptors contiguous: select scans gaps too.
    cases_share_visits: false,
    ..About::BASE
};
const FILES: &str = "descriptors that are dup'ed from one, as in lmbench's lat_select, share one \
                     struct file, which is then always cached: here each is a separate eventfd";
const ONE_READY: &str = "the file type matters: polling an eventfd reads one counter, a socket or \
                         pipe more. Only the last descriptor is ready; each call's result is \
                         compared with 1, the descriptor reported once per batch";

static SELECT_ABOUT: About = About {
    id: "os.select",
    title: "select on many descriptors",
    timed: "copying the fd_set, which the call overwrites, and one pselect6 (as the C library's \
            select makes it) by the inlined instruction: n eventfds watched for reading, the last \
            one ready, timeout 0",
    source: "Linux fs/select.c, do_select: one pass over the bits; one descriptor lookup and one \
             poll of the file for each set bit",
    pitfalls: &[
        FILES,
        ONE_READY,
        "select scans all numbers up to the highest descriptor, watched or not: here they are \
         contiguous",
    ],
    ..BASE
};

static POLL_ABOUT: About = About {
    id: "os.poll",
    title: "poll on many descriptors",
    timed: "one poll (ppoll on aarch64, which has no poll) by the inlined instruction: n eventfds \
            watched for reading, the last one ready, timeout 0",
    source: "Linux fs/select.c, do_sys_poll: for each descriptor 8 bytes copied in and 2 out, one \
             lookup and one poll of the file",
    pitfalls: &[FILES, ONE_READY],
    ..BASE
};

static EPOLL_ABOUT: About = About {
    id: "os.epoll",
    title: "epoll_wait on many descriptors",
    timed: "one epoll_wait (epoll_pwait on aarch64, which has no epoll_wait) by the inlined \
            instruction: n eventfds watched for reading, level-triggered, the last one ready, \
            timeout 0, room for 16 events",
    not_timed: "registering the descriptors (epoll_ctl), done once before; creating them; \
                blocking; the C library's wrapper",
    model: "a bound for fds=10: ≥ os.syscall{call=getppid}; a value for larger sets: fds=10 ± 30 \
            %, since the kernel walks the ready list, not the set. No value for fds=10: the cost \
            of a ready descriptor is known from this metric alone",
    source: "Linux fs/eventpoll.c, ep_send_events: the ready list",
    pitfalls: &[
        FILES,
        ONE_READY,
        "adding and removing a descriptor are additional system calls, which select and poll do \
         not need",
    ],
    ..BASE
};

const SIZES: [i64; 3] = [10, 100, 500];
/// Capacity of one epoll_wait.
const EVENTS: usize = 16;
/// Descriptors left for the rest of the program.
const SPARE_FDS: u64 = 64;

fn params(fds: i64) -> Params {
    Params::one("fds", fds)
}

fn fds_of(case: &ProbeCase) -> i64 {
    case.params.integer("fds").unwrap_or(0)
}

metric!(Multiplex.about);

impl Probe for Multiplex {
    fn cases(&self, _: &Host, _: &Sizes) -> Vec<ProbeCase> {
        let case = |fds: &i64| ProbeCase { params: params(*fds), cost_ns: 6e6 + 4e3 * *fds as f64 };
        SIZES.iter().map(case).collect()
    }

    fn predict(&self, case: &ProbeCase, _: &Host, known: &Inputs<'_>) -> Model {
        let fds = fds_of(case);
        match (self.call, fds) {
            (_, 10) => {
                at_least_getppid(1.0, "the same entry and exit, plus a scan of the set", known)
            }
            (MultiplexCall::Epoll, _) => {
                let source = "the kernel walks the ready list, not the set: Linux fs/eventpoll.c, \
                              ep_send_events";
                let otherwise = "the call also walks descriptors that are not ready";
                same_as((self.about.id, params(10)), 0.3, (source, otherwise), known)
            }
            (_, 100) => {
                let source = "the same call with 90 more descriptors to poll";
                at_least(self.about.id, &params(10), source, known)
            }
            _ => extrapolate(self.about.id, fds, known),
        }
    }

    fn visit(&self, cases: &[ProbeCase], sampler: &mut Sampler) -> Result<()> {
        each(cases, sampler, |index, case, sampler| {
            let fds = fds_of(case).max(0) as usize;
            raise_limit(fds as u64 + SPARE_FDS);
            let mut set = self.watch(fds)?;
            sampler.run(vec![SamplerWork::batched(index, move |calls| set.repeat(calls))]);
            Ok(())
        })
    }
}

impl Multiplex {
    fn watch(&self, fds: usize) -> Result<WatchedSet> {
        let mut files = Vec::with_capacity(fds);
        for number in 1..=fds {
            // Only the last is ready, so that select and poll reach it after all others.
            files.push(event(u32::from(number == fds)).map_err(|error| fd_fault(fds, error))?);
        }
        let request = match self.call {
            MultiplexCall::Select => MultiplexRequest::select(&files),
            MultiplexCall::Poll => MultiplexRequest::poll(&files),
            MultiplexCall::Epoll => {
                MultiplexRequest::epoll(&files).map_err(|error| fd_fault(fds, error))?
            }
        };
        Ok(WatchedSet { files, request, expected: 1 })
    }
}

/// Linear extrapolation from the two small cases. Not from getppid and the smallest case: the
/// call's fixed part (copying, checking) would then be multiplied with the descriptors.
fn extrapolate(metric: &str, fds: i64, known: &Inputs<'_>) -> Model {
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
    let source = "each descriptor costs one lookup and one poll of its file: Linux fs/select.c, \
                  do_select and do_poll";
    Ok(Prediction::sum(0.0, value, 0.3, &formula, source)
        .self_consistent()
        .with_input(&a, from, Origin::this_run(&a))
        .with_input(&b, to, Origin::this_run(&b))
        .otherwise("descriptors cost more in a large set: the files no longer fit in L1"))
}

/// An eventfd, which is readable if its count is not 0.
fn event(count: u32) -> rustix::io::Result<OwnedFd> {
    eventfd(count, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
}

/// Raises this process's soft limit on descriptors as far as needed and allowed.
fn raise_limit(needed: u64) {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < needed) {
        let current = Some(limit.maximum.map_or(needed, |maximum| maximum.min(needed)));
        // If this fails, creating the descriptors reports the limit.
        let _ = setrlimit(Resource::Nofile, Rlimit { current, maximum: limit.maximum });
    }
}

/// The fault for a set that could not be created.
fn fd_fault(fds: usize, error: rustix::io::Errno) -> SamplerFault {
    let remedy = match error {
        rustix::io::Errno::MFILE => Remedy::raise(&["`ulimit -Hn`", "LimitNOFILE"]),
        rustix::io::Errno::NFILE => Remedy::raise(&["fs.file-max"]),
        rustix::io::Errno::NOMEM => Remedy::FreeMemory,
        rustix::io::Errno::NOSPC => Remedy::raise(&["fs.epoll.max_user_watches"]),
        rustix::io::Errno::PERM | rustix::io::Errno::NOSYS => Remedy::LeaveSandbox,
        _ => return SamplerFault::system("eventfd", error),
    };
    SamplerFault::unavailable(format!("{fds} descriptors to watch: {error}"), remedy)
}

struct WatchedSet {
    files: Vec<OwnedFd>,
    request: MultiplexRequest,
    /// Ready descriptors: the result that each call must return.
    expected: isize,
}

/// Arguments and result buffer of each call.
enum MultiplexRequest {
    Select { watched: Vec<u64>, set: Vec<u64>, highest: usize },
    Poll { list: Vec<libc::pollfd> },
    Epoll { epoll: OwnedFd, events: [libc::epoll_event; EVENTS] },
}

const WORD_BITS: usize = u64::BITS as usize;

impl MultiplexRequest {
    fn select(files: &[OwnedFd]) -> Self {
        let highest = files.iter().map(|file| file.as_raw_fd() as usize).max().unwrap_or(0);
        let mut watched = vec![0; highest / WORD_BITS + 1];
        for file in files {
            let number = file.as_raw_fd() as usize;
            watched[number / WORD_BITS] |= 1 << (number % WORD_BITS);
        }
        Self::Select { set: watched.clone(), watched, highest }
    }

    fn poll(files: &[OwnedFd]) -> Self {
        let entry = |file: &OwnedFd| libc::pollfd {
            fd: file.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        Self::Poll { list: files.iter().map(entry).collect() }
    }

    fn epoll(files: &[OwnedFd]) -> rustix::io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (number, file) in (1..).zip(files) {
            let data = epoll::EventData::new_u64(number);
            // Level-triggered, so that the ready descriptor is reported by every call.
            epoll::add(&epoll, file, data, epoll::EventFlags::IN)?;
        }
        let events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
        Ok(Self::Epoll { epoll, events })
    }

    /// Makes one call; returns the number of ready descriptors or a negative errno.
    #[inline(always)]
    fn call(&mut self) -> isize {
        match self {
            Self::Select { watched, set, highest } => {
                // select overwrites the set, so a program has to restore it for every call.
                set.copy_from_slice(watched);
                let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
                let (set, now) = (set.as_mut_ptr() as usize, &raw const now as usize);
                // pselect6, because aarch64 has no select; the last 0 means no signal mask.
                let arguments = [*highest + 1, set, 0, 0, now, 0];
                // SAFETY: the set has a bit for each number up to the highest, the timeout lives
                // until the call returns, and the other pointers may be null.
                unsafe { system_call_of_six(libc::SYS_pselect6, arguments) }
            }
            Self::Poll { list } => poll(list),
            Self::Epoll { epoll, events } => epoll_wait(epoll, events),
        }
    }

    /// Whether the last call reported the last of `fds` descriptors and no other.
    fn reported_only_last(&self, fds: usize) -> bool {
        match self {
            Self::Select { watched, set, highest } => {
                let mut last_only = vec![0; watched.len()];
                last_only[highest / WORD_BITS] = 1 << (highest % WORD_BITS);
                *set == last_only
            }
            Self::Poll { list } => list.split_last().is_some_and(|(last, others)| {
                last.revents == libc::POLLIN && others.iter().all(|other| other.revents == 0)
            }),
            Self::Epoll { events, .. } => {
                let libc::epoll_event { events, u64: number } = events[0];
                number == fds as u64 && events == libc::EPOLLIN as u32
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn poll(list: &mut [libc::pollfd]) -> isize {
    let arguments = [list.as_mut_ptr() as usize, list.len(), 0, 0, 0, 0];
    // SAFETY: the list is writable and of the given length.
    unsafe { system_call_of_six(libc::SYS_poll, arguments) }
}

#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn poll(list: &mut [libc::pollfd]) -> isize {
    let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let arguments = [list.as_mut_ptr() as usize, list.len(), &raw const now as usize, 0, 0, 0];
    // SAFETY: the list is writable and of the given length; the timeout outlives the call.
    unsafe { system_call_of_six(libc::SYS_ppoll, arguments) }
}

#[cfg(target_arch = "x86_64")]
const EPOLL_WAIT: i64 = libc::SYS_epoll_wait;
#[cfg(target_arch = "aarch64")]
const EPOLL_WAIT: i64 = libc::SYS_epoll_pwait;

#[inline(always)]
fn epoll_wait(epoll: &OwnedFd, events: &mut [libc::epoll_event; EVENTS]) -> isize {
    let descriptor = epoll.as_raw_fd() as usize;
    let arguments = [descriptor, events.as_mut_ptr() as usize, EVENTS, 0, 0, 0];
    // SAFETY: the buffer holds EVENTS events; there is no signal mask.
    unsafe { system_call_of_six(EPOLL_WAIT, arguments) }
}

impl WatchedSet {
    /// Makes `calls` calls and returns how many had the expected result; 0 if the last one
    /// reported a wrong descriptor, which is too slow to check in the loop.
    fn repeat(&mut self, calls: u64) -> u64 {
        let expected = self.expected;
        let mut matched = 0;
        for _ in 0..calls {
            matched += u64::from(self.request.call() == expected);
        }
        if self.request.reported_only_last(self.files.len()) { matched } else { 0 }
    }
}

#[cfg(test)]
mod tests;
