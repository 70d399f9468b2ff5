//! memory.core_to_core: how long a line takes from one core to another.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fathom_measure::sampler::Fault;
use fathom_measure::{Sampler, Work};
use fathom_record::{
    Effort, Host, NoModel, NotSelected, Params, Prediction, Remedy, Stratum, Unit,
};

use super::thread_team::{ThreadTeam, CheckResult, TaskFactory, TeamTask};
use crate::buffer::{Buffer, Page};
use crate::uarch;
use fathom_metric::order::earlier;
use fathom_metric::{About, Case, Known, Parameter, Probe, Sizes};

/// memory.core_to_core.
pub struct CoreToCore;

static ABOUT: About = About {
    id: "memory.core_to_core",
    title: "line from core to core",
    timed: "one way of a cache line between two cores: half of a round trip in which each end, in \
            its turn, adds one to a number by compare-and-swap, which must have the line for \
            itself",
    not_timed: "waking anybody: both ends spin on the line in threads of their own, pinned, and \
                nobody else touches it",
    model: "a bound for two cores: ≥ l3_cycles ÷ cpu.frequency, for a line that another core \
            owns is asked for at the last-level cache at least. No value: what the way to the \
            holder adds no source tells. None for threads of one core, which share its caches",
    source: "data/uarch.toml (l3_cycles); the number printed is one way, as by \
             core-to-core-latency (N. Viennot, github.com/nviennot/core-to-core-latency, \
             benchmark 1: CAS on a shared line)",
    pitfalls: &[
        "one way or a round trip: published figures differ by a factor of two in what they mean",
        "an end that only looks, and writes when it sees, takes the line twice: first to read it \
         and then to own it. Here one compare-and-swap does both",
        "a line beside others: each pair has a fresh one, in a page of its own, first touched by \
         the first end on its node",
        "a virtual CPU is not a core: which two share a core or a cache is the hypervisor's word, \
         and may change",
    ],
    parameters: &[
        Parameter { name: "a", values: "CPU number", meaning: "where the line is first touched" },
        Parameter {
            name: "b",
            values: "CPU number above a",
            meaning: "the other end. quick and standard: the first allowed CPU with at most 16 \
                      others; thorough: all pairs of at most 24 CPUs",
        },
    ],
    needs: &["cpu.frequency"],
    requires: "two CPUs",
    noise_limit: 0.10,
    ..About::BASE
};

/// Others that the first CPU is paired with.
const PARTNERS_MAX: usize = 16;
/// CPUs of which all pairs are taken.
const CPUS_MAX: usize = 24;

impl Probe for CoreToCore {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn cases(&self, host: &Host, sizes: &Sizes) -> Vec<Case> {
        let pairs = match sizes.smoke {
            true => vec![(0, 1)],
            false => pairs(&host.cpu.allowed, sizes.effort),
        };
        let case = |(a, b): (u32, u32)| Case {
            params: Params::one("a", i64::from(a)).and("b", i64::from(b)),
            cost_ns: 10e6,
        };
        pairs.into_iter().map(case).collect()
    }

    fn selection(&self, _: &Case, _: &Host) -> Result<Stratum, NotSelected> {
        Err(NotSelected::SecondCpu)
    }

    fn predict(&self, case: &Case, host: &Host, known: &Known<'_>) -> Result<Prediction, NoModel> {
        let (a, b) = ends(case).unwrap_or((0, 0));
        if host.cpu.siblings.iter().any(|core| core.contains(&a) && core.contains(&b)) {
            return Err(NoModel::ThreadsOfOneCore);
        }
        let row = uarch::row_for(host)?;
        let cycles = row.sourced("l3_cycles")?;
        let hz = earlier("cpu.frequency", &Params::none(), known)?;
        let formula = "≥ l3_cycles ÷ cpu.frequency";
        let source = "no core sees into another's caches: the line is asked for at the last-level \
                      cache, or further away";
        let claim = Prediction::at_least(cycles.value / hz * 1e9, formula, source)
            .with_input("l3_cycles", cycles.value, row.origin())
            .with_result("cpu.frequency", hz, Unit::Hertz);
        Ok(claim.if_below("the two are threads of one core, which the machine does not tell"))
    }

    fn visit(&self, cases: &[Case], sampler: &mut Sampler) -> Result<(), Fault> {
        let allowed = sampler.cpus().to_vec();
        for (index, case) in cases.iter().enumerate() {
            let Some(ends) = ends(case) else {
                let text = format!("{} names no two CPUs", case.params);
                sampler.fault(index, Fault::Failed(text));
                continue;
            };
            if let Err(fault) = take(index, ends, &allowed, sampler) {
                sampler.fault(index, fault);
            }
        }
        Ok(())
    }
}

/// Pairs of an effort.
fn pairs(allowed: &[u32], effort: Effort) -> Vec<(u32, u32)> {
    let Some((first, others)) = allowed.split_first() else { return Vec::new() };
    let firsts = match (effort, allowed.len()) {
        // One CPU is a case as well, whose reason is told.
        (_, 1) => return vec![(*first, *first + 1)],
        (Effort::Thorough, _) => &allowed[..allowed.len().min(CPUS_MAX)],
        _ => {
            // Evenly over all, so that far ones are among them.
            let step = others.len().div_ceil(PARTNERS_MAX);
            return others.iter().step_by(step).map(|other| (*first, *other)).collect();
        }
    };
    let above = |a: u32| firsts.iter().filter(move |b| **b > a).map(move |b| (a, *b));
    firsts.iter().flat_map(|a| above(*a)).collect()
}

fn ends(case: &Case) -> Option<(u32, u32)> {
    let end = |name| case.params.integer(name).and_then(|cpu| u32::try_from(cpu).ok());
    Some((end("a")?, end("b")?)).filter(|(a, b)| a < b)
}

fn take(
    index: usize,
    (a, b): (u32, u32),
    allowed: &[u32],
    sampler: &mut Sampler,
) -> Result<(), Fault> {
    let own = sampler.settings().cpu;
    if allowed.len() < 2 {
        let what = "there is one CPU only for this process";
        return Err(Fault::unavailable(what, Remedy::SecondCpu));
    }
    let line = Line::new();
    // The worker is an end itself, or only calls the time.
    let others: Vec<u32> = [a, b].into_iter().filter(|cpu| *cpu != own).collect();
    let mut crew = ThreadTeam::on(&others)?;
    sampler.works_in_step_with(&crew.threads());
    let maker = |cpu: u32| line.maker(u64::from(cpu == b), cpu == a);
    let caller = (others.len() == 1).then(|| maker(own));
    let mut mustered = crew.muster(caller, others.iter().map(|cpu| maker(*cpu)).collect())?;
    // A round trip is two ways.
    sampler.run(vec![Work::unrolled(index, 2.0, |iterations| mustered.work(iterations))]);
    sampler.works_in_step_with(&[]);
    for finding in mustered.dismiss() {
        let (passed, text) = finding?;
        sampler.check(index, "turns and CPUs", passed, format!("CPUs {a} and {b}: {text}"));
    }
    Ok(())
}

/// The line: in a page of its own, made by the first end, found by the other.
#[derive(Clone, Default)]
struct Line(Arc<Place>);

#[derive(Default)]
struct Place {
    /// Address of the number; 0 before it is made.
    address: AtomicU64,
}

impl Line {
    fn new() -> Self {
        Self::default()
    }

    /// The end that adds one wherever the number is even, or odd.
    fn maker(&self, parity: u64, first: bool) -> TaskFactory {
        let line = self.clone();
        Box::new(move || {
            // Who touches it first decides the node that it lies on.
            let page = if first { Some(Buffer::of(4096, Page::Base)?) } else { None };
            if let Some(page) = &page {
                // SAFETY: within the page, and aligned.
                unsafe { page.start().cast::<u64>().write_volatile(0) };
                line.0.address.store(page.start().addr() as u64, Ordering::Release);
            }
            Ok(Box::new(End { line, parity, page, turns: 0, trips: 0 }) as Box<dyn TeamTask>)
        })
    }
}

/// One end of the exchange.
struct End {
    line: Line,
    parity: u64,
    /// The first end's: it must outlive the other's last turn.
    page: Option<Buffer>,
    turns: u64,
    trips: u64,
}

/// Looks for the own turn at most; some seconds.
const LOOKS_MAX: u64 = 1 << 31;

impl TeamTask for End {
    fn work(&mut self, iterations: u64) -> u64 {
        let address = self.line.0.address.load(Ordering::Acquire) as usize;
        if address == 0 {
            return 0;
        }
        // SAFETY: the first end's page, which lives until both have ended their batches.
        let number = unsafe { &*std::ptr::with_exposed_provenance::<AtomicU64>(address) };
        let from = 2 * self.trips;
        for trip in 0..iterations {
            let turn = from + 2 * trip + self.parity;
            let mut looks = 0;
            while number
                .compare_exchange(turn, turn + 1, Ordering::AcqRel, Ordering::Relaxed)
                .is_err()
            {
                looks += 1;
                if looks > LOOKS_MAX {
                    return trip;
                }
            }
            self.turns += 1;
        }
        self.trips += iterations;
        iterations
    }

    fn finish(self: Box<Self>) -> Result<CheckResult, Fault> {
        let Some(page) = &self.page else {
            return Ok((self.turns == self.trips, format!("{} turns each", self.turns)));
        };
        let (there, pages) = page.check()?;
        // SAFETY: the own page. Both ends had their last turn before the last batch ended.
        let number = unsafe { page.start().cast::<u64>().read_volatile() };
        let passed = there && self.turns == self.trips && number == 2 * self.trips;
        Ok((passed, format!("{} turns each, {number} in all; {pages}", self.turns)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smoke;

    #[test]
    fn both_ends_have_their_turns_on_their_cpus() {
        for (_, sample) in smoke::take(&CoreToCore) {
            match sample {
                Ok(sample) => {
                    assert!(sample.values.iter().all(|ns| *ns > 0.1), "{:?}", sample.values);
                    assert_eq!(sample.checks.len(), 1);
                }
                Err(fault) => assert!(fault.to_string().contains("CPU"), "{fault}"),
            }
        }
    }

    #[test]
    fn a_cpu_that_is_not_there_is_the_reason() {
        let _alone = smoke::alone();
        let case = Case::usual(Params::one("a", 0).and("b", 1023));
        let samples = smoke::visit(&CoreToCore, &[case]);
        assert!(matches!(&samples[0], Err(Fault::Unavailable(text, _)) if text.contains("CPU")));
    }

    #[test]
    fn an_end_whose_turn_was_taken_by_another_counts_short() {
        let line = Line::new();
        let mut first = line.maker(0, true)().unwrap();
        let mut second = line.maker(1, false)().unwrap();
        assert_eq!((first.work(1), second.work(1)), (1, 1));
        let third = line.maker(0, false)().unwrap();
        assert!(third.finish().unwrap().0, "no turn and no trip");
        assert!(second.finish().unwrap().0);
        // SAFETY: the page lives with the first end.
        let number = line.0.address.load(Ordering::Relaxed) as usize;
        let number = std::ptr::with_exposed_provenance_mut::<u64>(number);
        // SAFETY: as above.
        unsafe { number.write_volatile(7) };
        let (passed, text) = first.finish().unwrap();
        assert!(!passed && text.contains("7 in all"), "{text}");
    }

    #[test]
    fn pairs_are_those_of_the_first_or_all() {
        let all: Vec<u32> = (0..64).collect();
        let quick = pairs(&all, Effort::Quick);
        assert_eq!((quick.len(), quick[0]), (16, (0, 1)));
        assert!(quick.iter().all(|(a, b)| *a == 0 && b > a) && quick[15].1 >= 60);
        assert_eq!(pairs(&all, Effort::Thorough).len(), 24 * 23 / 2);
        assert_eq!(pairs(&[3, 5, 9], Effort::Thorough), [(3, 5), (3, 9), (5, 9)]);
        assert_eq!(pairs(&[2], Effort::Quick), [(2, 3)]);
        assert!(pairs(&[], Effort::Quick).is_empty());
    }

    #[test]
    fn two_cores_have_a_limit_and_threads_of_one_core_no_model() {
        let mut host = Host::default();
        host.cpu.architecture = "x86_64".to_owned();
        host.cpu.vendor = Some("AuthenticAMD".to_owned());
        (host.cpu.family, host.cpu.model_number) = (Some(25), Some(17));
        host.cpu.siblings = vec![vec![0, 2], vec![1, 3]];
        let records = [smoke::record("cpu.frequency", &Params::none(), 2e9, 1e6)];
        let predict = |a: i64, b: i64| {
            let case = Case::usual(Params::one("a", a).and("b", b));
            CoreToCore.predict(&case, &host, &Known::new(&records))
        };
        for (a, b) in [(0, 1), (0, 3), (2, 3)] {
            let claim = predict(a, b).unwrap();
            assert_eq!((claim.value, claim.low, claim.high), (None, Some(25.0), None));
        }
        for (a, b) in [(0, 2), (1, 3)] {
            assert_eq!(predict(a, b), Err(NoModel::ThreadsOfOneCore));
        }
    }
}
