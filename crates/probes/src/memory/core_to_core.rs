//! memory.core_to_core: core-to-core cache-line transfer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::thread_team::{CheckResult, TaskFactory, TeamTask, ThreadTeam};
use crate::prelude::*;

metric!(CoreToCore, ABOUT);

static ABOUT: About = About {
    id: "memory.core_to_core",
    title: "core-to-core cache-line transfer",
    timed: "one-way transfer of a cache line between two cores: half of a round trip in which both \
            alternately increment a number by compare-and-swap, which needs the line exclusively",
    not_timed: "wake-ups: both ends poll the line in pinned threads, and no other thread uses it",
    model: "lower bound for two cores: ≥ l3_cycles ÷ cpu.frequency, as a line that another core \
            owns is looked up in the last-level cache at least. No value: the cost of the path to \
            the owner is not published. No model for SMT siblings, which share L1",
    source: "data/uarch.toml (l3_cycles); the number is one way, as in core-to-core-latency \
             (N. Viennot, github.com/nviennot/core-to-core-latency, benchmark 1: CAS on a shared \
             line)",
    pitfalls: &[
        "some published figures are one way, others round trips: a factor of two",
        "an end that polls by loads and then writes transfers the line twice: to read it, and to \
         own it. Here one compare-and-swap does both",
        "false sharing: each pair has a new line in a page of its own, first touched by the first \
         end on its NUMA node",
        "a virtual CPU is not a core: which ones share a core or a cache depends on the \
         hypervisor, and may change",
    ],
    parameters: &[
        Parameter::new("a", "CPU number", "first toucher of the line"),
        Parameter::new(
            "b",
            "CPU number above a",
            "the other end. quick and standard: the first allowed CPU with at most 16 \
                      others; thorough: all pairs of at most 24 CPUs",
        ),
    ],
    needs: &["cpu.frequency"],
    requires: "two CPUs",
    noise_limit: 0.10,
    on_two_cpus: false,
    ..About::BASE
};

/// Pairs of the first CPU.
const PARTNERS_MAX: usize = 16;
/// CPUs of which all pairs are measured.
const CPUS_MAX: usize = 24;

impl Probe for CoreToCore {
    fn cases(&self, host: &Host, sizes: &Sizes) -> Vec<ProbeCase> {
        let pairs = if sizes.smoke { vec![(0, 1)] } else { pairs(&host.cpu.allowed, sizes.effort) };
        let case = |(a, b): (u32, u32)| ProbeCase {
            params: Params::one("a", i64::from(a)).and("b", i64::from(b)),
            cost_ns: 10e6,
        };
        pairs.into_iter().map(case).collect()
    }

    fn selection(&self, _: &ProbeCase, _: &Host) -> Result<Stratum, NotSelected> {
        Err(NotSelected::SecondCpu)
    }

    fn predict(&self, case: &ProbeCase, host: &Host, known: &Inputs<'_>) -> Model {
        let (a, b) = ends(&case.params).unwrap_or((0, 0));
        if host.cpu.siblings.iter().any(|core| core.contains(&a) && core.contains(&b)) {
            return Err(NoModel::ThreadsOfOneCore);
        }
        let row = uarch::row_for(host)?;
        let cycles = row.sourced("l3_cycles")?;
        let hz = known.frequency()?;
        let formula = "≥ l3_cycles ÷ cpu.frequency";
        let source = "caches of other cores are reached through the last-level cache or beyond";
        let bound = Prediction::at_least(cycles.value / hz * 1e9, formula, source)
            .with_input("l3_cycles", cycles.value, row.origin())
            .with_result("cpu.frequency", hz, Unit::Hertz);
        Ok(bound.if_below("reported topology unverified: the virtual CPUs may be SMT siblings"))
    }

    fn visit(&self, cases: &[ProbeCase], sampler: &mut Sampler) -> Result<()> {
        let allowed = sampler.cpus().to_vec();
        each_parsed(cases, sampler, ends, |index, ends, sampler| {
            measure(index, ends, &allowed, sampler)
        })
    }
}

fn pairs(allowed: &[u32], effort: Effort) -> Vec<(u32, u32)> {
    let Some((first, others)) = allowed.split_first() else { return Vec::new() };
    let firsts = match (effort, allowed.len()) {
        // A case that reports why it is unavailable.
        (_, 1) => return vec![(*first, *first + 1)],
        (Effort::Thorough, _) => &allowed[..allowed.len().min(CPUS_MAX)],
        _ => {
            // Spread evenly, to include distant cores.
            let step = others.len().div_ceil(PARTNERS_MAX);
            return others.iter().step_by(step).map(|other| (*first, *other)).collect();
        }
    };
    let above = |a: u32| firsts.iter().filter(move |b| **b > a).map(move |b| (a, *b));
    firsts.iter().flat_map(|a| above(*a)).collect()
}

fn ends(params: &Params) -> Option<(u32, u32)> {
    let end = |name| params.number(name);
    Some((end("a")?, end("b")?)).filter(|(a, b)| a < b)
}

fn measure(index: usize, (a, b): (u32, u32), allowed: &[u32], sampler: &mut Sampler) -> Result<()> {
    let own = sampler.settings().cpu;
    if allowed.len() < 2 {
        return Err(SamplerFault::unavailable(
            "this process may use one CPU only",
            Remedy::SecondCpu,
        ));
    }
    let address = Arc::default();
    // The worker is one end, or only starts the batches.
    let others: Vec<u32> = [a, b].into_iter().filter(|cpu| *cpu != own).collect();
    let mut team = ThreadTeam::pinned_to(&others)?;
    sampler.works_in_step_with(&team.threads());
    let factory = |cpu: u32| CoreToCoreEnd::factory(&address, u64::from(cpu == b), cpu == a);
    let caller = (others.len() == 1).then(|| factory(own));
    let mut running = team.start(caller, others.iter().map(|cpu| factory(*cpu)).collect())?;
    // Two transfers per round trip.
    sampler.run(vec![SamplerWork::unrolled(index, 2.0, |iterations| running.run(iterations))]);
    sampler.works_in_step_with(&[]);
    for result in running.finish() {
        let (passed, text) = result?;
        sampler.check(index, "turns and CPUs", passed, format!("CPUs {a} and {b}: {text}"));
    }
    Ok(())
}

/// One end of the exchange. The number is in a page of its own, which the first end creates.
struct CoreToCoreEnd {
    /// Address of the number; 0 until the first end has created it.
    address: Arc<AtomicU64>,
    /// This end increments even (0) or odd (1) numbers.
    parity: u64,
    /// Of the first end; it must outlive the last batch of both.
    page: Option<Buffer>,
    turns: u64,
    trips: u64,
}

/// Failed compare-and-swaps until this end gives up: some seconds.
const ATTEMPTS_MAX: u64 = 1 << 31;

impl CoreToCoreEnd {
    fn factory(address: &Arc<AtomicU64>, parity: u64, is_first: bool) -> TaskFactory {
        let address = Arc::clone(address);
        Box::new(move || {
            // First touch decides the NUMA node of the line.
            let page =
                if is_first { Some(Buffer::with_bytes(4096, BufferPage::Base)?) } else { None };
            if let Some(page) = &page {
                // SAFETY: inside the page, and aligned.
                unsafe { page.start().cast::<u64>().write_volatile(0) };
                address.store(page.start().addr() as u64, Ordering::Release);
            }
            Ok(Box::new(Self { address, parity, page, turns: 0, trips: 0 }) as Box<dyn TeamTask>)
        })
    }
}

impl TeamTask for CoreToCoreEnd {
    fn run(&mut self, iterations: u64) -> u64 {
        // Acquire: the first end has written the page before it stores the address.
        let address = self.address.load(Ordering::Acquire) as usize;
        if address == 0 {
            return 0;
        }
        // SAFETY: the first end's page, which lives until both have ended their batches.
        let number = unsafe { &*std::ptr::with_exposed_provenance::<AtomicU64>(address) };
        let from = 2 * self.trips;
        for trip in 0..iterations {
            let turn = from + 2 * trip + self.parity;
            let mut attempts = 0;
            // No PAUSE between attempts: it would delay the one that succeeds.
            while number
                .compare_exchange(turn, turn + 1, Ordering::AcqRel, Ordering::Relaxed)
                .is_err()
            {
                attempts += 1;
                if attempts > ATTEMPTS_MAX {
                    return trip;
                }
            }
            // In private memory: a second shared line would be transferred, too.
            self.turns += 1;
        }
        self.trips += iterations;
        iterations
    }

    fn finish(self: Box<Self>) -> Result<CheckResult> {
        let Some(page) = &self.page else {
            return Ok((self.turns == self.trips, format!("{} turns each", self.turns)));
        };
        let (is_resident, pages) = page.check()?;
        // SAFETY: our own page. Both ends had their last turn before the last batch ended.
        let number = unsafe { page.start().cast::<u64>().read_volatile() };
        let passed = is_resident && self.turns == self.trips && number == 2 * self.trips;
        Ok((passed, format!("{} turns each, {number} in all; {pages}", self.turns)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smoke;

    #[test]
    fn both_ends_take_turns_on_their_cpus() {
        for (_, sample) in smoke::run(&CoreToCore) {
            match sample {
                Ok(sample) => assert_eq!(sample.checks.len(), 1),
                Err(fault) => assert!(fault.to_string().contains("CPU"), "{fault}"),
            }
        }
    }

    #[test]
    fn foreign_write_to_the_line_fails_the_check() {
        let address = Arc::default();
        let mut first = CoreToCoreEnd::factory(&address, 0, true)().unwrap();
        let mut second = CoreToCoreEnd::factory(&address, 1, false)().unwrap();
        assert_eq!((first.run(1), second.run(1)), (1, 1));
        assert!(second.finish().unwrap().0);
        let number = address.load(Ordering::Relaxed) as usize;
        let number = std::ptr::with_exposed_provenance_mut::<u64>(number);
        // SAFETY: the page lives with the first end.
        unsafe { number.write_volatile(7) };
        let (passed, text) = first.finish().unwrap();
        assert!(!passed && text.contains("7 in all"), "{text}");
    }

    #[test]
    fn partners_of_many_cpus_are_spread() {
        let all: Vec<u32> = (0..64).collect();
        let quick = pairs(&all, Effort::Quick);
        assert_eq!((quick.len(), quick[0]), (16, (0, 1)));
        assert!(quick.iter().all(|(a, b)| *a == 0 && b > a) && quick[15].1 >= 60);
        assert_eq!(pairs(&all, Effort::Thorough).len(), 24 * 23 / 2);
        assert!(pairs(&[], Effort::Quick).is_empty());
    }
}
