//! os.switch.ring: passing a token round a ring of processes on one CPU.

use super::ping_pong::{PeerKind, PeerOptions, Ring};
use super::turns::{self, Quantity};
use crate::prelude::*;

metric!(SwitchRing, ABOUT);

static ABOUT: About = About {
    id: "os.switch.ring",
    title: "hop in a ring of processes",
    timed: "one hop in a ring of processes on one CPU, joined by pipes: (a byte's way round the \
            ring − the same calls and touches through a pipe to oneself) ÷ the number of \
            processes. At each turn a process reads and writes every cache line of its working set",
    not_timed: "pipe writes and reads and touching a cached working set, which are subtracted; \
                starting and ending the processes",
    model: "bounds: without working sets ≥ os.switch.process{set_bytes=0}, since a hop contains \
            that switch, and a second one if the waker was preempted; with working sets ≥ the ring \
            of 8 without, since the sets evict each other. No public source gives the cost of \
            refilling a set for each cache",
    source: "lmbench's lat_ctx (McVoy & Staelin, USENIX 1996, § 6.6), with every process pinned \
             and the sets written as well as read",
    pitfalls: &[
        "lmbench pins nothing by default: on several CPUs its ring also measures wake-ups. Here \
         all processes run on the worker's CPU, which each verifies at its exit",
        "like lmbench, this subtracts touching a cached working set: with a set the number is the \
         switch plus refilling what the other processes evicted",
        "a process that passes the token without a switch would make the ring look fast: the \
         kernel's context switch count of every process is compared with its turns",
        "a woken process may preempt its waker. With two processes that saves the waker a sleep; \
         in a ring the waker must be scheduled once more just to block: a hop then contains more \
         than one switch. The record counts them; lmbench calls a hop a switch",
        "physical addresses of the sets differ between runs: how many cache conflicts they cause \
         is random, and redrawn with each process of the run",
    ],
    parameters: &[
        Parameter::new("processes", "8, 16", "processes in the ring, the worker included"),
        Parameter::new(
            "set_bytes",
            "0, 16 KiB, 64 KiB",
            "working set that each process reads and writes at each turn",
        ),
    ],
    needs: &["os.switch.process"],
    // As for os.switch.process.
    cases_share_visits: false,
    is_difference: true,
    ..super::TURNS
};

/// Processes and working set; the predictions of the others need the first.
const RINGS: [(i64, i64); 5] =
    [(8, 0), (8, 16 << 10), (8, 64 << 10), (16, 16 << 10), (16, 64 << 10)];

fn params((processes, set_bytes): (i64, i64)) -> Params {
    Params::one("processes", processes).and("set_bytes", set_bytes)
}

impl Probe for SwitchRing {
    fn cases(&self, _: &Host, _: &Sizes) -> Vec<ProbeCase> {
        // As os.switch.process, plus 200 µs to start and end each process.
        let cost_ns = |processes| 10e6 + 2e5 * processes as f64;
        RINGS.map(|ring| ProbeCase { params: params(ring), cost_ns: cost_ns(ring.0) }).into()
    }

    fn predict(&self, case: &ProbeCase, _: &Host, known: &Inputs<'_>) -> Model {
        if case.params.integer("set_bytes") != Some(0) {
            let source = "the same switch, plus refilling what the other processes evicted";
            return at_least(ABOUT.id, &params(RINGS[0]), source, known);
        }
        let source = "a hop switches to the next process, and to a preempted waker: Linux \
                      kernel/sched/fair.c, wake-up preemption";
        at_least("os.switch.process", &Params::one("set_bytes", 0), source, known)
    }

    fn visit(&self, cases: &[ProbeCase], sampler: &mut Sampler) -> Result<()> {
        for (index, case) in cases.iter().enumerate() {
            let number = |name| case.params.number(name).unwrap_or(0);
            let (kind, cpu) = (PeerKind::Process, sampler.settings().cpu);
            let options = PeerOptions { kind, set_bytes: number("set_bytes"), cpu };
            let ring = Ring::piped(number("processes"), options);
            turns::measure(index, ring, Quantity::Switch, sampler);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::check_names;
    use crate::smoke;

    #[test]
    fn every_process_has_its_turns() {
        for (case, sample) in smoke::run(&SwitchRing) {
            let sample = sample.unwrap();
            let names = ["context switches", "one CPU", "turns"];
            assert_eq!(check_names(&sample), names, "{}", case.params);
            let peers = format!("{} peers", case.params.integer("processes").unwrap() - 1);
            let detail = &sample.checks[0].detail;
            assert!(detail.contains(&peers), "{detail}");
        }
    }
}
