//! cpu.call: a procedure call and its return, with 0 to 7 integer arguments.

use fathom_measure::sampler::Fault;
use fathom_measure::{Sampler, Work};
use fathom_record::{Host, NoModel, Origin, Params, Prediction, Unit};

use crate::uarch;
use fathom_metric::order::earlier;
use fathom_metric::{About, Case, Known, Parameter, Probe, Sizes};

/// cpu.call.
pub struct Call;

/// The largest number of arguments.
pub const ARGUMENTS_MAX: i64 = 7;
/// Integer arguments that travel in registers: six by the System V ABI of x86-64, eight by that of
/// aarch64.
pub const IN_REGISTERS: i64 = if cfg!(target_arch = "x86_64") { 6 } else { 8 };

static ABOUT: About = About {
    id: "cpu.call",
    title: "procedure call and return",
    timed: "placing n integer arguments, CALL, one addition to a running count in the callee \
            (which also loads its stack arguments), and RET; the next call begins when the front \
            end is through with this one",
    not_timed: "a stack frame and saved registers, which a leaf procedure does not need. The loop \
                around is in it: unrolled eight times, its branch is some hundredths of a cycle",
    model: "the narrower of two: call + return, as two taken branches with their bubbles; or all \
            instructions of the call, arguments included, ÷ issue width. While the branches are \
            the narrower, arguments fill slots that stand empty and cost nothing",
    source: "data/uarch.toml: call_ret_cycles, moves_per_cycle, stack_argument_cycles; throughput \
             is that of the narrowest part: Agner Fog, Optimizing subroutines in assembly \
             language, chapter 9",
    pitfalls: &[
        "a compiler inlines a short procedure: caller and callee are assembly, and the callee's \
         count of its calls is checked after each batch",
        "one call between two stamps measures the stamps: published figures of 10 ns do",
        "out-of-order cores place arguments while the branches are under way, so that further \
         arguments can be free",
    ],
    parameters: &[Parameter {
        name: "args",
        values: "0 … 7",
        meaning: "integer arguments; the seventh goes by the stack on x86-64",
    }],
    needs: &["cpu.frequency"],
    published: "10.7 … 12.3 ns with the clock's 30 cycles in it (2016, i5-5257U)",
    ..About::BASE
};

impl Probe for Call {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn cases(&self, _: &Host, _: &Sizes) -> Vec<Case> {
        (0..=ARGUMENTS_MAX).map(|args| Case::usual(Params::one("args", args))).collect()
    }

    fn predict(&self, case: &Case, host: &Host, known: &Known<'_>) -> Result<Prediction, NoModel> {
        let row = uarch::row_for(host)?;
        let frequency = earlier("cpu.frequency", &Params::none(), known)?;
        let args = case.params.integer("args").unwrap_or(0);
        let (in_registers, on_stack) = (args.min(IN_REGISTERS), (args - IN_REGISTERS).max(0));
        let call = row.sourced("call_ret_cycles")?;
        let width = row.sourced("moves_per_cycle")?;
        let stack = match on_stack {
            0 => 0.0,
            args => args as f64 * row.sourced("stack_argument_cycles")?.value,
        };
        let instructions = (INSTRUCTIONS + in_registers) as f64;
        let issue = instructions / width.value + stack;
        let cycle_ns = 1e9 / frequency;
        let beyond = (issue - call.value).max(0.0);
        let formula = "max(call + ret cycles, instructions ÷ moves a cycle + cycles of stack \
                       arguments) ÷ frequency";
        let (hardware, software) = (call.value * cycle_ns, beyond * cycle_ns);
        let sum = Prediction::sum(hardware, software, 0.2, formula, &call.source);
        Ok(sum
            .with_input("call + ret cycles", call.value, row.origin())
            .with_input(
                "instructions",
                instructions,
                Origin::calculated("the loop: call, add, ret and arguments"),
            )
            .with_input("moves a cycle", width.value, row.origin())
            .with_input("cycles of stack arguments", stack, row.origin())
            .with_quantity("frequency", frequency, Unit::Hertz, Origin::this_run("cpu.frequency"))
            .if_above(
                "something stands between call and return: a patched return, another thread of \
                 the same core; or the core is not the table's",
            )
            .if_below("the core is not the table's"))
    }

    fn visit(&self, cases: &[Case], sampler: &mut Sampler) -> Result<(), Fault> {
        let mut works = Vec::new();
        for (index, case) in cases.iter().enumerate() {
            let args = case.params.integer("args").and_then(|args| usize::try_from(args).ok());
            let kernel = args.and_then(|args| KERNELS.get(args)).copied();
            let Some(kernel) = kernel else {
                return Err(Fault::Failed(format!("no call kernel for {}", case.params)));
            };
            works.push(Work::unrolled(index, UNROLLED as f64, kernel));
        }
        sampler.run(works);
        Ok(())
    }
}

/// Instructions of a call without arguments: call, addition, return.
const INSTRUCTIONS: i64 = 3;
/// Calls in one iteration of a kernel.
const UNROLLED: u64 = 8;

/// The kernel of each number of arguments.
const KERNELS: [fn(u64) -> u64; 8] = [
    kernels::args0,
    kernels::args1,
    kernels::args2,
    kernels::args3,
    kernels::args4,
    kernels::args5,
    kernels::args6,
    kernels::args7,
];

/// Caller and callee. The callee counts its calls in the return register; the count comes back.
#[cfg(target_arch = "x86_64")]
mod kernels {
    use std::arch::asm;

    use super::UNROLLED;

    macro_rules! kernel {
        ($name:ident, [$($place:literal)*], [$($take:literal)*]) => {
            pub(super) fn $name(iterations: u64) -> u64 {
                let calls: u64;
                // SAFETY: the block makes its own room on the stack and gives it back; the label
                // that is called returns to its caller and changes only registers declared here.
                unsafe {
                    asm!(
                        "sub rsp, 32",
                        "jmp 4f",
                        ".p2align 6", "3:",
                        $($take,)*
                        "add rax, 1",
                        "ret",
                        ".p2align 6", "4:",
                        ".rept 8",
                        $(concat!("mov ", $place, ", r11"),)*
                        "call 3b",
                        ".endr",
                        "dec {count}",
                        "jnz 4b",
                        "add rsp, 32",
                        count = inout(reg) iterations => _,
                        inout("rax") 0u64 => calls,
                        in("r11") 7u64,
                        out("rdi") _, out("rsi") _, out("rdx") _, out("rcx") _,
                        out("r8") _, out("r9") _, out("r10") _);
                }
                calls / UNROLLED
            }
        };
    }

    // The places of the arguments, and what loads one from the stack.
    kernel!(args0, [], []);
    kernel!(args1, ["rdi"], []);
    kernel!(args2, ["rdi" "rsi"], []);
    kernel!(args3, ["rdi" "rsi" "rdx"], []);
    kernel!(args4, ["rdi" "rsi" "rdx" "rcx"], []);
    kernel!(args5, ["rdi" "rsi" "rdx" "rcx" "r8"], []);
    kernel!(args6, ["rdi" "rsi" "rdx" "rcx" "r8" "r9"], []);
    kernel!(args7, ["rdi" "rsi" "rdx" "rcx" "r8" "r9" "[rsp]"], ["mov r10, [rsp + 8]"]);
}

/// Caller and callee. The callee counts its calls in the return register; the count comes back.
#[cfg(target_arch = "aarch64")]
mod kernels {
    use std::arch::asm;

    use super::UNROLLED;

    macro_rules! kernel {
        ($name:ident, [$($place:literal)*]) => {
            pub(super) fn $name(iterations: u64) -> u64 {
                let calls: u64;
                // SAFETY: the label that is called returns to its caller and changes only
                // registers declared here.
                unsafe {
                    asm!(
                        "b 4f",
                        ".p2align 6", "3:",
                        "add x9, x9, #1",
                        "ret",
                        ".p2align 6", "4:",
                        ".rept 8",
                        $(concat!("mov ", $place, ", x11"),)*
                        "bl 3b",
                        ".endr",
                        "subs {count}, {count}, #1",
                        "b.ne 4b",
                        count = inout(reg) iterations => _,
                        inout("x9") 0u64 => calls,
                        in("x11") 7u64,
                        out("x0") _, out("x1") _, out("x2") _, out("x3") _,
                        out("x4") _, out("x5") _, out("x6") _, out("x7") _, out("lr") _,
                        options(nostack));
                }
                calls / UNROLLED
            }
        };
    }

    kernel!(args0, []);
    kernel!(args1, ["x0"]);
    kernel!(args2, ["x0" "x1"]);
    kernel!(args3, ["x0" "x1" "x2"]);
    kernel!(args4, ["x0" "x1" "x2" "x3"]);
    kernel!(args5, ["x0" "x1" "x2" "x3" "x4"]);
    kernel!(args6, ["x0" "x1" "x2" "x3" "x4" "x5"]);
    kernel!(args7, ["x0" "x1" "x2" "x3" "x4" "x5" "x6"]);
}

#[cfg(test)]
mod tests {
    use fathom_record::host::Cpu;

    use super::*;
    use crate::smoke;

    #[test]
    fn arguments_cost_nothing_while_the_branches_are_narrower_than_the_issue() {
        let cpu = Cpu {
            architecture: "x86_64".to_owned(),
            vendor: Some("AuthenticAMD".to_owned()),
            family: Some(25),
            model_number: Some(17),
            ..Cpu::default()
        };
        let host = Host { cpu, ..Host::default() };
        let records = [smoke::record("cpu.frequency", &Params::none(), 4e9, 1e6)];
        let value = |args: i64| {
            let case = Case::usual(Params::one("args", args));
            Call.predict(&case, &host, &Known::new(&records)).unwrap().value
        };
        // Two taken branches of two cycles each at 4 GHz; 24 slots for 3 + n instructions.
        assert_eq!([0, 3, 7].map(value), [Some(1.0); 3]);
    }

    #[test]
    fn the_callee_counts_every_call() {
        for kernel in KERNELS {
            assert_eq!(kernel(1), 1);
            assert_eq!(kernel(9_999), 9_999);
        }
    }
}
