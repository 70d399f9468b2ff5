//! cpu.loop.iteration: one iteration of an empty counted loop.

use std::arch::asm;

use crate::prelude::*;

metric!(LoopIteration, ABOUT);

static ABOUT: About = About {
    id: "cpu.loop.iteration",
    title: "one iteration of an empty loop",
    timed: "decrement, compare and branch, with the counter in a register or on the stack, where \
            unoptimised code keeps it",
    not_timed: "a loop body: there is none",
    model: "register: one taken branch per cycle. memory: one store-to-load forwarding and one \
            addition per iteration; less on cores that rename memory",
    source: "data/uarch.toml: taken_branch_cycles, store_forward_cycles, add_latency_cycles",
    pitfalls: &[
        "a compiler removes an empty loop: this one is assembly",
        "Zen 2 and later, and Intel since Ice Lake, forward some stores with zero latency: the \
         memory form can be as fast as the register form",
    ],
    parameters: &[Parameter::new("form", "register, memory", "location of the loop counter")],
    needs: &["cpu.frequency"],
    published: "2.58 ns, memory form (2016, i5-5257U)",
    ..About::BASE
};

impl Probe for LoopIteration {
    fn cases(&self, _: &Host, _: &Sizes) -> Vec<ProbeCase> {
        ["register", "memory"].map(|form| ProbeCase::usual(Params::one("form", form))).into()
    }

    fn predict(&self, case: &ProbeCase, host: &Host, known: &Inputs<'_>) -> Model {
        let row = uarch::row_for(host)?;
        let frequency = known.frequency()?;
        let cycle_ns = 1e9 / frequency;
        let prediction = match case.params.text("form") {
            Some("register") => {
                let branch = row.sourced("taken_branch_cycles")?;
                let formula = "taken branch cycles ÷ frequency";
                Prediction::sum(branch.value * cycle_ns, 0.0, 0.1, formula, &branch.source)
                    .with_input("taken branch cycles", branch.value, row.origin())
            }
            _ => {
                let forward = row.sourced("store_forward_cycles")?;
                let add = row.sourced("add_latency_cycles")?;
                memory_form(forward, add, cycle_ns)
                    .with_input("add cycles", add.value, row.origin())
                    .with_input("store-forward cycles", forward.value, row.origin())
            }
        };
        Ok(prediction
            .if_above(
                "SMT contention, a fetch bubble from the loop's alignment, or the core is not the \
                 one in the table",
            )
            .if_below("the core renames the counter's memory, or is not the one in the table")
            .with_quantity("frequency", frequency, Unit::Hertz, Origin::this_run("cpu.frequency")))
    }

    fn visit(&self, cases: &[ProbeCase], sampler: &mut Sampler) -> Result<()> {
        let work = |(index, case): (usize, &ProbeCase)| match case.params.text("form") {
            Some("register") => SamplerWork::batched(index, in_register),
            _ => SamplerWork::batched(index, in_memory),
        };
        sampler.run(cases.iter().enumerate().map(work).collect());
        Ok(())
    }
}

/// The limits of the source instead of ± 20 % where the core renames memory, as it is not published
/// which stores that covers.
fn memory_form(forward: &uarch::Constant, add: &uarch::Constant, cycle_ns: f64) -> Prediction {
    let formula = "(store-forward cycles + add cycles) ÷ frequency";
    let mut prediction =
        Prediction::sum((forward.value + add.value) * cycle_ns, 0.0, 0.2, formula, &forward.source);
    if let Some(low) = forward.low {
        prediction.low = Some((low + add.value) * cycle_ns * 0.9);
    }
    if let Some(high) = forward.high {
        prediction.high = Some((high + add.value) * cycle_ns * 1.1);
    }
    match prediction.tolerance() {
        Some(tolerance) if tolerance > 0.3 => prediction.as_bracket(),
        _ => prediction,
    }
}

/// The loop is aligned to a cache line: a branch across a fetch block costs a bubble.
fn in_register(iterations: u64) -> u64 {
    let mut left = iterations;
    // SAFETY: register arithmetic only.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!(".p2align 6", "2:", "dec {left}", "jnz 2b", left = inout(reg) left,
            options(nomem, nostack));
        #[cfg(target_arch = "aarch64")]
        asm!(".p2align 6", "2:", "subs {left}, {left}, #1", "b.ne 2b", left = inout(reg) left,
            options(nomem, nostack));
    }
    iterations - left
}

/// As unoptimised code does: load, decrement and store the counter in each iteration.
fn in_memory(iterations: u64) -> u64 {
    let left: u64;
    // SAFETY: the block allocates and frees its stack space. Without `nostack` the compiler keeps
    // nothing in the red zone of x86-64.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!(
            // The counter is on the stack, where compilers keep an unoptimised variable.
            "sub rsp, 16",
            "mov [rsp], {count}",
            ".p2align 6", "2:",
            "sub qword ptr [rsp], 1",
            "jnz 2b",
            "mov {count}, [rsp]",
            "add rsp, 16",
            count = inout(reg) iterations => left);
        #[cfg(target_arch = "aarch64")]
        asm!(
            "sub sp, sp, #16", "str {count}, [sp]",
            ".p2align 6", "2:",
            "ldr {count}, [sp]", "subs {count}, {count}, #1", "str {count}, [sp]", "b.ne 2b",
            "add sp, sp, #16",
            count = inout(reg) iterations => left);
    }
    iterations - left
}

#[cfg(test)]
mod tests {
    use fathom_record::{Agreement, host};

    use super::*;
    use crate::smoke;

    /// The agreement of a measurement in cycles with the row of a CPU.
    fn agreement((vendor, family, model): (&str, u32, u32), form: &str, cycles: f64) -> Agreement {
        let cpu = host::Cpu {
            architecture: "x86_64".to_owned(),
            vendor: Some(vendor.to_owned()),
            family: Some(family),
            model_number: Some(model),
            ..host::Cpu::default()
        };
        let host = Host { cpu, ..Host::default() };
        let records = [smoke::record("cpu.frequency", &Params::none(), 1e9, 1.0)];
        let case = ProbeCase::usual(Params::one("form", form));
        let model = LoopIteration.predict(&case, &host, &Inputs::new(&records)).expect("a row");
        model.agreement(Some([cycles * 0.99, cycles * 1.01]))
    }

    #[test]
    fn wrong_row_or_added_work_is_outside() {
        let [skylake, zen4] = [("GenuineIntel", 6, 0x5e), ("AuthenticAMD", 25, 17)];
        assert!(agreement(skylake, "memory", 5.5).holds());
        assert!(agreement(zen4, "memory", 5.5).fails());
        assert!(agreement(zen4, "memory", 1.0).holds());
        assert!(agreement(skylake, "memory", 1.0).fails());
        for row in [skylake, zen4] {
            assert!(agreement(row, "register", 1.0).holds());
            assert!(agreement(row, "register", 2.0).fails(), "twice the work");
        }
    }

    #[test]
    fn both_forms_execute_every_iteration() {
        for count in [1, 2, 100_000] {
            assert_eq!(in_register(count), count);
            assert_eq!(in_memory(count), count);
        }
    }
}
