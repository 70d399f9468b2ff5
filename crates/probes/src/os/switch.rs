//! os.switch.thread and os.switch.process: one switch between two threads or processes that share
//! a CPU.

use fathom_measure::Sampler;
use fathom_measure::sampler::Fault;
use fathom_record::{Counters, Host, NoModel, Params, Prediction};

use super::ping_pong::{Kind, Pair};
use super::turns::{self, Part};
use fathom_metric::order::Order;
use fathom_metric::{About, Case, Inputs, Parameter, Probe, Sizes};

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
    "the return of a procedure after a system call is mispredicted, and dearer after a \
     switch: the calls are made by the bare instruction, so that neither a round trip nor what is \
     subtracted holds returns. os.pipe.rtt{calls=libc} has them",
    "with a set the difference holds the refill of what the other end displaced; where both sets \
     fit in the first-level cache together there is little to refill",
    "the wake-up of a sleeper is part of the number: a pipe to oneself has none",
    "threads that share a table of descriptors count a file's users atomically in each read and \
     write (Linux fdget), which a process of one thread does not: 5 % of the round trip on a Zen 5 \
     guest, about half of it in the self-pipe as well. So the other thread has a table of its own",
    "the change of address space is a small part of a switch where translations carry a process \
     number (PCID) and no mitigation flushes between processes (IBPB): process ÷ thread was 1.04 \
     by pipes and 1.06 by futexes there, which a quick run cannot always resolve",
];
const SETS: &[Parameter] = &[Parameter {
    name: "set_bytes",
    values: "0, 16 KiB, 64 KiB, 256 KiB, 1 MiB",
    meaning: "memory that each end reads and writes at each turn",
}];

static THREAD: About = About {
    id: "os.switch.thread",
    title: "switch between threads",
    timed: TIMED,
    not_timed: NOT_TIMED,
    model: "a bound: waking a sleeper, choosing the next, and changing registers and stacks, \
            within system calls whose entry is subtracted, take longer than entering the kernel \
            alone: ≥ os.syscall{call=getppid}; with a set ≥ set_bytes=0",
    source: "bound: lmbench (McVoy & Staelin, USENIX 1996), whose tables show a switch above a \
             simple system call; Linux kernel/sched/core.c, try_to_wake_up and __schedule",
    pitfalls: PITFALLS,
    parameters: SETS,
    needs: &["os.syscall"],
    published: "1.20 µs (2016, i5-5257U)",
    expects: Counters::TURNS,
    noise_limit: 0.10,
    ..About::BASE
};

static PROCESS: About = About {
    id: "os.switch.process",
    title: "switch between processes",
    timed: TIMED,
    not_timed: NOT_TIMED,
    model: "a bound: what a switch between threads does, and the change of address space with the \
            translations lost by it: ≥ os.switch.thread of no set; with a set ≥ set_bytes=0",
    source: "METHOD 25: thread switch < process switch; Linux arch/x86/mm/tlb.c, \
             switch_mm_irqs_off, which a switch between threads skips",
    pitfalls: PITFALLS,
    parameters: SETS,
    needs: &["os.switch.thread"],
    published: "3.87 µs (2016, i5-5257U)",
    expects: Counters::TURNS,
    noise_limit: 0.10,
    ..About::BASE
};

/// Sizes of the sets, the one that others are held against first.
const SET_BYTES: [i64; 5] = [0, 16 << 10, 64 << 10, 256 << 10, 1 << 20];

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

    fn cases(&self, _: &Host, _: &Sizes) -> Vec<Case> {
        // A twin as long as the kernel, and the other end to start and end; a turn with the
        // largest set is longer than the shortest batch.
        let cost_ns = |bytes| if bytes < 1 << 20 { 12e6 } else { 25e6 };
        let case =
            |bytes| Case { params: Params::one("set_bytes", bytes), cost_ns: cost_ns(bytes) };
        SET_BYTES.map(case).into()
    }

    fn predict(&self, case: &Case, _: &Host, known: &Inputs<'_>) -> Result<Prediction, NoModel> {
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
        for (index, case) in cases.iter().enumerate() {
            let bytes = case.params.integer("set_bytes").and_then(|bytes| bytes.try_into().ok());
            let pair = Pair::start(self.kind, bytes.unwrap_or(0), sampler.settings().cpu);
            turns::take(index, pair, Part::Switch, sampler);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use fathom_measure::affinity;

    use super::*;
    use crate::smoke;

    #[test]
    fn both_kinds_switch_once_a_turn_and_leave_nothing_behind() {
        for probe in [&SWITCH_THREAD, &SWITCH_PROCESS] {
            for (case, sample) in smoke::run(probe) {
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
            return smoke::skipped("one CPU only, and nowhere else to run");
        }
        let mut sampler = smoke::sampler(1, allowed[0]);
        let case = SWITCH_THREAD.cases(&Host::default(), &Sizes::default()).remove(0);
        SWITCH_THREAD.visit(&[case], &mut sampler).unwrap();
        let visit = sampler.finish();
        let checks = &visit.samples[0].as_ref().unwrap().checks;
        let passed = |name| checks.iter().find(|check| check.name == name).unwrap().passed;
        assert!(!passed("one CPU"));
    }
}
