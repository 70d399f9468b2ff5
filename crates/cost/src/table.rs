//! The price of each operation: which results of this host it is made of.
//!
//! A metric that contains two context switches is used without them, since switches are counted.
//! Prices are those of loops, in which code and data are cached: a program whose calls are between
//! others pays [`Row::mixed`] times that, by the programs of docs/evidence/COST.md; at most up to
//! [`Row::above`] more (os.syscall.fresh is the first call of a process, several times the price).

use std::sync::LazyLock;

use fathom_record::CostTime;

use super::count::{FaultKind, Operation, Place, Tally};

/// So many times a result; of a rate, the time of so many bytes; of what waits for a device, what
/// its process was on a CPU meanwhile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Part {
    Time(f64, &'static str),
    Rate(f64, &'static str),
    Cpu(f64, &'static str),
}

impl Part {
    pub(super) fn result(self) -> &'static str {
        let (Self::Time(_, result) | Self::Rate(_, result) | Self::Cpu(_, result)) = self;
        result
    }
}

/// The price at a size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) size: f64,
    pub(super) parts: &'static [Part],
}

/// The same work in another way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Alternative {
    /// All bytes in the blocks of the cheapest point.
    Blocks,
    /// A fault for 512 pages, where there are that many.
    HugePages(&'static [Part]),
    /// Of each one.
    Other(&'static str, &'static [Part]),
    /// A single one.
    Once(&'static str),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) operation: Operation,
    /// One, or several of growing size.
    pub(super) points: &'static [Point],
    /// What it costs in a program, times that of the loop: calls after other calls of their thread,
    /// faults after calls, and all of the rest.
    pub(super) mixed: f64,
    /// By which share the price in a program may be below and above that of the loop.
    pub(super) below: f64,
    pub(super) above: f64,
    pub(super) alternative: Option<Alternative>,
}

use Operation::{Read, Write};
use Part::{Cpu, Rate, Time};

const SWITCH: &str = "os.switch.process{set_bytes=0}";
const GETPPID: &str = "os.syscall{call=getppid}";
const JOIN: &str = "os.thread.create_join";
const EXEC: &str = "os.process.vfork_exec{part=total}";
const KIB: f64 = 1024.0;
const MIB: f64 = 1024.0 * KIB;

const fn at(size: f64, parts: &'static [Part]) -> Point {
    Point { size, parts }
}

/// A call: in a program with more cache misses and mispredictions than in a loop.
const fn call(operation: Operation, points: &'static [Point]) -> Row {
    Row { operation, points, mixed: 1.3, below: 0.2, above: 0.8, alternative: None }
}

/// A call by a name: one of many, as the metric has them; a path of several folders takes longer,
/// one that is asked for again is faster.
const fn path(operation: Operation, points: &'static [Point]) -> Row {
    Row { operation, points, mixed: 1.5, below: 0.4, above: 0.8, alternative: None }
}

/// A copy from or to a file, by the size of its blocks. The files of the metrics are 16 MiB: the
/// pages of a larger one are in no cache of the CPU.
const fn copy(operation: Operation, points: &'static [Point]) -> Row {
    let alternative = Some(Alternative::Blocks);
    Row { operation, points, mixed: 1.2, below: 0.25, above: 1.2, alternative }
}

/// A message. The metrics wake a peer that waits; where none waits, it is cheaper.
const fn message(operation: Operation, points: &'static [Point]) -> Row {
    Row { mixed: 1.0, below: 0.6, above: 0.4, ..copy(operation, points) }
}

/// Two processes on two CPUs contend for its lock, which no metric of one CPU has: then it costs
/// several times as much.
const fn pipe(operation: Operation) -> Row {
    Row { above: 2.5, ..message(operation, PIPE) }
}

const fn fault(kind: FaultKind, points: &'static [Point]) -> Row {
    let operation = Operation::Fault(kind);
    Row { operation, points, mixed: 1.15, below: 0.3, above: 0.5, alternative: None }
}

/// What copies or frees page tables, by its pages.
const fn process(operation: Operation, points: &'static [Point]) -> Row {
    Row { operation, points, mixed: 1.2, below: 0.3, above: 0.6, alternative: None }
}

/// Of a call the instructions before and after those of the kernel are user time.
pub(super) const USER_SIDE: Part = Time(0.25, GETPPID);

pub(super) const ENTRY: &[Point] = &[at(0.0, &[Time(1.0, GETPPID)])];

const PIPE: &[Point] = &[
    at(1.0, &[Time(0.25, "os.pipe.rtt{calls=bare}"), Time(-0.5, SWITCH)]),
    // Of a pipe that is read soon the pages are used again; one that is full takes new ones.
    at(
        4.0 * KIB,
        &[
            Time(0.25, "os.pipe.rtt{calls=bare}"),
            Time(-0.5, SWITCH),
            Time(1.0, "file.call{call=pread4k}"),
            Time(-1.0, "file.call{call=read1}"),
        ],
    ),
    at(
        64.0 * KIB,
        &[Rate(32.0 * KIB, "os.pipe.bandwidth{chunk_bytes=65536,cpus=1}"), Time(-1.0, SWITCH)],
    ),
];
const UNIX: &[Point] = &[
    at(1.0, &[Time(0.25, "os.unix.rtt{kind=stream}"), Time(-0.5, SWITCH)]),
    at(4.0 * KIB, &[Rate(2.0 * KIB, "os.unix.bandwidth{chunk_bytes=4096,cpus=1}")]),
    at(64.0 * KIB, &[Rate(32.0 * KIB, "os.unix.bandwidth{chunk_bytes=65536,cpus=1}")]),
];
const PAGE_WRITE: &[Part] =
    &[Time(1.0, "file.create{bytes=4096}"), Time(-1.0, "file.create{bytes=0}")];
/// Of a block that does not end with a page the page cache makes a folio for each power of two of
/// pages, of 16 whole pages one: five in place of one.
const ODD_WRITE: &[Point] = &[
    at(1.0, &[Time(1.5, "file.call{call=read1}")]),
    at(4.0 * KIB, PAGE_WRITE),
    at(10.0 * KIB, &[Time(1.0, "file.create{bytes=10240}"), Time(-1.0, "file.create{bytes=0}")]),
    at(
        64.0 * KIB,
        &[
            Rate(64.0 * KIB * 11.0 / 15.0, "file.write.throughput{block=65536,sync=none}"),
            Time(64.0 / 15.0, "file.create{bytes=4096}"),
            Time(-64.0 / 15.0, "file.create{bytes=0}"),
        ],
    ),
    at(MIB, &[Rate(MIB, "file.write.throughput{block=65536,sync=none}")]),
];
const FREED: &[Part] = &[Time(1.0 / 4096.0, "memory.munmap{bytes=16777216,touched=yes}")];
pub(super) const VFORK: &str = "vfork or spawn";
const TCP: &[Point] = &[
    at(
        1.0,
        &[Time(0.25, "network.tcp.rtt{bytes=1,cpus=1,mode=block,to=loopback}"), Time(-0.5, SWITCH)],
    ),
    at(
        64.0 * KIB,
        &[Rate(
            32.0 * KIB,
            "network.tcp.bandwidth{chunk_bytes=65536,cpus=1,direction=send,streams=1,to=loopback}",
        )],
    ),
];

pub(super) const TABLE: &[Row] = &[
    copy(
        Read(Place::File),
        &[
            at(1.0, &[Time(1.0, "file.call{call=read1}")]),
            at(
                4.0 * KIB,
                &[Rate(
                    4.0 * KIB,
                    "file.read.throughput{block=4096,state=warm,threads=1,way=read}",
                )],
            ),
            at(
                64.0 * KIB,
                &[Rate(
                    64.0 * KIB,
                    "file.read.throughput{block=65536,state=warm,threads=1,way=read}",
                )],
            ),
            at(
                MIB,
                &[Rate(MIB, "file.read.throughput{block=1048576,state=warm,threads=1,way=read}")],
            ),
        ],
    ),
    // A small write finds its page as a small read does, and then prepares it. That to a new page
    // is what a file of so many bytes takes longer than an empty one; to an existing one less.
    Row {
        below: 0.6,
        ..copy(
            Write(Place::File),
            &[
                at(1.0, &[Time(1.5, "file.call{call=read1}")]),
                at(4.0 * KIB, PAGE_WRITE),
                at(64.0 * KIB, &[Rate(64.0 * KIB, "file.write.throughput{block=65536,sync=none}")]),
                at(MIB, &[Rate(MIB, "file.write.throughput{block=65536,sync=none}")]),
            ],
        )
    },
    pipe(Read(Place::Pipe)),
    pipe(Write(Place::Pipe)),
    message(Read(Place::UnixSocket), UNIX),
    message(Write(Place::UnixSocket), UNIX),
    message(Read(Place::Socket), TCP),
    message(Write(Place::Socket), TCP),
    call(Read(Place::Device), &[at(0.0, &[Time(1.0, "os.syscall{call=read1}")])]),
    call(Write(Place::Device), &[at(0.0, &[Time(1.0, "os.syscall{call=write1}")])]),
    path(Operation::Open, &[at(0.0, &[Time(1.0, "file.path{call=open_close}")])]),
    call(Operation::Create, &[at(0.0, &[Time(1.0, "file.create{bytes=0}")])]),
    path(Operation::OpenFailed, &[at(0.0, &[Time(1.0, "file.path{call=stat}")])]),
    path(Operation::Stat, &[at(0.0, &[Time(1.0, "file.path{call=stat}")])]),
    call(Operation::Fstat, &[at(0.0, &[Time(1.0, "os.syscall{call=fstat}")])]),
    call(Operation::Seek, &[at(0.0, &[Time(1.0, "file.call{call=lseek}")])]),
    // The second call of the metric finds the end; its 66 names have 24 bytes each.
    call(
        Operation::List,
        &[
            at(0.0, &[Time(1.0, GETPPID)]),
            at(66.0 * 24.0, &[Time(64.0, "file.list{bytes=0}"), Time(-1.0, GETPPID)]),
        ],
    ),
    call(Operation::Delete, &[at(0.0, &[Time(1.0, "file.delete{bytes=0}")])]),
    // A lock and its release are two calls.
    call(Operation::Lock, &[at(0.0, &[Time(0.5, "os.file_lock{kind=flock}")])]),
    call(
        Operation::Map,
        &[
            at(4.0 * KIB, &[Time(1.0, "memory.mmap.setup{bytes=4096}")]),
            at(256.0 * MIB, &[Time(1.0, "memory.mmap.setup{bytes=268435456}")]),
        ],
    ),
    // The pages of it are in those that are freed.
    call(
        Operation::Unmap,
        &[
            at(4.0 * KIB, &[Time(1.0, "memory.munmap{bytes=4096,touched=no}")]),
            at(256.0 * MIB, &[Time(1.0, "memory.munmap{bytes=268435456,touched=no}")]),
        ],
    ),
    process(Operation::Free, &[at(0.0, FREED)]),
    // By the blocks of the run's writes, which are its folios: those of a page are removed from the
    // tree of their file and from its blocks one by one, those of large ones as those of memory.
    Row {
        above: 1.2,
        ..process(
            Operation::Drop,
            &[
                at(
                    4.0 * KIB,
                    &[Time(0.5, "file.delete{bytes=10240}"), Time(-0.5, "file.delete{bytes=4096}")],
                ),
                at(64.0 * KIB, FREED),
            ],
        )
    },
    Row {
        alternative: Some(Alternative::HugePages(&[Time(1.0, "memory.fault{kind=huge}")])),
        ..fault(
            FaultKind::Anonymous,
            &[at(0.0, &[Time(1.0, "memory.fault{kind=anonymous_first}")])],
        )
    },
    fault(FaultKind::Huge, &[at(0.0, &[Time(1.0, "memory.fault{kind=huge}")])]),
    fault(FaultKind::Cow, &[at(0.0, &[Time(1.0, "memory.fault{kind=cow}")])]),
    // By the pages around that a fault brings.
    fault(
        FaultKind::File,
        &[
            at(1.0, &[Time(1.0, "memory.fault{kind=file_page}")]),
            at(16.0, &[Time(1.0, "memory.fault{kind=file_minor}")]),
        ],
    ),
    // Of the metric's process 1.5 MiB of its own are copied, too; pages of files are not.
    Row {
        mixed: 1.0,
        below: 0.6,
        alternative: Some(Alternative::Other(VFORK, &[Time(1.0, JOIN)])),
        ..process(
            Operation::Fork,
            &[
                at(
                    2.5 * MIB,
                    &[
                        Time(1.0, "os.process.fork{part=total,rss_bytes=1048576}"),
                        Time(-2.0, SWITCH),
                    ],
                ),
                at(
                    17.5 * MIB,
                    &[
                        Time(1.0, "os.process.fork{part=total,rss_bytes=16777216}"),
                        Time(-2.0, SWITCH),
                    ],
                ),
                at(
                    257.5 * MIB,
                    &[
                        Time(1.0, "os.process.fork{part=total,rss_bytes=268435456}"),
                        Time(-2.0, SWITCH),
                    ],
                ),
            ],
        )
    },
    process(Operation::Vfork, &[at(0.0, &[Time(1.0, JOIN), Time(-2.0, SWITCH)])]),
    // The program of the metric is static; others have an interpreter, and more to unmap.
    Row {
        mixed: 1.6,
        above: 1.2,
        ..process(Operation::Exec, &[at(0.0, &[Time(1.0, EXEC), Time(-1.0, JOIN)])])
    },
    // The metric keeps it on the CPU of its creator. Its seven short calls are counted apart.
    Row {
        mixed: 1.0,
        above: 0.8,
        ..process(
            Operation::Thread,
            &[at(0.0, &[Time(1.0, JOIN), Time(-2.0, SWITCH), Time(-7.0, GETPPID)])],
        )
    },
    // Its start wakes another CPU, and its end that of its creator; of either, half of the time is
    // that of a CPU on the account of both.
    Row {
        mixed: 1.0,
        below: 0.6,
        above: 1.0,
        ..process(Operation::Elsewhere, &[at(0.0, &[Time(1.0, "os.wake.cross_cpu{via=futex}")])])
    },
    // A wake-up of another CPU takes longer, and part of it is not on the account of the sleeper.
    Row { below: 0.5, ..call(Operation::Switch, &[at(0.0, &[Time(1.0, SWITCH)])]) },
    // Of a wait for a device, the work before and after it.
    Row {
        mixed: 1.0,
        below: 0.6,
        ..call(Operation::Sync, &[at(0.0, &[Cpu(1.0, "file.fsync{bytes=4096}")])])
    },
    call(Operation::FutexWait, &[at(0.0, &[Time(1.0, "os.futex.uncontended{op=wake}")])]),
    call(Operation::FutexWake, &[at(0.0, &[Time(1.0, "os.futex.uncontended{op=wake}")])]),
    call(
        Operation::Select,
        &[
            at(10.0, &[Time(1.0, "os.select{fds=10}")]),
            at(100.0, &[Time(1.0, "os.select{fds=100}")]),
        ],
    ),
    call(
        Operation::Poll,
        &[at(10.0, &[Time(1.0, "os.poll{fds=10}")]), at(100.0, &[Time(1.0, "os.poll{fds=100}")])],
    ),
    call(Operation::Epoll, &[at(0.0, &[Time(1.0, "os.epoll{fds=10}")])]),
    Row {
        alternative: Some(Alternative::Once("one connection")),
        ..call(Operation::Connect, &[at(0.0, &[Time(1.0, "network.tcp.connect{to=loopback}")])])
    },
    call(Operation::ConnectUnix, &[at(0.0, &[Time(1.0, "os.unix.connect")])]),
    call(Operation::Accept, &[at(0.0, &[Time(1.0, "network.tcp.accept")])]),
    call(Operation::SignalAction, &[at(0.0, &[Time(1.0, "os.signal.install")])]),
    call(Operation::SignalDelivery, &[at(0.0, &[Time(1.0, "os.signal.deliver{by=kill}")])]),
    call(Operation::Entry, ENTRY),
];

pub(super) fn row(operation: Operation) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.operation == operation)
}

impl Row {
    /// What these operations cost, times the price of a loop.
    pub(super) fn factor(&self, tally: Tally) -> f64 {
        let share = match self.operation {
            Operation::Switch => 0.0,
            _ if self.is_call() || matches!(self.operation, Operation::Fault(_)) => {
                tally.mixed as f64 / tally.count.max(1) as f64
            }
            _ => 1.0,
        };
        1.0 + (self.mixed - 1.0) * share
    }

    /// Whether the metrics time a system call, and little else.
    pub(super) fn is_call(&self) -> bool {
        use Operation::{Drop, Elsewhere, Exec, Fault, Fork, Free, Switch, Thread, Vfork};
        !matches!(
            self.operation,
            Fault(_) | Free | Drop | Switch | Fork | Vfork | Elsewhere | Exec | Thread
        )
    }

    pub(super) fn points_at(&self, size: f64) -> &'static [Point] {
        match self.operation {
            Write(Place::File) if size % (4.0 * KIB) != 0.0 => ODD_WRITE,
            _ => self.points,
        }
    }

    /// The price in a program, by that of a loop.
    pub(super) fn in_program(&self, of_loop: CostTime, factor: f64) -> CostTime {
        let CostTime { ns, low_ns, high_ns } = of_loop;
        CostTime::new(
            factor * ns,
            (low_ns - self.below * ns).max(0.0),
            high_ns.max(factor * ns) + self.above * ns,
        )
    }

    pub(super) fn parts(&self) -> impl Iterator<Item = Part> {
        let more = match self.alternative {
            Some(Alternative::HugePages(parts) | Alternative::Other(_, parts)) => parts,
            _ => &[],
        };
        let odd = if self.operation == Write(Place::File) { ODD_WRITE } else { &[] };
        self.points.iter().chain(odd).flat_map(|point| point.parts).chain(more).copied()
    }
}

/// The metric of a result: `os.poll` of `os.poll{fds=10}`.
fn metric_of(result: &'static str) -> &'static str {
    result.split('{').next().unwrap_or(result)
}

pub fn results() -> impl Iterator<Item = &'static str> {
    TABLE.iter().flat_map(Row::parts).map(Part::result)
}

/// The operations whose price has a part of a metric, in words.
pub fn operations_of(metric: &str) -> Vec<String> {
    let has = |row: &&Row| row.parts().any(|part| metric_of(part.result()) == metric);
    TABLE.iter().filter(has).map(|row| row.operation.words()).collect()
}

/// The metrics that prices are made of.
pub static METRICS: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let mut all: Vec<&str> = results().map(metric_of).collect();
    all.sort_unstable();
    all.dedup();
    all
});
