//! What a server used between two readings.

use std::collections::BTreeMap;

use crate::figures::{Looks, OfTree, Task, Telemetry};

/// A thread with less than this share of the work of the busiest one is not a worker of its kind.
const WORKER_MIN: f64 = 0.5;

/// What the server used in the windows of a step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerUse {
    pub wall_ns: u64,
    pub cpu_ns: u64,
    pub responses: u64,
    pub bytes_sent: u64,
    /// Unknown if it was unknown in one window.
    pub wire_bytes: Option<u64>,
    pub disk_reads: Option<u64>,
    pub disk_bytes: Option<u64>,
    pub disk_busy_ns: Option<u64>,
    pub busy_ns: u64,
    /// CPU time of the reactors, and their waits for a CPU. Of a process tree, of the threads that
    /// work most.
    pub reactor_ns: u64,
    pub reactor_wait_ns: u64,
    pub reactors: u64,
    /// CPUs that the server may use; 0 if unknown.
    pub cpus: f64,
    pub throttled_ns: Option<u64>,
    pub retransmits: Option<u64>,
    /// CPU time per request and per byte sent in each window, in nanoseconds.
    pub per_request_ns: Vec<f64>,
    pub per_byte_ns: Vec<f64>,
    /// What was seen of its processes, if it does not report itself.
    pub looks: Option<Looks>,
}

impl ServerUse {
    pub(crate) fn of(begin: &Telemetry, end: &Telemetry) -> Self {
        let difference = |of: fn(&Telemetry) -> Option<u64>| of(end)?.checked_sub(of(begin)?);
        let plain = |of: fn(&Telemetry) -> u64| of(end).saturating_sub(of(begin));
        let (cpu_ns, responses) = (plain(|it| it.cpu_ns), plain(|it| it.responses));
        let bytes_sent = plain(|it| it.bytes_sent);
        let per = |count: u64| (count > 0).then(|| cpu_ns as f64 / count as f64);
        let trees = begin.tree.as_ref().zip(end.tree.as_ref());
        let [reactor_ns, reactor_wait_ns, reactors] = match trees {
            Some((begin, end)) => workers(begin, end),
            None => [
                plain(|it| it.reactor_cpu_ns),
                plain(|it| it.reactor_wait_ns),
                end.threads.unwrap_or(0),
            ],
        };
        Self {
            wall_ns: plain(|it| it.at_ns),
            cpu_ns,
            responses,
            bytes_sent,
            wire_bytes: difference(|it| it.bytes_on_wire),
            disk_reads: difference(|it| Some(it.device.as_ref()?.reads)),
            disk_bytes: difference(|it| match it.tree {
                Some(_) => it.read_bytes,
                None => it.device.as_ref().and(it.read_bytes),
            }),
            disk_busy_ns: difference(|it| it.device.as_ref()?.busy_ns),
            busy_ns: plain(|it| it.busy_ns),
            reactor_ns,
            reactor_wait_ns,
            reactors,
            cpus: end.cpus.unwrap_or(0.0),
            throttled_ns: difference(|it| it.throttled_ns),
            retransmits: difference(|it| it.tcp_retransmits),
            per_request_ns: per(responses).into_iter().collect(),
            per_byte_ns: per(bytes_sent).into_iter().collect(),
            looks: trees.map(|(begin, end)| end.looks.since(begin.looks)),
        }
    }

    /// With the responses and their bytes as the client counted them, if the server does not.
    pub(crate) fn counted_by_client(self, responses: u64, bytes_sent: u64) -> Self {
        if self.looks.is_none() {
            return self;
        }
        let per = |count: u64| (count > 0).then(|| self.cpu_ns as f64 / count as f64);
        let [per_request_ns, per_byte_ns] =
            [responses, bytes_sent].map(|count| per(count).into_iter().collect());
        Self { responses, bytes_sent, per_request_ns, per_byte_ns, ..self }
    }

    pub(crate) fn plus(mut self, other: Self) -> Self {
        // A server may report any number.
        let sum = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
        let add = |a: &mut u64, b: u64| *a = a.saturating_add(b);
        add(&mut self.wall_ns, other.wall_ns);
        add(&mut self.cpu_ns, other.cpu_ns);
        add(&mut self.responses, other.responses);
        add(&mut self.bytes_sent, other.bytes_sent);
        add(&mut self.busy_ns, other.busy_ns);
        add(&mut self.reactor_ns, other.reactor_ns);
        add(&mut self.reactor_wait_ns, other.reactor_wait_ns);
        self.wire_bytes = sum(self.wire_bytes, other.wire_bytes);
        self.disk_reads = sum(self.disk_reads, other.disk_reads);
        self.disk_bytes = sum(self.disk_bytes, other.disk_bytes);
        self.disk_busy_ns = sum(self.disk_busy_ns, other.disk_busy_ns);
        (self.reactors, self.cpus) = (other.reactors, other.cpus);
        self.throttled_ns = sum(self.throttled_ns, other.throttled_ns);
        self.retransmits = sum(self.retransmits, other.retransmits);
        self.per_request_ns.extend(other.per_request_ns);
        self.per_byte_ns.extend(other.per_byte_ns);
        self.looks = self.looks.zip(other.looks).map(|(looks, others)| looks.plus(others));
        self
    }

    /// The share of the server's CPUs in use: of its quota, or of the time of its reactors.
    pub fn cpu_share(&self) -> Option<f64> {
        let wall_ns = self.wall_ns as f64;
        let of_cpus = self.cpu_ns as f64 / (wall_ns * self.cpus);
        let of_reactors = self.reactor_ns as f64 / (wall_ns * self.reactors as f64);
        let is_known = self.wall_ns > 0 && self.cpus > 0.0 && self.reactors > 0;
        is_known.then(|| of_cpus.max(of_reactors).min(1.0))
    }

    /// The share of the time in which its reactors were ready and had no CPU.
    pub fn waiting(&self) -> f64 {
        let all_ns = self.wall_ns as f64 * self.reactors as f64;
        if all_ns > 0.0 { (self.reactor_wait_ns as f64 / all_ns).min(1.0) } else { 0.0 }
    }

    /// CPUs in use, on average.
    pub fn cpus(&self) -> Option<f64> {
        (self.wall_ns > 0).then(|| self.cpu_ns as f64 / self.wall_ns as f64)
    }

    /// A count per second of the server's clock.
    pub fn per_second(&self, count: Option<u64>) -> Option<f64> {
        (self.wall_ns > 0).then_some(count? as f64 / self.wall_ns as f64 * 1e9)
    }
}

/// CPU time, waits and number of the threads that worked most between two readings: others, which
/// accept connections or write logs, would hide that those lack time.
fn workers(begin: &OfTree, end: &OfTree) -> [u64; 3] {
    let before: BTreeMap<(u32, u32), &Task> = begin.tasks.iter().map(|it| (it.id, it)).collect();
    let more = |now: &Task| match before.get(&now.id) {
        Some(then) if then.cpu_ns <= now.cpu_ns && then.wait_ns <= now.wait_ns => {
            [now.cpu_ns - then.cpu_ns, now.wait_ns - then.wait_ns]
        }
        _ => [now.cpu_ns, now.wait_ns],
    };
    let all: Vec<[u64; 2]> = end.tasks.iter().map(more).collect();
    // A thread that waits would work.
    let most = all.iter().map(|[cpu_ns, wait_ns]| cpu_ns + wait_ns).max().unwrap_or(0);
    let least = WORKER_MIN * most as f64;
    let chosen = all.iter().filter(|[cpu_ns, wait_ns]| (cpu_ns + wait_ns) as f64 >= least);
    chosen.fold([0; 3], |[cpu, wait, count], [cpu_ns, wait_ns]| {
        [cpu + cpu_ns, wait + wait_ns, count + 1]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(tasks: &[(u32, u64, u64)], looks: Looks) -> Telemetry {
        let task = |&(thread, cpu_ns, wait_ns): &(u32, u64, u64)| Task {
            id: (7, thread),
            cpu_ns,
            wait_ns,
        };
        let tasks = tasks.iter().map(task).collect();
        Telemetry { tree: Some(OfTree { tasks, looks }), cpus: Some(2.0), ..Telemetry::default() }
    }

    /// Of a second.
    fn share(begin: &[(u32, u64, u64)], end: &[(u32, u64, u64)]) -> (Option<f64>, f64) {
        let all_ns: u64 = end.iter().map(|task| task.1).sum();
        let begun_ns: u64 = begin.iter().map(|task| task.1).sum();
        let at =
            |tasks, at_ns, cpu_ns| Telemetry { at_ns, cpu_ns, ..tree(tasks, Looks::default()) };
        let used = ServerUse::of(&at(begin, 0, begun_ns), &at(end, 1_000, all_ns));
        (used.cpu_share(), used.waiting())
    }

    #[test]
    fn busiest_threads_decide_on_the_cpu_of_a_server() {
        // One worker of nginx, and its master.
        assert_eq!(share(&[(7, 5, 0), (8, 100, 0)], &[(7, 6, 0), (8, 1_080, 0)]).0, Some(0.98));
        // Two workers: one of them waits for a CPU half of the time.
        let (share_of_two, waiting) = share(&[(8, 0, 0), (9, 0, 0)], &[(8, 900, 0), (9, 500, 400)]);
        assert_eq!((share_of_two, waiting), (Some(0.7), 0.2));
        // Many threads, each with little, use all CPUs.
        let many: Vec<(u32, u64, u64)> = (0..10).map(|thread| (thread, 190, 0)).collect();
        assert_eq!(share(&[], &many).0, Some(0.95));
        // A thread with the number of an ended one.
        assert_eq!(share(&[(8, 900, 0)], &[(8, 400, 0)]).0, Some(0.4));
        assert_eq!(share(&[], &[]).0, None, "no threads");
    }

    #[test]
    fn looks_are_differences_and_add_up() {
        let looks = |threads, blocked, bytes| Looks {
            threads,
            blocked,
            sockets: 2 * threads,
            sending: 3 * blocked,
            device_bytes: bytes,
        };
        let of = |begin, end| ServerUse::of(&tree(&[], begin), &tree(&[], end));
        let one = of(looks(10, 5, Some(100)), looks(30, 10, Some(150)));
        assert_eq!(one.looks, Some(looks(20, 5, Some(50))));
        assert_eq!(one.clone().plus(one.clone()).looks, Some(looks(40, 10, Some(100))));
        let unknown = of(looks(10, 5, None), looks(30, 10, Some(150)));
        assert_eq!(unknown.looks, Some(looks(20, 5, None)));
        assert_eq!(one.plus(unknown).looks, Some(looks(40, 10, None)));
        let own = ServerUse::of(&Telemetry::default(), &Telemetry::default());
        assert_eq!(own.looks, None);
        // Only a server that does not count its responses needs the client's count.
        let counted = of(looks(0, 0, None), looks(1, 1, None)).counted_by_client(4, 9);
        assert_eq!((counted.responses, counted.bytes_sent), (4, 9));
        assert_eq!(own.clone().counted_by_client(4, 9), own);
    }
}
