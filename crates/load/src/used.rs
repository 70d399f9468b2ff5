//! What a server used between two readings.

use std::collections::BTreeMap;

use fathom_record::ServerUse;

use crate::figures::{LoadTelemetry, OfTree, Task};

/// A thread with less than this share of the work of the busiest one is not a worker of its kind.
const WORKER_MIN: f64 = 0.5;

/// What a server used between two readings.
pub fn between(begin: &LoadTelemetry, end: &LoadTelemetry) -> ServerUse {
    let difference = |of: fn(&LoadTelemetry) -> Option<u64>| of(end)?.checked_sub(of(begin)?);
    let plain = |of: fn(&LoadTelemetry) -> u64| of(end).saturating_sub(of(begin));
    let (cpu_ns, responses) = (plain(|it| it.cpu_ns), plain(|it| it.responses));
    let bytes_sent = plain(|it| it.bytes_sent);
    let per = |count: u64| (count > 0).then(|| cpu_ns as f64 / count as f64);
    let trees = begin.tree.as_ref().zip(end.tree.as_ref());
    let [reactor_ns, reactor_wait_ns, reactors] = match trees {
        Some((first, last)) => workers(first, last),
        None => [
            plain(|it| it.reactor_cpu_ns),
            plain(|it| it.reactor_wait_ns),
            end.threads.unwrap_or(0),
        ],
    };
    ServerUse {
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
    use fathom_record::Looks;

    use super::*;

    fn tree(tasks: &[(u32, u64, u64)], looks: Looks) -> LoadTelemetry {
        let task = |&(thread, cpu_ns, wait_ns): &(u32, u64, u64)| Task {
            id: (7, thread),
            cpu_ns,
            wait_ns,
        };
        let tasks = tasks.iter().map(task).collect();
        LoadTelemetry {
            tree: Some(OfTree { tasks, looks }),
            cpus: Some(2.0),
            ..LoadTelemetry::default()
        }
    }

    /// Of a second.
    fn share(begin: &[(u32, u64, u64)], end: &[(u32, u64, u64)]) -> (Option<f64>, f64) {
        let all_ns: u64 = end.iter().map(|task| task.1).sum();
        let begun_ns: u64 = begin.iter().map(|task| task.1).sum();
        let at =
            |tasks, at_ns, cpu_ns| LoadTelemetry { at_ns, cpu_ns, ..tree(tasks, Looks::default()) };
        let used = between(&at(begin, 0, begun_ns), &at(end, 1_000, all_ns));
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
        let of = |begin, end| between(&tree(&[], begin), &tree(&[], end));
        let one = of(looks(10, 5, Some(100)), looks(30, 10, Some(150)));
        assert_eq!(one.looks, Some(looks(20, 5, Some(50))));
        assert_eq!(one.clone().plus(one.clone()).looks, Some(looks(40, 10, Some(100))));
        let unknown = of(looks(10, 5, None), looks(30, 10, Some(150)));
        assert_eq!(unknown.looks, Some(looks(20, 5, None)));
        assert_eq!(one.plus(unknown).looks, Some(looks(40, 10, None)));
        let own = between(&LoadTelemetry::default(), &LoadTelemetry::default());
        assert_eq!(own.looks, None);
        // Only a server that does not count its responses needs the client's count.
        let counted = of(looks(0, 0, None), looks(1, 1, None)).counted_by_client(4, 9);
        assert_eq!((counted.responses, counted.bytes_sent), (4, 9));
        assert_eq!(own.clone().counted_by_client(4, 9), own);
    }
}
