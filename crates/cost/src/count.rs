//! What was counted in a run.

use std::collections::{BTreeMap, BTreeSet};

use super::copies::Copied;

/// What is behind a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    File,
    Pipe,
    UnixSocket,
    Socket,
    /// /dev/null, a terminal.
    Device,
    /// A file that the kernel writes as it is read: /proc, /sys.
    Proc,
    /// eventfd, timerfd and others.
    Other,
}

impl Place {
    pub fn word(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Pipe => "pipe",
            Self::UnixSocket => "Unix socket",
            Self::Socket => "socket",
            Self::Device => "device",
            Self::Proc => "/proc, /sys",
            Self::Other => "event descriptor",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultKind {
    Anonymous,
    Huge,
    Cow,
    File,
    Major,
}

/// What a run did. The size of most is in bytes: of a call the bytes of it, of a fork the
/// resident memory, of a mapping its length; of a poll it is the number of descriptors, of faults
/// of cached files that of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    Read(Place),
    Write(Place),
    /// With its close.
    Open,
    /// With O_CREAT.
    Create,
    /// Of a path without a file, or not allowed.
    OpenFailed,
    Stat,
    Fstat,
    Seek,
    /// Names of a folder, by their bytes.
    List,
    Delete,
    Lock,
    Sync,
    Map,
    Unmap,
    /// A page given back to the kernel.
    Free,
    /// A page of the page cache whose file is deleted or emptied.
    Drop,
    Fault(FaultKind),
    Fork,
    /// vfork, posix_spawn: without a copy of page tables.
    Vfork,
    /// A process or thread that began on one CPU and ended on another.
    Elsewhere,
    Exec,
    Thread,
    Switch,
    FutexWait,
    FutexWake,
    Select,
    Poll,
    Epoll,
    Connect,
    ConnectUnix,
    Accept,
    SignalAction,
    SignalDelivery,
    /// A call that does little besides entering the kernel.
    Entry,
    /// Any other call.
    Other,
}

impl Operation {
    pub fn words(self) -> String {
        let fixed = match self {
            Self::Read(place) => return format!("read, {}", place.word()),
            Self::Write(place) => return format!("write, {}", place.word()),
            Self::Open => "open and close",
            Self::Create => "create a file",
            Self::OpenFailed => "open, no such file",
            Self::Stat => "stat",
            Self::Fstat => "fstat",
            Self::Seek => "lseek",
            Self::List => "read a folder",
            Self::Delete => "delete a file",
            Self::Lock => "file lock",
            Self::Sync => "fsync",
            Self::Map => "map memory",
            Self::Unmap => "unmap memory",
            Self::Free => "pages freed",
            Self::Drop => "pages of a deleted file",
            Self::Fault(kind) => match kind {
                FaultKind::Anonymous => "page fault, anonymous",
                FaultKind::Huge => "page fault, huge page",
                FaultKind::Cow => "page fault, copy-on-write",
                FaultKind::File => "page fault, cached file",
                FaultKind::Major => "page fault, major",
            },
            Self::Fork => "fork",
            Self::Vfork => "vfork, spawn",
            Self::Elsewhere => "start on another CPU",
            Self::Exec => "exec",
            Self::Thread => "thread",
            Self::Switch => "context switch",
            Self::FutexWait => "futex wait",
            Self::FutexWake => "futex wake",
            Self::Select => "select",
            Self::Poll => "poll",
            Self::Epoll => "epoll",
            Self::Connect => "connect",
            Self::ConnectUnix => "connect, Unix socket",
            Self::Accept => "accept",
            Self::SignalAction => "set a signal handler",
            Self::SignalDelivery => "signal delivery",
            Self::Entry => "short calls",
            Self::Other => "other calls",
        };
        fixed.to_owned()
    }
}

/// What a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Wait {
    File,
    Socket,
    Pipe,
    Child,
    Futex,
    Sleep,
    /// poll and others: of any of several descriptors.
    Events,
}

impl Wait {
    pub fn word(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Socket => "socket",
            Self::Pipe => "pipe",
            Self::Child => "child",
            Self::Futex => "futex",
            Self::Sleep => "sleep",
            Self::Events => "events",
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub count: u64,
    /// The sum of sizes.
    pub size: u64,
    /// How many came after other calls of their thread than the last two: code and data of the
    /// kernel are less cached then than in a loop.
    pub mixed: u64,
    /// Of these, what a process did between its fork and its exec, or its parent for that fork.
    pub forked: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// By operation and class of size: 0, or the number of its binary digits.
    pub operations: BTreeMap<(Operation, u32), Tally>,
    pub calls: BTreeMap<String, u64>,
    /// Calls and nanoseconds.
    pub waits: BTreeMap<Wait, (u64, u64)>,
    pub uncounted: BTreeSet<&'static str>,
    pub copied: Copied,
    /// The time of the shortest call: what stopping takes.
    pub stop_ns: u64,
    /// Whether what is added comes after other calls.
    pub is_mixed: bool,
}

impl Counts {
    pub fn add(&mut self, operation: Operation, size: u64) {
        self.add_many(operation, 1, size);
        let class = u64::BITS - size.leading_zeros();
        if let Some(tally) = self.operations.get_mut(&(operation, class)) {
            tally.mixed += u64::from(self.is_mixed);
        }
    }

    /// So many operations, of this size together.
    pub fn add_many(&mut self, operation: Operation, count: u64, size: u64) {
        if count == 0 {
            return;
        }
        let class = u64::BITS - (size / count).leading_zeros();
        let tally = self.operations.entry((operation, class)).or_default();
        tally.count += count;
        tally.size += size;
    }

    /// As [`Self::add_many`], of which so many a vfork would have saved.
    pub fn add_forked(&mut self, operation: Operation, (count, forked): (u64, u64), size: u64) {
        self.add_many(operation, count, size);
        let class = u64::BITS - (size / count.max(1)).leading_zeros();
        if let Some(tally) = self.operations.get_mut(&(operation, class)) {
            tally.forked += forked;
        }
    }

    /// Of all sizes.
    pub fn number(&self, operation: Operation) -> u64 {
        let of_it = self.operations.iter().filter(|((one, _), _)| *one == operation);
        of_it.map(|(_, tally)| tally.count).sum()
    }
}
