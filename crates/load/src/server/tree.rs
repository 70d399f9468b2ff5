//! A process with its descendants: what they have used together since they were found.
//!
//! CPU time is summed over threads, by the scheduler and in nanoseconds. What a thread or a child
//! used after the last reading before its end is not in that sum, but in the ticks of its process,
//! or of the parent that waited for it: where those are clearly more, the difference is added.

use std::collections::{BTreeMap, BTreeSet};

use fathom_measure::host::HostReader;

use super::stat::{self, Stat};
use crate::figures::Task;

/// The state of a process that has ended and was not waited for.
const ENDED: char = 'Z';
/// The times of a process are cut to ticks: its own and those of its children, at both readings.
const TICKS_CUT: u64 = 2;

struct Process {
    start: u64,
    name: String,
    parent: u32,
    /// It waits to be waited for.
    is_ended: bool,
    /// CPU time and wait of each thread at the last reading.
    threads: BTreeMap<u32, [u64; 2]>,
}

/// Sums over processes that have ended, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    pub cpu_ns: u64,
    /// Time in which threads were ready and had no CPU.
    pub wait_ns: u64,
    /// Read from devices, and read and written. `None` without the right to know.
    pub read_bytes: Option<u64>,
    pub device_bytes: Option<u64>,
    /// At the last reading.
    pub resident_bytes: u64,
}

pub struct Tree {
    reader: HostReader,
    roots: Vec<u32>,
    /// This process: it and its descendants are not of the tree.
    own: u32,
    tick_ns: u64,
    /// When the tree was found, in ticks since the system was started.
    begun: u64,
    /// Those that have not ended, or were not waited for.
    known: BTreeMap<u32, Process>,
    /// The CPUs that they may use.
    cpus: BTreeSet<u32>,
    /// What was used before the tree was found.
    before_ticks: u64,
    before_bytes: [u64; 2],
    by_threads_ns: u64,
    lost_ns: u64,
    used: Used,
}

impl Tree {
    /// With its first reading.
    pub fn at(reader: HostReader, roots: &[u32], own: u32) -> Self {
        let ticks_s = rustix::param::clock_ticks_per_second().max(1);
        let uptime = reader.text("/proc/uptime").unwrap_or_default();
        let uptime_s = uptime.split_whitespace().next().and_then(|word| word.parse::<f64>().ok());
        let mut tree = Self {
            reader,
            roots: roots.to_vec(),
            own,
            tick_ns: 1_000_000_000 / ticks_s,
            begun: uptime_s.map_or(0, |seconds| (seconds * ticks_s as f64) as u64),
            known: BTreeMap::new(),
            cpus: BTreeSet::new(),
            before_ticks: 0,
            before_bytes: [0; 2],
            by_threads_ns: 0,
            lost_ns: 0,
            used: Used { read_bytes: Some(0), device_bytes: Some(0), ..Used::default() },
        };
        tree.read_from(roots.iter().map(|&root| (root, true)).collect());
        tree
    }

    /// Looks at the tree again, and counts on. `None` if none of it is left.
    pub fn read(&mut self) -> Option<Used> {
        // A process whose parent has ended belongs to the tree still.
        self.read_from(self.known.keys().map(|&process| (process, false)).collect())
    }

    /// From these processes on, each with whether it may be a new one.
    fn read_from(&mut self, mut open: Vec<(u32, bool)>) -> Option<Used> {
        let mut before = std::mem::take(&mut self.known);
        let (mut ticks, mut bytes) = (0_u64, Some([0_u64; 2]));
        self.used.resident_bytes = 0;
        while let Some((process, is_new)) = open.pop() {
            if process == self.own || self.known.contains_key(&process) {
                continue;
            }
            let Some(stat) = Stat::read(&self.reader, process) else { continue };
            let known = before.remove(&process).filter(|known| known.start == stat.start);
            // Its number was given to another process.
            if known.is_none() && !is_new {
                continue;
            }
            ticks = ticks.saturating_add(stat.ticks);
            let own_bytes = self.device_bytes(process, &stat);
            bytes = bytes.zip(own_bytes).map(|([a, b], [c, d])| [a + c, b + d]);
            if known.is_none() && stat.start < self.begun {
                self.before_ticks += stat.ticks;
                let [read, written] = own_bytes.unwrap_or_default();
                self.before_bytes[0] += read;
                self.before_bytes[1] += written;
            }
            self.used.resident_bytes += stat::resident_bytes(&self.reader, process).unwrap_or(0);
            let (found, children) = self.process(process, &stat, known);
            open.extend(children.into_iter().map(|child| (child, true)));
            self.known.insert(process, found);
        }
        self.count(ticks, bytes);
        self.living().next().map(|_| self.used)
    }

    /// Counts the threads of a process.
    fn process(&mut self, number: u32, stat: &Stat, known: Option<Process>) -> (Process, Vec<u32>) {
        let is_older = known.is_none() && stat.start < self.begun;
        if known.is_none() {
            self.cpus.extend(self.reader.cpus_of(&number.to_string()));
        }
        let before = known.map(|known| known.threads).unwrap_or_default();
        let (mut threads, mut children) = (BTreeMap::new(), Vec::new());
        // While threads end, the kernel's list may lack others.
        let mut all: BTreeSet<u32> = before.keys().copied().collect();
        all.extend(stat::threads(&self.reader, number));
        for thread in all {
            children.extend(stat::children(&self.reader, number, thread));
            let Some(now) = stat::schedule(&self.reader, number, thread) else { continue };
            let new = if is_older { now } else { [0; 2] };
            let [cpu_ns, wait_ns] = match before.get(&thread) {
                // A counter of another thread with the same number may be lower.
                Some(before) if before[0] <= now[0] && before[1] <= now[1] => *before,
                _ => new,
            };
            self.by_threads_ns += now[0] - cpu_ns;
            self.used.wait_ns += now[1] - wait_ns;
            threads.insert(thread, now);
        }
        let (start, name, parent) = (stat.start, stat.name.clone(), stat.parent);
        let is_ended = stat.state == ENDED;
        (Process { start, name, parent, is_ended, threads }, children)
    }

    fn device_bytes(&self, process: u32, stat: &Stat) -> Option<[u64; 2]> {
        match stat::device_bytes(&self.reader, process) {
            None if stat.state == ENDED => Some([0; 2]),
            bytes => bytes,
        }
    }

    fn count(&mut self, ticks: u64, bytes: Option<[u64; 2]>) {
        let by_ticks_ns = ticks.saturating_sub(self.before_ticks).saturating_mul(self.tick_ns);
        let cut_ns = TICKS_CUT * self.known.len() as u64 * self.tick_ns;
        let lost_ns = by_ticks_ns.saturating_sub(cut_ns).saturating_sub(self.by_threads_ns);
        self.lost_ns = self.lost_ns.max(lost_ns);
        self.used.cpu_ns = self.by_threads_ns + self.lost_ns;
        let [before_read, before_written] = self.before_bytes;
        // Children that no process of the tree waited for take theirs along.
        let grown = |count: Option<u64>, all: Option<u64>, before: u64| {
            count.zip(all).map(|(count, all)| count.max(all.saturating_sub(before)))
        };
        let all = bytes.map(|[read, written]| read + written);
        let used = &mut self.used;
        used.read_bytes = grown(used.read_bytes, bytes.map(|it| it[0]), before_read);
        used.device_bytes = grown(used.device_bytes, all, before_read + before_written);
    }

    pub fn tasks(&self) -> Vec<Task> {
        let of = |(process, it): (&u32, &Process)| {
            let task = |(thread, [cpu_ns, wait_ns]): (&u32, &[u64; 2])| Task {
                id: (*process, *thread),
                cpu_ns: *cpu_ns,
                wait_ns: *wait_ns,
            };
            it.threads.iter().map(task).collect::<Vec<Task>>()
        };
        self.known.iter().flat_map(of).collect()
    }

    /// CPUs that some process of it may use; 0 if unknown.
    pub fn cpus(&self) -> usize {
        self.cpus.len()
    }

    /// Whether a thread waits in the kernel, as for a disk: uninterruptibly.
    pub fn is_blocked(&self) -> bool {
        let mut threads = self
            .known
            .iter()
            .flat_map(|(process, it)| it.threads.keys().map(move |thread| (*process, *thread)));
        threads.any(|(process, thread)| {
            let stat = Stat::of_thread(&self.reader, process, thread);
            stat.is_some_and(|stat| stat.state == 'D')
        })
    }

    fn living(&self) -> impl Iterator<Item = (&u32, &Process)> {
        self.known.iter().filter(|(_, it)| !it.is_ended)
    }

    /// A living process, a root if there is one.
    pub fn first(&self) -> Option<u32> {
        let is_root = |process: &&u32| self.roots.contains(process);
        let root = self.living().map(|(process, _)| process).find(is_root);
        root.or(self.living().map(|(process, _)| process).next()).copied()
    }

    pub fn contains(&self, process: u32) -> bool {
        self.known.contains_key(&process)
    }

    pub fn processes(&self) -> impl Iterator<Item = u32> {
        self.known.keys().copied()
    }

    /// `nginx (PID 1234 and 2 children)`.
    pub fn words(&self) -> String {
        let roots: Vec<&u32> = self.roots.iter().filter(|it| self.contains(**it)).collect();
        let name = roots.first().map_or("", |root| self.known[root].name.as_str());
        let is_child = |it: &Process| self.roots.contains(&it.parent);
        let others = || self.living().filter(|(process, _)| !self.roots.contains(process));
        let kind = match (others().count(), others().all(|(_, it)| is_child(it))) {
            (1, true) => "child",
            (_, true) => "children",
            (1, false) => "descendant",
            (_, false) => "descendants",
        };
        let numbers = roots.iter().map(|root| root.to_string()).collect::<Vec<_>>().join(", ");
        let unit = if roots.len() == 1 { "PID" } else { "PIDs" };
        match others().count() {
            0 => format!("{name} ({unit} {numbers})"),
            count => format!("{name} ({unit} {numbers} and {count} {kind})"),
        }
    }
}

#[cfg(test)]
mod tests;
