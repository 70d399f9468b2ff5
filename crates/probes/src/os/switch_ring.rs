//! os.switch.ring: a token that goes round a ring of processes on one CPU.

use fathom_measure::Sampler;
use fathom_measure::sampler::Fault;
use fathom_record::{Counters, Host, NoModel, Params, Prediction};

use super::ping_pong::{Kind, Others, Ring};
use super::turns::{self, Part};
use fathom_metric::order::Order;
use fathom_metric::{About, Case, Inputs, Parameter, Probe, Sizes};

/// os.switch.ring.
pub struct SwitchRing;

static ABOUT: About = About {
    id: "os.switch.ring",
    title: "hop in a ring of processes",
    timed: "a byte's way round a ring of processes on one CPU, joined by pipes, less the same \
            calls and touches through one pipe to oneself, divided by the number of processes: the \
            hop from one to the next. At each turn a process reads and writes every cache line of \
            a set of its own",
    not_timed: "the pipe's writes and reads and the touching of a set that stays cached, which are \
                subtracted; making the processes and ending them",
    model: "a bound without sets: ≥ os.switch.process{set_bytes=0}, for a hop holds that switch, \
            and another one where the waker was preempted. An order with sets: ≥ the ring \
            of 8 without, since the sets of all displace each other; no public source gives the \
            refill of a set for each cache",
    source: "lmbench's lat_ctx (McVoy & Staelin, USENIX 1996, § 6.6), with every end pinned and \
             the sets written as well as read",
    pitfalls: &[
        "lmbench pins nothing unless told: on several CPUs its ring measures wake-ups besides. \
         Here all processes are on the worker's CPU, and each says at its end where it ran",
        "lmbench subtracts the touching of a set from one that is cached: so does this, hence the \
         number with a set is the switch and the refill of what the others displaced",
        "a process that passes the token on without a switch would make the ring look fast: every \
         process counts its turns and is held against the kernel's count of its switches",
        "a sleeper that is woken may run at once, in place of its waker. Between two ends that \
         saves the waker a sleep; in a ring it must be switched to once more, only to fall asleep: \
         a hop then holds more than one switch. The record counts them; lmbench calls the hop a \
         switch",
        "the sets of a ring have other physical addresses in each run: which of their lines meet \
         in a cache is luck, and is drawn anew with each process of the run",
    ],
    parameters: &[
        Parameter {
            name: "processes",
            values: "8, 16",
            meaning: "processes in the ring, the worker included",
        },
        Parameter {
            name: "set_bytes",
            values: "0, 16 KiB, 64 KiB",
            meaning: "memory that each process reads and writes at each turn",
        },
    ],
    needs: &["os.switch.process"],
    expects: Counters::TURNS,
    noise_limit: 0.10,
    ..About::BASE
};

/// Processes and bytes of each, the ring that the others are held against first.
const RINGS: [(i64, i64); 5] =
    [(8, 0), (8, 16 << 10), (8, 64 << 10), (16, 16 << 10), (16, 64 << 10)];

fn params((processes, set_bytes): (i64, i64)) -> Params {
    Params::one("processes", processes).and("set_bytes", set_bytes)
}

impl Probe for SwitchRing {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn is_difference(&self) -> bool {
        true
    }

    /// As for pairs of processes.
    fn cases_share_visits(&self) -> bool {
        false
    }

    fn cases(&self, _: &Host, _: &Sizes) -> Vec<Case> {
        // As a pair, and some 200 µs for each process that is made and ended.
        let cost_ns = |processes| 12e6 + 2e5 * processes as f64;
        RINGS.map(|ring| Case { params: params(ring), cost_ns: cost_ns(ring.0) }).into()
    }

    fn predict(&self, case: &Case, _: &Host, known: &Inputs<'_>) -> Result<Prediction, NoModel> {
        if case.params.integer("set_bytes") != Some(0) {
            let source = "the same switch, and refilling what the other processes displaced";
            let order = Order { factor: 1.0, metric: ABOUT.id, source };
            return order.claim(&params(RINGS[0]), known);
        }
        let source = "a hop hands the CPU to the next process, and to a preempted waker besides: \
                      Linux kernel/sched/fair.c, wake-up preemption";
        let order = Order { factor: 1.0, metric: "os.switch.process", source };
        order.claim(&Params::one("set_bytes", 0), known)
    }

    fn visit(&self, cases: &[Case], sampler: &mut Sampler) -> Result<(), Fault> {
        for (index, case) in cases.iter().enumerate() {
            let number = |name| {
                case.params.integer(name).and_then(|number| number.try_into().ok()).unwrap_or(0)
            };
            let (kind, cpu) = (Kind::Process, sampler.settings().cpu);
            let others = Others { kind, set_bytes: number("set_bytes"), cpu };
            let ring = Ring::piped(number("processes"), others);
            turns::take(index, ring, Part::Switch, sampler);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smoke;

    #[test]
    fn every_process_has_its_turns_and_is_gone_afterwards() {
        for (case, sample) in smoke::run(&SwitchRing) {
            let checks = &sample.unwrap().checks;
            let names: Vec<&str> = checks.iter().map(|check| check.name.as_str()).collect();
            assert_eq!(names, ["context switches", "one CPU", "turns"], "{}", case.params);
            let processes = case.params.integer("processes").unwrap();
            let told = format!("the {} other ends", processes - 1);
            assert!(checks[0].detail.contains(&told), "{}", checks[0].detail);
        }
    }

    #[test]
    fn a_hop_is_no_cheaper_than_a_switch_nor_with_a_set_than_without() {
        let none = Params::one("set_bytes", 0);
        let records = [
            smoke::record("os.switch.process", &none, 1500.0, 10.0),
            smoke::record(ABOUT.id, &params(RINGS[0]), 1800.0, 10.0),
        ];
        let cases = SwitchRing.cases(&Host::default(), &Sizes::default());
        let predict =
            |case| SwitchRing.predict(case, &Host::default(), &Inputs::new(&records)).unwrap();
        let hop = predict(&cases[0]);
        assert_eq!((hop.value, hop.low), (None, Some(1500.0)));
        for case in &cases[1..] {
            let order = predict(case);
            assert_eq!((order.value, order.low), (None, Some(1800.0)), "{}", case.params);
        }
    }
}
