//! The counters around a visit: files of `/proc` and of the cgroup, kept open and read again.

use fathom_record::Disturbance;

use super::counters::{Counters, difference};
use super::round::{RoundCounters, Usage, current_cpu};
use super::throttle::{Count, Throttle};
use crate::clock;
use crate::host::cpuid::Cpuid;
use crate::host::tree::{Tree, after};

/// Counters of a visit. Opening finds the files; a reading of all of them takes tens of
/// microseconds, more on a machine with many CPUs, and so belongs around a visit only.
#[derive(Debug)]
pub struct VisitCounters {
    cpu: u32,
    scheduler: Counters,
    machine: Counters,
    pressure: Counters,
    throttle: Throttle,
    steal_is_told: bool,
    ticks_per_s: u64,
    /// Clocks of children whose time counts.
    children: Vec<libc::clockid_t>,
    /// Their run-queue delay: on another CPU nobody else sees who holds it.
    children_scheduler: Vec<Counters>,
    /// Threads that work in step with the caller's, each on a CPU of its own.
    crew: Vec<Member>,
    mark: Reading,
}

/// A thread of this process that works in step with the one that measures.
#[derive(Debug)]
struct Member {
    cpu: u32,
    clock: libc::clockid_t,
    scheduler: Counters,
}

/// The counters of one thread, and of its CPU.
#[derive(Clone, Copy, Debug, Default)]
struct OfThread {
    scheduler: Option<Scheduler>,
    times: Times,
}

/// All counters at one moment.
#[derive(Clone, Debug, Default)]
struct Reading {
    wall_ns: u64,
    cpu_ns: u64,
    usage: Usage,
    /// CPU time of the calling thread and of each of its crew; empty where it works alone.
    crew_cpu_ns: Vec<u64>,
    dear: Dear,
}

/// The counters that cost a file each.
#[derive(Clone, Debug, Default)]
struct Dear {
    own: OfThread,
    children: Vec<Option<Scheduler>>,
    crew: Vec<OfThread>,
    throttle: Vec<Count>,
    pressure_us: Option<u64>,
}

impl VisitCounters {
    /// Finds and opens the counters for the calling thread, pinned to a CPU, and marks the start.
    /// A quota that is set later, or a move to another cgroup, is not seen.
    /// Must be called by the thread that measures: its run-queue delay is the one that is read.
    pub fn open(cpu: u32) -> Self {
        let steal_is_told = Cpuid::ask().is_none_or(|cpuid| cpuid.steal_is_told());
        Self::open_at(&Tree::at("/"), cpu, steal_is_told)
    }

    fn open_at(tree: &Tree, cpu: u32, steal_is_told: bool) -> Self {
        // `self` is the first thread of the process, `thread-self` the one that asks.
        let own = ["/proc/thread-self/schedstat", "/proc/self/schedstat"];
        let own = own.into_iter().find(|path| tree.exists(path)).unwrap_or(own[1]);
        let mut counters = Self {
            cpu,
            scheduler: Counters::open(tree, own),
            machine: Counters::open(tree, "/proc/stat"),
            pressure: Counters::open(tree, "/proc/pressure/cpu"),
            throttle: Throttle::find(tree),
            steal_is_told,
            ticks_per_s: rustix::param::clock_ticks_per_second(),
            children: Vec::new(),
            children_scheduler: Vec::new(),
            crew: Vec::new(),
            mark: Reading::default(),
        };
        counters.mark();
        counters
    }

    /// Counts the CPU time of a living child as well, from the next mark on. That of a child that
    /// was reaped counts without.
    pub fn also_count(&mut self, child: u32) {
        let mut clock = 0;
        // SAFETY: writes one clock id to a valid place.
        let answer = unsafe { libc::clock_getcpuclockid(child as libc::pid_t, &raw mut clock) };
        self.children.extend((answer == 0).then_some(clock));
        let schedstat = format!("/proc/{child}/schedstat");
        self.children_scheduler.push(Counters::open(&Tree::at("/"), &schedstat));
    }

    /// Counts threads of this process as well, from the next mark on: thread number and CPU of
    /// each. They work in step with the caller, so that who waits longest holds all of them up:
    /// of what takes time from a thread, the worst of them is told, not the sum.
    pub fn work_with(&mut self, threads: &[(u32, u32)]) {
        self.work_with_at(&Tree::at("/"), threads);
    }

    fn work_with_at(&mut self, tree: &Tree, threads: &[(u32, u32)]) {
        let member = |(thread, cpu): &(u32, u32)| Member {
            cpu: *cpu,
            clock: thread_clock(*thread),
            scheduler: Counters::open(tree, &format!("/proc/self/task/{thread}/schedstat")),
        };
        self.crew = threads.iter().map(member).collect();
    }

    fn cheap(&self) -> Reading {
        let mut reading = Reading::cheap();
        reading.cpu_ns += self.children.iter().map(|clock| cpu_clock_ns(*clock)).sum::<u64>();
        if !self.crew.is_empty() {
            let own = libc::CLOCK_THREAD_CPUTIME_ID;
            let clocks = [own].into_iter().chain(self.crew.iter().map(|member| member.clock));
            reading.crew_cpu_ns = clocks.map(cpu_clock_ns).collect();
        }
        reading
    }

    /// Marks the start of a visit.
    pub fn mark(&mut self) {
        // The wall time is read first here and last below: no counter can then have moved for
        // longer than it says.
        let cheap = self.cheap();
        self.mark = Reading { dear: self.dear(), ..cheap };
    }

    /// What happened since the mark. The mark stays.
    ///
    /// `migrations` is 1 where the caller is no longer on the CPU it was pinned to, and else 0:
    /// only a reader of every round can count them.
    pub fn since_mark(&mut self) -> Disturbance {
        let dear = self.dear();
        let migrated = current_cpu().is_some_and(|cpu| cpu != self.cpu);
        let now = Reading { dear, ..self.cheap() };
        let delta = now.as_round().since(&self.mark.as_round());
        let (late, early) = (&now.dear, &self.mark.dear);
        // Of what takes time from one of a crew, only the worst counts: the others wait for it.
        let crew = || late.crew.iter().zip(&early.crew);
        let threads = || std::iter::once((&late.own, &early.own)).chain(crew());
        let worst_ns = |ticks: fn(&Times) -> Option<u64>| {
            threads()
                .filter_map(|(late, early)| difference(ticks(&late.times), ticks(&early.times)))
                .max()?
                .checked_mul(1_000_000_000)?
                .checked_div(self.ticks_per_s)
        };
        let waited = |(late, early): (&OfThread, &OfThread)| {
            Scheduler::waited_ns(late.scheduler, early.scheduler)
        };
        let throttle = self.throttle.between(&late.throttle, &early.throttle);
        let pressure_us = difference(late.pressure_us, early.pressure_us);
        let crew_wait = crew().filter_map(waited).max().unwrap_or(0);
        let pairs = late.children.iter().zip(&early.children);
        let theirs: u64 =
            pairs.filter_map(|(late, early)| Scheduler::waited_ns(*late, *early)).sum();
        Disturbance {
            involuntary_switches: delta.involuntary_switches,
            voluntary_switches: delta.voluntary_switches,
            minor_faults: delta.minor_faults,
            major_faults: delta.major_faults,
            migrations: u64::from(migrated),
            wall_ns: now.wall_ns.saturating_sub(self.mark.wall_ns),
            cpu_ns: now.cpu_ns_since(&self.mark),
            run_queue_ns: waited((&late.own, &early.own)).map(|own| (own + theirs).max(crew_wait)),
            steal_ns: worst_ns(|times| times.steal).filter(|_| self.steal_is_told),
            interrupt_ns: worst_ns(|times| times.interrupt),
            throttled_ns: throttle.throttled_ns,
            throttled_periods: throttle.throttled_periods,
            quota_periods: throttle.quota_periods,
            cpu_pressure_ns: pressure_us.and_then(|us| us.checked_mul(1_000)),
        }
    }

    fn dear(&self) -> Dear {
        let thread = |cpu, scheduler: &Counters| OfThread {
            times: self.machine.read(|text| Times::parse(text, cpu)).unwrap_or_default(),
            scheduler: scheduler.read(Scheduler::parse),
        };
        Dear {
            own: thread(self.cpu, &self.scheduler),
            crew: self.crew.iter().map(|member| thread(member.cpu, &member.scheduler)).collect(),
            children: self.children_scheduler.iter().map(|it| it.read(Scheduler::parse)).collect(),
            throttle: self.throttle.read(),
            pressure_us: self.pressure.read(pressure_us),
        }
    }
}

impl Reading {
    fn cheap() -> Self {
        let children = Usage::of(libc::RUSAGE_CHILDREN);
        Self {
            usage: Usage::of(libc::RUSAGE_SELF),
            cpu_ns: cpu_clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID) + children.cpu_ns,
            wall_ns: clock::monotonic_raw_ns(),
            crew_cpu_ns: Vec::new(),
            dear: Dear::default(),
        }
    }

    /// CPU time since an earlier reading: of the process and its children, or of a crew, whose
    /// wall time is that of each, of the thread that ran least.
    fn cpu_ns_since(&self, earlier: &Self) -> u64 {
        let pairs = self.crew_cpu_ns.iter().zip(&earlier.crew_cpu_ns);
        let least = pairs.map(|(late, early)| late.saturating_sub(*early)).min();
        least.unwrap_or(self.cpu_ns.saturating_sub(earlier.cpu_ns))
    }

    fn as_round(&self) -> RoundCounters {
        RoundCounters { usage: self.usage, cpu: None }
    }
}

/// The id of the CPU-time clock of a thread of this process: its number, inverted, before three
/// bits that say "of a thread" and "as the scheduler counts" (the kernel's `CPUCLOCK_` macros).
fn thread_clock(thread: u32) -> libc::clockid_t {
    const OF_THREAD: libc::clockid_t = 4;
    const SCHEDULER: libc::clockid_t = 2;
    (!(thread as libc::clockid_t) << 3) | OF_THREAD | SCHEDULER
}

/// The CPU time by the id of a clock of a process or thread; 0 once that is gone.
fn cpu_clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec to a valid place, or fails.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The first two fields of `schedstat`.
#[derive(Clone, Copy, Debug)]
struct Scheduler {
    ran_ns: u64,
    waited_ns: u64,
}

impl Scheduler {
    fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split_whitespace().map(|field| field.parse().ok());
        Some(Self { ran_ns: fields.next()??, waited_ns: fields.next()?? })
    }

    /// Time waited for a CPU between two readings. A kernel that does not count writes zeros, so a
    /// thread that has not run by the end of a visit is unknown; at its start one may not have
    /// met a tick yet, which is when the kernel brings the field up to date.
    fn waited_ns(late: Option<Self>, early: Option<Self>) -> Option<u64> {
        let late = late.filter(|late| late.ran_ns > 0)?;
        difference(Some(late.waited_ns), early.map(|early| early.waited_ns))
    }
}

/// `some … total=` of a pressure file, in microseconds.
fn pressure_us(text: &str) -> Option<u64> {
    after(text, "some ")?.rsplit_once("total=")?.1.parse().ok()
}

/// Ticks of one CPU in `/proc/stat`.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    interrupt: Option<u64>,
    steal: Option<u64>,
}

impl Times {
    fn parse(text: &str, cpu: u32) -> Option<Self> {
        // user nice system idle iowait irq softirq steal …, proc_stat(5).
        let columns = after(text, &format!("cpu{cpu} "))?.split_whitespace().skip(5);
        let mut columns = columns.map(|column| column.parse::<u64>().ok());
        let mut next = || columns.next().flatten();
        let (irq, softirq, steal) = (next(), next(), next());
        let interrupt = irq.zip(softirq).and_then(|(irq, softirq)| irq.checked_add(softirq));
        Some(Self { interrupt, steal })
    }
}

#[cfg(test)]
mod tests;
