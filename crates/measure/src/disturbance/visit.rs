//! The counters around a visit: files of `/proc` and of the cgroup, kept open.

use fathom_record::Disturbance;

use super::counters::{DisturbanceCounters, difference};
use super::device::{self, Devices};
use super::round::{RoundUsage, current_cpu};
use super::throttle::{Throttle, ThrottleCount};
use crate::clock;
use crate::host::cpuid::Cpuid;
use crate::tree::{FileTree, after};

/// Counters of a visit. Reading all of them takes tens of microseconds, and more on a machine with
/// many CPUs.
#[derive(Debug)]
pub struct VisitCounters {
    cpu: u32,
    scheduler: DisturbanceCounters,
    machine: DisturbanceCounters,
    pressure: DisturbanceCounters,
    devices: Devices,
    throttle: Throttle,
    reports_steal: bool,
    ticks_per_s: u64,
    /// CPU clocks of running children of the probe.
    children: Vec<libc::clockid_t>,
    /// Their run-queue delay, which shows contention on another CPU.
    children_scheduler: Vec<DisturbanceCounters>,
    /// Threads that work in lockstep with the caller, each on its own CPU.
    crew: Vec<VisitMember>,
    mark: VisitReading,
}

#[derive(Debug)]
struct VisitMember {
    cpu: u32,
    clock: libc::clockid_t,
    scheduler: DisturbanceCounters,
}

/// The counters of a thread and of its CPU.
#[derive(Clone, Copy, Debug, Default)]
struct ThreadCounters {
    scheduler: Option<Scheduler>,
    times: VisitTimes,
}

#[derive(Clone, Debug, Default)]
struct VisitReading {
    wall_ns: u64,
    cpu_ns: u64,
    usage: RoundUsage,
    /// CPU time of the calling thread and of each crew member. Empty without a crew.
    crew_cpu_ns: Vec<u64>,
    files: FileCounters,
}

/// The counters that need a read of a file each.
#[derive(Clone, Debug, Default)]
struct FileCounters {
    own: ThreadCounters,
    children: Vec<Option<Scheduler>>,
    crew: Vec<ThreadCounters>,
    throttle: Vec<ThrottleCount>,
    pressure_us: Option<u64>,
    devices: Option<device::DeviceCount>,
}

impl VisitCounters {
    /// Opens the counters of the calling thread, which must be the measuring one, and marks the
    /// start. Later changes of quota or cgroup are not detected.
    pub fn open(cpu: u32) -> Self {
        let reports_steal = Cpuid::read().is_none_or(|cpuid| cpuid.reports_steal());
        Self::open_at(&FileTree::at("/"), cpu, reports_steal)
    }

    fn open_at(tree: &FileTree, cpu: u32, reports_steal: bool) -> Self {
        // `self` is the main thread of the process, `thread-self` the calling one.
        let own = ["/proc/thread-self/schedstat", "/proc/self/schedstat"];
        let own = own.into_iter().find(|path| tree.exists(path)).unwrap_or(own[1]);
        let mut counters = Self {
            cpu,
            scheduler: DisturbanceCounters::open(tree, own),
            machine: DisturbanceCounters::open(tree, "/proc/stat"),
            pressure: DisturbanceCounters::open(tree, "/proc/pressure/cpu"),
            devices: Devices::open(tree),
            throttle: Throttle::find(tree),
            reports_steal,
            ticks_per_s: rustix::param::clock_ticks_per_second(),
            children: Vec::new(),
            children_scheduler: Vec::new(),
            crew: Vec::new(),
            mark: VisitReading::default(),
        };
        counters.mark();
        counters
    }

    /// Includes the CPU time of a running child from the next mark on. The CPU time of reaped
    /// children is always included.
    pub fn also_count(&mut self, child: u32) {
        let mut clock = 0;
        // SAFETY: writes one clock id to a valid address.
        let answer = unsafe { libc::clock_getcpuclockid(child as libc::pid_t, &raw mut clock) };
        self.children.extend((answer == 0).then_some(clock));
        let schedstat = format!("/proc/{child}/schedstat");
        self.children_scheduler.push(DisturbanceCounters::open(&FileTree::at("/"), &schedstat));
    }

    /// Sets the threads, by thread id and CPU, that work in lockstep with the caller from the next
    /// mark on. A delay of one delays all, so the maximum of lost time is reported, not the sum.
    pub fn work_with(&mut self, threads: &[(u32, u32)]) {
        self.work_with_at(&FileTree::at("/"), threads);
    }

    fn work_with_at(&mut self, tree: &FileTree, threads: &[(u32, u32)]) {
        let member = |(thread, cpu): &(u32, u32)| VisitMember {
            cpu: *cpu,
            clock: thread_clock(*thread),
            scheduler: DisturbanceCounters::open(
                tree,
                &format!("/proc/self/task/{thread}/schedstat"),
            ),
        };
        self.crew = threads.iter().map(member).collect();
    }

    /// A reading without counter files.
    fn times(&self) -> VisitReading {
        let children: u64 = self.children.iter().map(|clock| cpu_clock_ns(*clock)).sum();
        let reaped = RoundUsage::used_by(libc::RUSAGE_CHILDREN).cpu_ns;
        let crew_cpu_ns = match self.crew.is_empty() {
            true => Vec::new(),
            false => {
                let crew = self.crew.iter().map(|member| member.clock);
                let clocks = [libc::CLOCK_THREAD_CPUTIME_ID].into_iter().chain(crew);
                clocks.map(cpu_clock_ns).collect()
            }
        };
        VisitReading {
            usage: RoundUsage::used_by(libc::RUSAGE_SELF),
            cpu_ns: cpu_clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID) + reaped + children,
            wall_ns: clock::monotonic_raw_ns(),
            crew_cpu_ns,
            files: FileCounters::default(),
        }
    }

    /// Marks the start of a visit.
    pub fn mark(&mut self) {
        // The wall time is read first here and last at the end, so that no counter covers more.
        let times = self.times();
        self.mark = VisitReading { files: self.files(), ..times };
    }

    /// The disturbance since the mark, which stays.
    ///
    /// `migrations` is 1 if the caller is no longer on its CPU, otherwise 0: migrations are counted
    /// around rounds.
    pub fn since_mark(&mut self) -> Disturbance {
        let files = self.files();
        let migrated = current_cpu().is_some_and(|cpu| cpu != self.cpu);
        let now = VisitReading { files, ..self.times() };
        let usage = now.usage.since(&self.mark.usage);
        let (late, early) = (&now.files, &self.mark.files);
        // The maximum over a crew, because the others wait for the slowest.
        let crew = || late.crew.iter().zip(&early.crew);
        let threads = || std::iter::once((&late.own, &early.own)).chain(crew());
        let worst_ns = |ticks: fn(&VisitTimes) -> Option<u64>| {
            threads()
                .filter_map(|(late, early)| difference(ticks(&late.times), ticks(&early.times)))
                .max()?
                .checked_mul(1_000_000_000)?
                .checked_div(self.ticks_per_s)
        };
        let waited = |(late, early): (&ThreadCounters, &ThreadCounters)| {
            Scheduler::waited_ns(late.scheduler, early.scheduler)
        };
        let throttle = self.throttle.between(&late.throttle, &early.throttle);
        let pressure_us = difference(late.pressure_us, early.pressure_us);
        let crew_wait = crew().filter_map(waited).max().unwrap_or(0);
        let pairs = late.children.iter().zip(&early.children);
        let theirs: u64 =
            pairs.filter_map(|(late, early)| Scheduler::waited_ns(*late, *early)).sum();
        Disturbance {
            involuntary_switches: usage.involuntary_switches,
            voluntary_switches: usage.voluntary_switches,
            minor_faults: usage.minor_faults,
            major_faults: usage.major_faults,
            migrations: u64::from(migrated),
            wall_ns: now.wall_ns.saturating_sub(self.mark.wall_ns),
            cpu_ns: now.cpu_ns_since(&self.mark),
            run_queue_ns: waited((&late.own, &early.own)).map(|own| (own + theirs).max(crew_wait)),
            steal_ns: worst_ns(|times| times.steal).filter(|_| self.reports_steal),
            interrupt_ns: worst_ns(|times| times.interrupt),
            throttled_ns: throttle.throttled_ns,
            throttled_periods: throttle.throttled_periods,
            quota_periods: throttle.quota_periods,
            cpu_pressure_ns: pressure_us.and_then(|us| us.checked_mul(1_000)),
            devices: Devices::between(late.devices, early.devices),
        }
    }

    fn files(&self) -> FileCounters {
        let thread = |cpu, scheduler: &DisturbanceCounters| ThreadCounters {
            times: self.machine.read(|text| VisitTimes::parse(text, cpu)).unwrap_or_default(),
            scheduler: scheduler.read(Scheduler::parse),
        };
        FileCounters {
            own: thread(self.cpu, &self.scheduler),
            crew: self.crew.iter().map(|member| thread(member.cpu, &member.scheduler)).collect(),
            children: self.children_scheduler.iter().map(|it| it.read(Scheduler::parse)).collect(),
            throttle: self.throttle.read(),
            pressure_us: self.pressure.read(pressure_us),
            devices: self.devices.read(),
        }
    }
}

impl VisitReading {
    /// CPU time since an earlier reading: of the process and its children, or of the crew member
    /// that ran least.
    fn cpu_ns_since(&self, earlier: &Self) -> u64 {
        let pairs = self.crew_cpu_ns.iter().zip(&earlier.crew_cpu_ns);
        let least = pairs.map(|(late, early)| late.saturating_sub(*early)).min();
        least.unwrap_or(self.cpu_ns.saturating_sub(earlier.cpu_ns))
    }
}

/// The id of the CPU-time clock of a thread: its inverted thread id and three flag bits (the
/// kernel's `CPUCLOCK_PERTHREAD_MASK` and `CPUCLOCK_SCHED`).
fn thread_clock(thread: u32) -> libc::clockid_t {
    const OF_THREAD: libc::clockid_t = 4;
    const SCHEDULER: libc::clockid_t = 2;
    (!(thread as libc::clockid_t) << 3) | OF_THREAD | SCHEDULER
}

/// The CPU time of a process or thread by its clock id. 0 after it has ended.
fn cpu_clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec to a valid address, or fails.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The first two fields of `schedstat`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scheduler {
    ran_ns: u64,
    pub(crate) waited_ns: u64,
}

impl Scheduler {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split_whitespace().map(|field| field.parse().ok());
        Some(Self { ran_ns: fields.next()??, waited_ns: fields.next()?? })
    }

    /// Run-queue delay between two readings. Kernels without schedstats report zeros, so a thread
    /// without run time at the end of a visit is unknown. At the start of a visit, run time may be
    /// zero, because the kernel updates it at each tick.
    fn waited_ns(late: Option<Self>, early: Option<Self>) -> Option<u64> {
        let late = late.filter(|late| late.ran_ns > 0)?;
        difference(Some(late.waited_ns), early.map(|early| early.waited_ns))
    }
}

/// `total=` of the line `some` of a pressure file, in microseconds.
fn pressure_us(text: &str) -> Option<u64> {
    after(text, "some ")?.rsplit_once("total=")?.1.parse().ok()
}

/// Ticks of one CPU in `/proc/stat`.
#[derive(Clone, Copy, Debug, Default)]
struct VisitTimes {
    interrupt: Option<u64>,
    steal: Option<u64>,
}

impl VisitTimes {
    fn parse(text: &str, cpu: u32) -> Option<Self> {
        // user nice system idle iowait irq softirq steal …: proc_stat(5).
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
