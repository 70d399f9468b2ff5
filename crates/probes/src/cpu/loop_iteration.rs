//! cpu.loop.iteration: one iteration of an empty counted loop.

use std::arch::asm;

use fathom_measure::sampler::Fault;
use fathom_measure::{Sampler, Work};
use fathom_record::{Host, NoModel, Origin, Params, Prediction, Unit};

use crate::uarch;
use fathom_metric::order::earlier;
use fathom_metric::{About, Case, Known, Parameter, Probe, Sizes};

/// cpu.loop.iteration.
pub struct LoopIteration;

static ABOUT: About = About {
    id: "cpu.loop.iteration",
    title: "one iteration of an empty loop",
    timed: "decrement, compare and jump back, with the counter in a register or in memory on the \
            stack, as compilers place it without optimisation",
    not_timed: "a loop body: there is none",
    model: "register: one taken branch a cycle. memory: the counter goes through the store buffer \
            each time, so one store-to-load forwarding and one addition an iteration; cores that \
            rename memory need less",
    source: "data/uarch.toml: taken_branch_cycles, store_forward_cycles, add_latency_cycles",
    pitfalls: &[
        "a compiler removes an empty loop: this one is assembly",
        "Zen 2 and later, and Intel since Ice Lake, forward some stores at no cost: the memory \
         form may then be as fast as the register form",
    ],
    parameters: &[Parameter {
        name: "form",
        values: "register, memory",
        meaning: "where the loop's counter lives",
    }],
    needs: &["cpu.frequency"],
    published: "2.58 ns, memory form (2016, i5-5257U)",
    ..About::BASE
};

impl Probe for LoopIteration {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn cases(&self, _: &Host, _: &Sizes) -> Vec<Case> {
        ["register", "memory"].map(|form| Case::usual(Params::one("form", form))).into()
    }

    fn predict(&self, case: &Case, host: &Host, known: &Known<'_>) -> Result<Prediction, NoModel> {
        let row = uarch::row_for(host)?;
        let frequency = earlier("cpu.frequency", &Params::none(), known)?;
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
                "another thread shares the core, the loop lies across a boundary that costs a \
                 bubble, or the core is not the table's",
            )
            .if_below("the core is not the table's, or renames the counter's memory")
            .with_quantity("frequency", frequency, Unit::Hertz, Origin::this_run("cpu.frequency")))
    }

    fn visit(&self, cases: &[Case], sampler: &mut Sampler) -> Result<(), Fault> {
        let work = |(index, case): (usize, &Case)| match case.params.text("form") {
            Some("register") => Work::batched(index, in_register),
            _ => Work::batched(index, in_memory),
        };
        sampler.run(cases.iter().enumerate().map(work).collect());
        Ok(())
    }
}

/// A range rather than a value where the core's memory renaming is documented but not when it
/// applies.
fn memory_form(forward: &uarch::Constant, add: &uarch::Constant, cycle_ns: f64) -> Prediction {
    let formula = "(store-forward cycles + add cycles) ÷ frequency";
    let mut prediction =
        Prediction::sum((forward.value + add.value) * cycle_ns, 0.0, 0.3, formula, &forward.source);
    if let Some(low) = forward.low {
        prediction.low = Some((low + add.value) * cycle_ns * 0.9);
    }
    if let Some(high) = forward.high {
        prediction.high = Some((high + add.value) * cycle_ns * 1.1);
    }
    prediction
}

/// Counts up in a register while the loop counts down: the two run side by side.
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

/// The loop of unoptimised code: the counter is loaded, decremented and stored each time.
fn in_memory(iterations: u64) -> u64 {
    let left: u64;
    // SAFETY: the block makes its own room on the stack (the red zone of x86-64 is left alone,
    // because it is not declared `nostack`) and gives it back.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!(
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
    use super::*;

    #[test]
    fn both_forms_count_every_iteration() {
        for count in [1, 2, 100_000] {
            assert_eq!(in_register(count), count);
            assert_eq!(in_memory(count), count);
        }
    }
}
