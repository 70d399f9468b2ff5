//! Counting at the stops of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use fathom_measure::clock::{monotonic_raw_ns, wall_ns};
use libc::pid_t;

use super::calls::{CallKind, call};
use super::copies::Copies;
use super::count::{Counts, FaultKind, Operation, Place, Wait};
use super::descriptor::{Descriptors, pages_of};
use super::memory::{AddressSpace, Faults, Pages};

/// Results of calls that a signal interrupted, and that the kernel may begin again.
const RESTARTED: std::ops::RangeInclusive<i64> = -516..=-512;

const TICK_NS: u64 = 10_000_000;

/// A call that has begun.
#[derive(Clone, Copy, Debug)]
struct Begun {
    number: i64,
    arguments: [u64; 6],
    at_ns: u64,
    /// Pages of a file that it deletes or empties.
    drops: u64,
    /// Neither of the last two calls of the thread was the same.
    is_mixed: bool,
}

#[derive(Clone, Copy, Debug)]
struct WatchedThread {
    process: pid_t,
    begun: Option<Begun>,
    /// The numbers of its last calls.
    last: [i64; 2],
}

impl WatchedThread {
    fn new(process: pid_t) -> Self {
        Self { process, begun: None, last: [-1; 2] }
    }
}

#[derive(Clone, Debug, Default)]
struct WatchedProcess {
    descriptors: Descriptors,
    space: AddressSpace,
    /// The address space is that of its parent, until it executes a program.
    shares: bool,
    threads: usize,
    forks: u64,
    /// What the address space had when the last exec began: then it is gone.
    before_exec: Option<(Pages, Faults)>,
    /// What it had when it exited.
    at_end: Option<(Pages, Faults)>,
}

/// How a thread or process came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Birth {
    Fork,
    Vfork,
    Thread,
}

/// Threads and processes of a run, and what they did so far.
#[derive(Debug, Default)]
pub(super) struct Watch {
    threads: BTreeMap<pid_t, WatchedThread>,
    processes: BTreeMap<pid_t, WatchedProcess>,
    /// Attached threads before their first stop: of a call that they are in, nothing is seen.
    unseen: BTreeSet<pid_t>,
    copies: Copies,
    pub(super) counts: Counts,
    /// By the clock of file systems, which lags by up to a tick.
    begun_ns: u64,
}

impl Watch {
    pub(super) fn begin(&mut self, root: pid_t) {
        self.begun_ns = wall_ns().saturating_sub(TICK_NS);
        self.threads.insert(root, WatchedThread::new(root));
        self.processes.insert(root, WatchedProcess { threads: 1, ..WatchedProcess::default() });
    }

    /// A thread of a process that runs already.
    pub(super) fn attached(&mut self, process: pid_t, thread: pid_t) {
        self.threads.insert(thread, WatchedThread::new(process));
        self.processes.entry(process).or_default().threads += 1;
        self.unseen.insert(thread);
    }

    pub(super) fn stopped(&mut self, thread: pid_t) {
        self.unseen.remove(&thread);
    }

    /// Whether the next call of each thread is seen.
    pub(super) fn sees_all(&self) -> bool {
        self.unseen.iter().all(|thread| !self.is_known(*thread))
    }

    /// Counts from here on.
    pub(super) fn restart(&mut self) {
        self.counts = Counts::default();
        self.copies = Copies::default();
        self.begun_ns = wall_ns().saturating_sub(TICK_NS);
        for (process, of) in &mut self.processes {
            of.space = AddressSpace {
                pages: Pages::read(*process).unwrap_or_default(),
                faults: Faults::read(*process).unwrap_or_default(),
                is_forked: false,
            };
        }
    }

    /// What was counted, while the processes run on.
    pub(super) fn counted(&mut self) -> Counts {
        for (process, of) in self.processes.clone() {
            if let Some((pages, faults)) = Pages::read(process).zip(Faults::read(process)) {
                let kept = if of.shares { 0 } else { pages.since(of.space.pages) };
                self.end_space(&of, (pages, kept), faults, false);
            }
        }
        self.ended()
    }

    /// What was counted, with what copying from its files takes now.
    pub(super) fn ended(&mut self) -> Counts {
        Counts { copied: self.copies.measured(), ..std::mem::take(&mut self.counts) }
    }

    pub(super) fn is_known(&self, thread: pid_t) -> bool {
        self.threads.contains_key(&thread)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    pub(super) fn threads(&self) -> impl Iterator<Item = (pid_t, pid_t)> {
        self.threads.iter().map(|(thread, of)| (*thread, of.process))
    }

    /// A new thread or process at its first stop, before it did anything.
    pub(super) fn born(&mut self, child: pid_t, parent: Option<pid_t>, birth: Birth) {
        let parent = parent.and_then(|it| self.threads.get(&it)).map(|it| it.process);
        if birth == Birth::Thread
            && let Some(process) = parent
        {
            self.counts.add(Operation::Thread, 0);
            self.threads.insert(child, WatchedThread::new(process));
            if let Some(of) = self.processes.get_mut(&process) {
                of.threads += 1;
            }
            return;
        }
        let shares = birth == Birth::Vfork;
        match shares {
            true => self.counts.add(Operation::Vfork, 0),
            false => self.counts.add(Operation::Fork, resident_bytes(child)),
        }
        if let Some(of) = parent.and_then(|it| self.processes.get_mut(&it)).filter(|_| !shares) {
            of.forks += 1;
        }
        let space = AddressSpace {
            pages: if shares { Pages::default() } else { Pages::read(child).unwrap_or_default() },
            faults: Faults::default(),
            is_forked: !shares,
        };
        let process = WatchedProcess { space, shares, threads: 1, ..WatchedProcess::default() };
        self.processes.insert(child, process);
        self.threads.insert(child, WatchedThread::new(child));
    }

    /// A program was executed; `former` is the thread that did it.
    pub(super) fn executed(&mut self, process: pid_t, former: pid_t) {
        self.counts.add(Operation::Exec, 0);
        if self.threads.get(&former).is_none_or(|it| it.begun.is_none()) {
            // The first one began before it was followed.
            *self.counts.calls.entry("execve".to_owned()).or_default() += 1;
        }
        let begun = self.threads.get(&former).and_then(|it| it.begun);
        self.threads.retain(|thread, of| of.process != process || *thread == process);
        self.threads.insert(process, WatchedThread { begun, ..WatchedThread::new(process) });
        let Some(of) = self.processes.get_mut(&process) else { return };
        let before = of.clone();
        of.descriptors.clear();
        of.threads = 1;
        (of.shares, of.forks, of.before_exec) = (false, 0, None);
        of.space = AddressSpace {
            pages: Pages::read(process).unwrap_or_default(),
            faults: Faults::read(process).unwrap_or_default(),
            is_forked: false,
        };
        if let Some((pages, faults)) = before.before_exec {
            self.end_space(&before, (pages, 0), faults, before.space.is_forked);
        }
    }

    /// A thread is about to exit; with the last one of a process the address space goes.
    pub(super) fn exits(&mut self, thread: pid_t) {
        let Some(WatchedThread { process, begun, .. }) = self.threads.get(&thread).copied() else {
            return;
        };
        let Some(of) = self.processes.get_mut(&process) else { return };
        of.threads = of.threads.saturating_sub(1);
        // Before Linux 5.17 the other threads that exit with a process have no stop.
        let is_of_all = begun.is_some_and(|it| it.number == libc::SYS_exit_group);
        if of.threads == 0 || is_of_all || thread == process {
            of.at_end = Pages::read(thread).zip(Faults::read(thread)).or(of.at_end);
        }
    }

    /// Of a process the first thread is gone last.
    pub(super) fn gone(&mut self, thread: pid_t) {
        self.threads.remove(&thread);
        if let Some(of) = self.processes.remove(&thread)
            && let Some((pages, faults)) = of.at_end
        {
            self.end_space(&of, (pages, 0), faults, false);
        }
    }

    /// The faults of an address space, of whose new pages `kept` stay. Those of a shared one have
    /// no pages of their own; a vfork would have had none (`is_spare`).
    fn end_space(
        &mut self,
        of: &WatchedProcess,
        (pages, kept): (Pages, u64),
        faults: Faults,
        is_spare: bool,
    ) {
        let end = if of.shares { Pages::default() } else { pages };
        let (mut all, again) = of.space.faults(end, faults);
        // What a fork shared, its parent copies as it goes on.
        let copied = again.min(of.forks.saturating_mul(end.own));
        all[0].1 -= copied;
        all[2].1 += copied;
        let (mut freed, mut spare) = (0, 0);
        for (kind, count, pages) in all {
            let of_fork = match kind {
                _ if is_spare => count,
                FaultKind::Cow => copied,
                _ => 0,
            };
            self.counts.add_forked(Operation::Fault(kind), (count, of_fork), pages);
            if matches!(kind, FaultKind::Anonymous | FaultKind::Cow) {
                freed += count;
                spare += of_fork;
            }
        }
        // Each page of its own is freed once.
        let freed = freed.saturating_sub(kept);
        self.counts.add_forked(Operation::Free, (freed, spare.min(freed)), 0);
    }

    pub(super) fn enters(&mut self, thread: pid_t, number: i64, arguments: [u64; 6]) {
        let (name, kind) = named(number);
        let Some(of) = self.threads.get_mut(&thread) else { return };
        let drops = dropped(thread, number, kind, arguments);
        let is_mixed = !of.last.contains(&number);
        of.last = [of.last[1], number];
        of.begun = Some(Begun { number, arguments, at_ns: 0, drops, is_mixed });
        match kind {
            CallKind::Exec => {
                let process = of.process;
                let pages = Pages::read(thread).zip(Faults::read(thread));
                if let Some(of) = self.processes.get_mut(&process) {
                    of.before_exec = pages;
                }
            }
            // They do not return.
            CallKind::Plain(operation)
                if [libc::SYS_exit, libc::SYS_exit_group].contains(&number) =>
            {
                *self.counts.calls.entry(name).or_default() += 1;
                self.counts.add(operation, 0);
            }
            _ => {}
        }
        // Last: what this took is no time of the call.
        if let Some(begun) = self.threads.get_mut(&thread).and_then(|it| it.begun.as_mut()) {
            begun.at_ns = monotonic_raw_ns();
        }
    }

    pub(super) fn leaves(&mut self, thread: pid_t, result: i64) {
        let now_ns = monotonic_raw_ns();
        let Some(of) = self.threads.get_mut(&thread) else { return };
        let process = of.process;
        let Some(begun) = of.begun.take() else { return };
        let (name, kind) = named(begun.number);
        *self.counts.calls.entry(name).or_default() += 1;
        self.counts.is_mixed = begun.is_mixed;
        if result >= 0 {
            self.counts.add_many(Operation::Drop, begun.drops, 0);
        }
        if RESTARTED.contains(&result) {
            self.counts.add(Operation::Entry, 0);
        } else {
            self.count(thread, process, &begun, kind, result);
        }
        let taken_ns = now_ns.saturating_sub(begun.at_ns);
        match self.waits_for(thread, process, &begun, kind) {
            Some(wait) => {
                let (count, ns) = self.counts.waits.entry(wait).or_default();
                *count += 1;
                *ns += taken_ns;
            }
            None if self.counts.stop_ns == 0 || taken_ns < self.counts.stop_ns => {
                self.counts.stop_ns = taken_ns;
            }
            None => {}
        }
    }

    fn count(&mut self, thread: pid_t, process: pid_t, begun: &Begun, kind: CallKind, result: i64) {
        let has_failed = result < 0;
        let bytes = u64::try_from(result).unwrap_or(0);
        let argument = |at: usize| begun.arguments.get(at).copied().unwrap_or(0);
        match kind {
            CallKind::Read => self.read(thread, (process, argument(0)), bytes),
            CallKind::Write => {
                let place = self.place(thread, process, argument(0));
                self.counts.add(Operation::Write(place), bytes);
            }
            CallKind::ReadMessages | CallKind::WriteMessages | CallKind::Sleep => {
                self.counts.add(Operation::Other, 0);
            }
            CallKind::Between { from, to } => {
                let [from, to] = [from, to].map(|at| self.place(thread, process, argument(at)));
                self.counts.add(Operation::Read(from), bytes);
                self.counts.add(Operation::Write(to), bytes);
            }
            CallKind::Open { path } => {
                let operation = self.opened(thread, flags(begun.number, path, argument), result);
                self.counts.add(operation, 0);
            }
            CallKind::Delete { .. } => self.counts.add(Operation::Delete, 0),
            // Their time is in that of the open.
            CallKind::Close => self.forget(process, Some(argument(0))),
            CallKind::CloseRange => {
                self.forget(process, None);
                self.counts.add(Operation::Other, 0);
            }
            CallKind::Replace => {
                self.forget(process, Some(argument(1)));
                self.counts.add(Operation::Entry, 0);
            }
            CallKind::StatAt { flags } => {
                let is_of_descriptor = argument(flags) & libc::AT_EMPTY_PATH as u64 != 0;
                let operation = if is_of_descriptor { Operation::Fstat } else { Operation::Stat };
                self.counts.add(operation, 0);
            }
            CallKind::Sized(operation) if has_failed && operation == Operation::Map => {
                self.counts.add(Operation::Entry, 0);
            }
            CallKind::Sized(operation) => self.counts.add(operation, argument(1)),
            CallKind::Returned(operation) => self.counts.add(operation, bytes),
            CallKind::Futex => self.counts.add(
                match is_futex_wait(argument(1)) {
                    true => Operation::FutexWait,
                    false => Operation::FutexWake,
                },
                0,
            ),
            CallKind::WaitChild => self.counts.add(Operation::Entry, 0),
            CallKind::Many { operation, count } => self.counts.add(operation, argument(count)),
            CallKind::Socket(operation) => {
                let place = self.place(thread, process, argument(0));
                let is_unix = operation == Operation::Connect && place == Place::UnixSocket;
                self.counts.add(if is_unix { Operation::ConnectUnix } else { operation }, 0);
            }
            CallKind::File(operation) => self.counts.add(operation, 0),
            CallKind::Create if has_failed => self.counts.add(Operation::Other, 0),
            CallKind::Exec if has_failed => self.counts.add(Operation::OpenFailed, 0),
            CallKind::Create | CallKind::Exec => {}
            CallKind::Ring => {
                self.counts.uncounted.insert("what io_uring does inside the kernel");
                self.counts.add(Operation::Other, 0);
            }
            CallKind::Plain(operation) => self.counts.add(operation, 0),
        }
    }

    fn read(&mut self, thread: pid_t, (process, descriptor): (pid_t, u64), bytes: u64) {
        let place = self.place(thread, process, descriptor);
        self.counts.add(Operation::Read(place), bytes);
        if place == Place::File {
            self.copies.add(thread, (process, descriptor), bytes);
        }
    }

    fn waits_for(
        &mut self,
        thread: pid_t,
        process: pid_t,
        begun: &Begun,
        kind: CallKind,
    ) -> Option<Wait> {
        let from = begun.arguments[0];
        match kind {
            CallKind::Read | CallKind::Write => match self.place(thread, process, from) {
                Place::File => Some(Wait::File),
                Place::Pipe => Some(Wait::Pipe),
                Place::UnixSocket | Place::Socket => Some(Wait::Socket),
                Place::Other => Some(Wait::Events),
                Place::Device | Place::Proc => None,
            },
            CallKind::ReadMessages | CallKind::WriteMessages | CallKind::Socket(_) => {
                Some(Wait::Socket)
            }
            CallKind::File(_) | CallKind::Delete { .. } | CallKind::Between { .. } => {
                Some(Wait::File)
            }
            CallKind::Futex => is_futex_wait(begun.arguments[1]).then_some(Wait::Futex),
            CallKind::Sleep => Some(Wait::Sleep),
            CallKind::WaitChild => Some(Wait::Child),
            CallKind::Many { .. } => Some(Wait::Events),
            _ => None,
        }
    }

    fn opened(&self, thread: pid_t, flags: Option<u64>, result: i64) -> Operation {
        let may_create = flags.is_none_or(|flags| flags & libc::O_CREAT as u64 != 0);
        match result {
            ..0 => Operation::OpenFailed,
            number if may_create && self.is_new(thread, number) => Operation::Create,
            _ => Operation::Open,
        }
    }

    /// Whether the file behind a descriptor was created since the run began.
    fn is_new(&self, thread: pid_t, number: i64) -> bool {
        let path = format!("/proc/{thread}/fd/{number}");
        let wanted = rustix::fs::StatxFlags::BTIME;
        let none = rustix::fs::AtFlags::empty();
        rustix::fs::statx(rustix::fs::CWD, &path, none, wanted).is_ok_and(|file| {
            let born = file.stx_btime;
            let born_ns = born.tv_sec as u64 * 1_000_000_000 + u64::from(born.tv_nsec);
            file.stx_mask & wanted.bits() != 0 && born_ns >= self.begun_ns
        })
    }

    fn place(&mut self, thread: pid_t, process: pid_t, number: u64) -> Place {
        let Some(of) = self.processes.get_mut(&process) else { return Place::Other };
        of.descriptors.place(thread, number as i32)
    }

    fn forget(&mut self, process: pid_t, number: Option<u64>) {
        self.copies.forget(process, number);
        let Some(of) = self.processes.get_mut(&process) else { return };
        match number {
            Some(number) => of.descriptors.forget(number as i32),
            None => of.descriptors.clear(),
        }
    }
}

/// The flags of an open; `None` if they are not in an argument.
fn flags(number: i64, path: usize, argument: impl Fn(usize) -> u64) -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    if number == libc::SYS_creat {
        return Some((libc::O_CREAT | libc::O_TRUNC) as u64);
    }
    (number != libc::SYS_openat2).then(|| argument(path + 1))
}

/// The pages of the file that a call is about to delete or empty.
fn dropped(thread: pid_t, number: i64, kind: CallKind, arguments: [u64; 6]) -> u64 {
    let argument = |at: usize| arguments.get(at).copied().unwrap_or(0);
    let folder = |path: usize| match path {
        0 => libc::AT_FDCWD,
        _ => argument(path - 1) as i32,
    };
    match kind {
        CallKind::Open { path }
            if flags(number, path, argument)
                .is_some_and(|flags| flags & libc::O_TRUNC as u64 != 0) =>
        {
            pages_of(thread, folder(path), argument(path), false)
        }
        CallKind::Delete { path } => pages_of(thread, folder(path), argument(path), true),
        _ => 0,
    }
}

fn named(number: i64) -> (String, CallKind) {
    match call(number) {
        Some((name, kind)) => (name.to_owned(), kind),
        None => (format!("call {number}"), CallKind::Plain(Operation::Other)),
    }
}

/// FUTEX_WAIT, _WAIT_BITSET, _LOCK_PI, _WAIT_REQUEUE_PI and _LOCK_PI2, private or not.
fn is_futex_wait(operation: u64) -> bool {
    matches!(operation & 0x7f, 0 | 6 | 9 | 11 | 13)
}

fn resident_bytes(process: pid_t) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/statm")).unwrap_or_default();
    let pages: Option<u64> = text.split_whitespace().nth(1).and_then(|it| it.parse().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}
