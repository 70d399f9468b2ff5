//! os.wake.cross_cpu: waking a sleeper on another CPU.

use std::fs;

use fathom_measure::Sampler;
use fathom_measure::sampler::Fault;
use fathom_record::{Counters, Host, NoModel, Params, Prediction, Remedy};

use super::link::Link;
use super::link::futex::futexes;
use super::link::pipe::pipes;
use super::ping_pong::{Kind, Others, Ring};
use super::turns::{self, Part};
use fathom_metric::order::Order;
use fathom_metric::sum::{Sum, Term};
use fathom_metric::{About, Case, Inputs, Parameter, Probe, Sizes};

/// os.wake.cross_cpu.
pub struct Wake;

static ABOUT: About = About {
    id: "os.wake.cross_cpu",
    title: "waking a sleeper on another CPU",
    timed: "half of a token's round trip between the worker and a process on another CPU, both of \
            which sleep while the other has it: from the end that wakes, through its system call, \
            the interrupt to the other CPU or the flag that it polls, its way out of idleness, and \
            the scheduler's switch, to the woken end's own code",
    not_timed: "falling asleep, as far as it is done while the other end wakes up; choosing a CPU: \
                each end may run on one only",
    model: "via=futex a bound: a wake-up contains a system call and more, so ≥ \
            os.syscall{call=getppid}; how long an idle CPU takes to answer depends on its idle \
            state, for which no public source gives a figure. via=pipe a value: the same wake-up \
            within a write and a read, so via=futex and what read1 and write1 cost beyond getppid",
    source: "Linux kernel/sched/core.c, try_to_wake_up and ttwu_queue; kernel/sched/idle.c",
    pitfalls: &[
        "in a guest an idle CPU halts: then the number holds the exit to the hypervisor, its own \
         wake-up of the virtual CPU, and the exit for the interrupt. It says more of the \
         hypervisor than of the kernel",
        "an idle CPU that polls for a while before it halts (haltpoll in a guest, idle=poll) is \
         woken by a flag in memory, without interrupt and exit: several times as fast. The record \
         names the idle driver and governor; one that learns may do now this, now that",
        "the deeper an idle state, the slower the way out: the ends sleep for microseconds only, \
         and a sleeper of milliseconds may be woken more slowly than this",
        "an end that is woken before it sleeps costs no wake-up: the kernel's count of its \
         switches is held against its turns, and below 90 % the result is invalid",
        "which CPUs share a core or a cache decides much: the other end has a CPU on another core \
         where there is one",
    ],
    parameters: &[Parameter {
        name: "via",
        values: "futex, pipe",
        meaning: "what the ends sleep on: a word in shared memory · the reading end of a pipe",
    }],
    needs: &["os.syscall"],
    requires: "two CPUs",
    expects: Counters::SLEEP,
    noise_limit: 0.10,
    ..About::BASE
};

const VIA: [&str; 2] = ["futex", "pipe"];

impl Probe for Wake {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    /// What the idle governor learns from one case it would use in the other.
    fn cases_share_visits(&self) -> bool {
        false
    }

    fn cases(&self, _: &Host, _: &Sizes) -> Vec<Case> {
        VIA.map(|via| Case { params: Params::one("via", via), cost_ns: 10e6 }).into()
    }

    fn predict(&self, case: &Case, _: &Host, known: &Inputs<'_>) -> Result<Prediction, NoModel> {
        let call = |name| Params::one("call", name);
        if case.params.text("via") == Some(VIA[0]) {
            let source = "the waking end enters the kernel, and the woken one returns from it";
            let order = Order { factor: 1.0, metric: "os.syscall", source };
            return order.claim(&call("getppid"), known);
        }
        let term = |times, metric, params| Term { times, metric, params };
        let sum = Sum {
            terms: &[
                term(1.0, ABOUT.id, Params::one("via", VIA[0])),
                term(1.0, "os.syscall", call("read1")),
                term(1.0, "os.syscall", call("write1")),
                term(-2.0, "os.syscall", call("getppid")),
            ],
            tolerance: 0.3,
            source: "the same wake-up (Linux try_to_wake_up), within calls that move a byte",
            otherwise: "the other CPU idles otherwise under the one than under the other: its \
                        governor polls in one case and halts in the other, or a pipe's wake-up, \
                        which says that the waker will sleep, is treated otherwise",
        };
        sum.predict(known)
    }

    fn visit(&self, cases: &[Case], sampler: &mut Sampler) -> Result<(), Fault> {
        let Some(cpu) = sampler.settings().other_cpu else {
            let what = "there is one CPU only for this process";
            return Err(Fault::unavailable(what, Remedy::SecondCpu));
        };
        let idle = idle();
        for (index, case) in cases.iter().enumerate() {
            let part = Part::Turn(&idle);
            match case.params.text("via") {
                Some("futex") => {
                    turns::take(index, futexes().and_then(|ends| apart(ends, cpu)), part, sampler);
                }
                _ => turns::take(index, pipes(2).and_then(|ends| apart(ends, cpu)), part, sampler),
            }
        }
        Ok(())
    }
}

/// The worker's end, and one in a process on another CPU.
fn apart<L: Link>(links: Vec<L>, cpu: u32) -> Result<Ring<L>, Fault> {
    let ring = Ring::join(links, Others { kind: Kind::Process, set_bytes: 0, cpu })?;
    ring.move_others_to(cpu)?;
    Ok(ring)
}

/// How idle CPUs wait, as far as the kernel tells.
fn idle() -> String {
    let read = |file: &str| {
        let text = fs::read_to_string(format!("/sys/{file}"));
        text.map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
    };
    let folder = "devices/system/cpu/cpuidle";
    let driver = read(&format!("{folder}/current_driver"));
    let governor = read(&format!("{folder}/current_governor"));
    let polls = match driver.as_str() {
        "haltpoll" => {
            format!(", polls up to {} ns", read("module/haltpoll/parameters/guest_halt_poll_ns"))
        }
        _ => String::new(),
    };
    format!("idle driver {driver}, governor {governor}{polls}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smoke;

    fn settings_without_another_cpu() -> Fault {
        let mut sampler = smoke::sampler_on(2, 0, None);
        let cases = Wake.cases(&Host::default(), &Sizes::default());
        Wake.visit(&cases, &mut sampler).unwrap_err()
    }

    #[test]
    fn one_cpu_is_not_enough() {
        let fault = settings_without_another_cpu();
        assert!(matches!(&fault, Fault::Unavailable(text, _) if text.contains("one CPU only")));
    }

    #[test]
    fn the_sleepers_are_counted_and_the_idle_driver_is_named() {
        if smoke::pinned(smoke::other_than).is_none() {
            return smoke::skipped("one CPU only, and nobody to wake");
        }
        let _alone = smoke::alone();
        let cases = Wake.cases(&Host::default(), &Sizes::default());
        for (case, sample) in cases.iter().zip(smoke::visit(&Wake, &cases)) {
            let checks = sample.unwrap().checks;
            let names: Vec<&str> = checks.iter().map(|check| check.name.as_str()).collect();
            assert_eq!(names, ["asleep when woken", "two CPUs", "turns"], "{}", case.params);
            assert!(checks[0].detail.contains("idle driver"), "{}", checks[0].detail);
            // How many slept is for a quiet machine to say; where they ran is not.
            assert!(checks[1].passed && checks[2].passed, "{checks:?}");
        }
        assert!(smoke::has_no_children());
    }

    #[test]
    fn an_end_that_stayed_on_the_workers_cpu_is_found() {
        let _alone = smoke::alone();
        smoke::pinned(|cpu| {
            let Some(other) = smoke::other_than(cpu) else {
                return smoke::skipped("one CPU only, and nowhere else to run");
            };
            let mut sampler = smoke::sampler(1, cpu);
            let others = Others { kind: Kind::Process, set_bytes: 0, cpu: other };
            let ring = futexes().and_then(|ends| Ring::join(ends, others));
            turns::take(0, ring, Part::Turn(""), &mut sampler);
            let sample = sampler.finish().samples.remove(0).unwrap();
            let turns = sample.checks.iter().find(|check| check.name == "turns").unwrap();
            assert!(!turns.passed && turns.detail.contains("another CPU"), "{}", turns.detail);
        });
    }

    #[test]
    fn a_cpu_that_is_not_there_is_unavailable() {
        let _alone = smoke::alone();
        let fault = pipes(2).and_then(|ends| apart(ends, 1000)).err().unwrap();
        assert!(
            matches!(&fault, Fault::Unavailable(text, _) if text.contains("CPU 1000")),
            "{fault}"
        );
        assert!(smoke::has_no_children());
    }

    #[test]
    fn a_pipe_is_a_futex_and_its_calls() {
        let call = |name, ns| smoke::record("os.syscall", &Params::one("call", name), ns, 1.0);
        let records = [
            call("getppid", 100.0),
            call("read1", 150.0),
            call("write1", 130.0),
            smoke::record(ABOUT.id, &Params::one("via", "futex"), 3000.0, 10.0),
        ];
        let cases = Wake.cases(&Host::default(), &Sizes::default());
        let predict = |case| Wake.predict(case, &Host::default(), &Inputs::new(&records)).unwrap();
        assert_eq!((predict(&cases[0]).low, predict(&cases[0]).value), (Some(100.0), None));
        assert_eq!(predict(&cases[1]).value, Some(3080.0));
    }
}
