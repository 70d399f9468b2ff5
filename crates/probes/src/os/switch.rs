//! os.switch.thread and os.switch.process: one switch between two threads or processes that share
//! a CPU.

use fathom_measure::sampler::Fault;
use fathom_measure::{Sampler, Work, affinity};
use fathom_record::{Better, Host, NoModel, Params, Prediction, Unit, Waits};

use super::child::Switches;
use super::ordinal::Order;
use super::ping_pong::{Kind, Pair, switches_of_this_thread};
use crate::{About, Case, Known, Parameter, Plan, Probe};

/// os.switch.thread.
pub static SWITCH_THREAD: Switch = Switch { about: &THREAD, kind: Kind::Thread };
/// os.switch.process.
pub static SWITCH_PROCESS: Switch = Switch { about: &PROCESS, kind: Kind::Process };

/// Switching between the two ends of a pipe.
pub struct Switch {
    about: &'static About,
    kind: Kind,
}

const TIMED: &str = "a byte's round trip through two pipes between two ends on one CPU, less the \
                     same calls through one pipe to oneself, halved: waking the other end, giving \
                     up the CPU, and the scheduler's switch. At each turn an end reads and writes \
                     every cache line of a set of its own; the part that is subtracted touches the \
                     worker's set as often";
const NOT_TIMED: &str = "the pipe's writes and reads and the touching of a set that stays cached, \
                         which are subtracted; waking an idle or another CPU, which is \
                         os.wake.cross_cpu";
const PITFALLS: &[&str] = &[
    "ends on two CPUs measure a wake-up, not a switch: both are on the worker's CPU, and each says \
     at its end where it ran",
    "an end that polls, or passes many bytes at once, switches less often than it passes: the \
     kernel's counts of switches are held against the round trips, for each end",
    "the self-pipe is timed after the switches: between them it would make the worker a CPU hog in \
     the scheduler's books, and its turns end by preemption",
    "with a set the difference holds the refill of what the other end displaced; where both sets \
     fit in the first-level cache together there is little to refill",
    "the wake-up of a sleeper is part of the number: a pipe to oneself has none",
];
const SETS: &[Parameter] = &[Parameter {
    name: "set_bytes",
    values: "0, 16 KiB, 64 KiB",
    meaning: "memory that each end reads and writes at each turn",
}];

static THREAD: About = About {
    id: "os.switch.thread",
    title: "switch between threads",
    unit: Unit::Nanoseconds,
    better: Better::Lower,
    timed: TIMED,
    not_timed: NOT_TIMED,
    model: "an order: waking a sleeper, choosing the next, and changing registers and stacks, \
            within system calls whose entry is subtracted, take longer than entering the kernel \
            alone: ≥ os.syscall{call=getppid}; with a set ≥ set_bytes=0",
    source: "order: lmbench (McVoy & Staelin, USENIX 1996), whose tables show a switch above a \
             simple system call; Linux kernel/sched/core.c, try_to_wake_up and __schedule",
    pitfalls: PITFALLS,
    parameters: SETS,
    needs: &["os.syscall"],
    requires: "",
    published: "1.20 µs (2016, i5-5257U)",
    waits: Waits::ForTurns,
    noise_limit: 0.10,
};

static PROCESS: About = About {
    id: "os.switch.process",
    title: "switch between processes",
    unit: Unit::Nanoseconds,
    better: Better::Lower,
    timed: TIMED,
    not_timed: NOT_TIMED,
    model: "an order: what a switch between threads does, and the change of address space with the \
            translations lost by it: ≥ os.switch.thread of no set; with a set ≥ set_bytes=0",
    source: "METHOD 25: thread switch < process switch; Linux arch/x86/mm/tlb.c, \
             switch_mm_irqs_off, which a switch between threads skips",
    pitfalls: PITFALLS,
    parameters: SETS,
    needs: &["os.switch.thread"],
    requires: "",
    published: "3.87 µs (2016, i5-5257U)",
    waits: Waits::ForTurns,
    noise_limit: 0.10,
};

/// Sizes of the sets, the one that others are held against first.
const SET_BYTES: [i64; 3] = [0, 16 << 10, 64 << 10];
/// How far the kernel's counts of switches may stand from one for each end and round trip.
const DEVIATION_MAX: f64 = 0.02;
/// Waits beyond that: as an end starts, and as it ends.
const WAITS_BESIDES: f64 = 16.0;

impl Probe for Switch {
    fn about(&self) -> &'static About {
        self.about
    }

    fn is_difference(&self) -> bool {
        true
    }

    /// What other pairs of processes did changes what the scheduler thinks of the worker.
    fn cases_share_visits(&self) -> bool {
        false
    }

    fn cases(&self, _: &Host, _: &Plan) -> Vec<Case> {
        // Thrice the usual: a twin as long as the kernel, and the other end to start and end.
        let case = |bytes| Case { params: Params::one("set_bytes", bytes), cost_ns: 12e6 };
        SET_BYTES.map(case).into()
    }

    fn predict(&self, case: &Case, _: &Host, known: &Known<'_>) -> Result<Prediction, NoModel> {
        let none = Params::one("set_bytes", 0);
        let order = |metric, source| Order { factor: 1.0, metric, source };
        match (case.params.integer("set_bytes"), self.kind) {
            (Some(0), Kind::Thread) => {
                let source = "lmbench (McVoy & Staelin, USENIX 1996), tables of system calls and \
                              of context switches";
                order("os.syscall", source).claim(&Params::one("call", "getppid"), known)
            }
            (Some(0), Kind::Process) => {
                let source = "the same, and the change of address space (METHOD 25)";
                order(THREAD.id, source).claim(&none, known)
            }
            _ => {
                let source = "the same switch, and refilling what the other end displaced";
                order(self.about.id, source).claim(&none, known)
            }
        }
    }

    fn visit(&self, cases: &[Case], sampler: &mut Sampler) -> Result<(), Fault> {
        let cpu = sampler.settings().cpu;
        let mut pairs = Vec::new();
        for (index, case) in cases.iter().enumerate() {
            let bytes = case.params.integer("set_bytes").and_then(|bytes| bytes.try_into().ok());
            match Pair::start(self.kind, bytes.unwrap_or(0), cpu) {
                Ok(pair) => {
                    pair.process().into_iter().for_each(|peer| sampler.works_with(peer));
                    pairs.push((index, pair));
                }
                Err(fault) => sampler.fault(index, fault),
            }
        }
        let before = switches_of_this_thread();
        sampler.run(pairs.iter().map(|(index, pair)| work(*index, pair)).collect());
        let own_switches = switches_of_this_thread().since(&before);
        judge(pairs, own_switches, sampler);
        Ok(())
    }
}

/// Two switches a round trip, and the same calls without one as the twin.
fn work(index: usize, pair: &Pair) -> Work<'_> {
    Work::Batched {
        case: index,
        kernel: Box::new(|trips| pair.round_trips(trips)),
        twin: Some(Box::new(|trips| pair.alone(trips))),
        per_iteration: 2.0,
        to_unit: |ns| ns,
    }
}

/// Ends the other ends and holds what each did against what it should have done.
fn judge(pairs: Vec<(usize, Pair)>, own: Switches, sampler: &mut Sampler) {
    let allowed = affinity::allowed();
    let pinned = allowed == [sampler.settings().cpu];
    let mut reports = Vec::new();
    for (index, pair) in pairs {
        match pair.finish() {
            Ok(report) => reports.push((index, report)),
            Err(fault) => sampler.fault(index, fault),
        }
    }
    let trips: u64 = reports.iter().map(|(_, report)| report.trips).sum();
    for (index, report) in reports {
        let peer = report.peer_switches;
        let passed = is_one_each(peer, report.trips) && is_one_each(own, trips);
        let detail = format!(
            "the other end {} + {} in {} round trips; the worker {} + {} in {trips} of all sets \
             (waiting + preempted)",
            peer.voluntary, peer.involuntary, report.trips, own.voluntary, own.involuntary
        );
        sampler.check(index, "context switches", passed, detail);
        sampler.check(index, "one CPU", pinned, format!("the worker may run on {allowed:?}"));
        let detail = report.wrong.as_deref().unwrap_or("both sets touched at each, on one CPU");
        sampler.check(index, "turns", report.wrong.is_none(), detail);
    }
}

/// Whether an end was switched out once for each round trip: no less often, and not because it
/// waited more often. What strangers preempted besides is disturbance, and no fault of the work.
fn is_one_each(switches: Switches, trips: u64) -> bool {
    let Switches { voluntary, involuntary } = switches;
    let trips = trips as f64;
    (voluntary + involuntary) as f64 >= (1.0 - DEVIATION_MAX) * trips
        && voluntary as f64 <= (1.0 + DEVIATION_MAX) * trips + WAITS_BESIDES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::smoke;

    #[test]
    fn both_kinds_switch_once_a_turn_and_leave_nothing_behind() {
        for probe in [&SWITCH_THREAD, &SWITCH_PROCESS] {
            for (case, sample) in smoke::take(probe) {
                let checks = &sample.unwrap().checks;
                let names: Vec<&str> = checks.iter().map(|check| check.name.as_str()).collect();
                assert_eq!(names, ["context switches", "one CPU", "turns"], "{}", case.params);
            }
        }
    }

    #[test]
    fn ends_that_may_run_anywhere_fail_the_check() {
        let _alone = smoke::alone();
        let allowed = affinity::allowed();
        if allowed.len() < 2 {
            return; // There is nowhere else to run.
        }
        let mut sampler = smoke::sampler(1, allowed[0]);
        let case = SWITCH_THREAD.cases(&Host::default(), &Plan::default()).remove(0);
        SWITCH_THREAD.visit(&[case], &mut sampler).unwrap();
        let visit = sampler.finish();
        let checks = &visit.samples[0].as_ref().unwrap().checks;
        let passed = |name| checks.iter().find(|check| check.name == name).unwrap().passed;
        assert!(!passed("one CPU"));
    }

    #[test]
    fn too_few_and_too_many_switches_are_seen_and_strangers_forgiven() {
        let is =
            |voluntary, involuntary, trips| is_one_each(Switches { voluntary, involuntary }, trips);
        assert!(is(10_000, 0, 10_000) && is(10_210, 0, 10_000));
        assert!(is(10, 9_990, 10_000), "an end may be preempted by the other it woke");
        assert!(is(10_000, 700, 10_000), "strangers preempt");
        assert!(!is(9_700, 0, 10_000) && !is(0, 39, 40), "turns without a switch");
        assert!(!is(10_300, 0, 10_000), "waits that were none of the work");
    }
}
