//! cpu.call: function call and return with 0 to 7 integer arguments.

use self::kernels::{args0, args1, args2, args3, args4, args5, args6, args7};
use crate::prelude::*;

metric!(Call, ABOUT);

pub const ARGUMENTS_MAX: i64 = 7;
/// Integer arguments passed in registers: 6 in the System V ABI of x86-64, 8 in AAPCS64.
pub const IN_REGISTERS: i64 = if cfg!(target_arch = "x86_64") { 6 } else { 8 };

static ABOUT: About = About {
    id: "cpu.call",
    title: "function call and return",
    timed: "moving n integer arguments into place, CALL, one increment of a counter in the callee \
            (which also loads stack arguments), and RET; calls run back to back at the throughput \
            of the front end",
    not_timed: "a stack frame and saved registers, which a leaf procedure does not need. The loop \
                around the calls is included: unrolled 8 times, it adds under 0.1 cycles per call",
    model: "the larger of two: call + return, as two taken branches with their bubbles; or all \
            instructions of the call including arguments ÷ issue width. While the branches are \
            the bottleneck, arguments use idle issue slots at no cost",
    source: "data/uarch.toml: call_ret_cycles, moves_per_cycle, stack_argument_cycles; throughput \
             is limited by the bottleneck: Agner Fog, Optimizing subroutines in assembly \
             language, chapter 9",
    pitfalls: &[
        "a compiler inlines a short procedure: caller and callee are assembly, and the callee's \
         call counter is checked after each batch",
        "one call between two timestamps measures the timestamps: published figures of 10 ns do",
        "out-of-order cores execute argument moves in parallel with the branches: more arguments \
         can be free",
    ],
    parameters: &[Parameter::new(
        "args",
        "0 … 7",
        "integer arguments; on x86-64 the seventh is passed on the stack",
    )],
    needs: &["cpu.frequency"],
    published: "10.7 … 12.3 ns including 30 cycles of clock reads (2016, i5-5257U)",
    ..About::BASE
};

impl Probe for Call {
    fn cases(&self, _: &Host, _: &Sizes) -> Vec<ProbeCase> {
        (0..=ARGUMENTS_MAX).map(|args| ProbeCase::usual(Params::one("args", args))).collect()
    }

    fn predict(&self, case: &ProbeCase, host: &Host, known: &Inputs<'_>) -> Model {
        let row = uarch::row_for(host)?;
        let frequency = known.frequency()?;
        let args = case.params.integer("args").unwrap_or(0);
        let (in_registers, on_stack) = (args.min(IN_REGISTERS), (args - IN_REGISTERS).max(0));
        let call = row.sourced("call_ret_cycles")?;
        let width = row.sourced("moves_per_cycle")?;
        let stack = match on_stack {
            0 => 0.0,
            count => count as f64 * row.sourced("stack_argument_cycles")?.value,
        };
        let instructions = (INSTRUCTIONS + in_registers) as f64;
        let issue = instructions / width.value + stack;
        let cycle_ns = 1e9 / frequency;
        let beyond = (issue - call.value).max(0.0);
        let formula = "max(call + ret cycles, instructions ÷ moves per cycle + cycles of stack \
                       arguments) ÷ frequency";
        let calculated = Origin::calculated("the loop: call, add, ret and arguments");
        let (hardware, software) = (call.value * cycle_ns, beyond * cycle_ns);
        let sum = Prediction::sum(hardware, software, 0.2, formula, &call.source);
        Ok(sum
            .with_input("call + ret cycles", call.value, row.origin())
            .with_input("instructions", instructions, calculated)
            .with_input("moves per cycle", width.value, row.origin())
            .with_input("cycles of stack arguments", stack, row.origin())
            .with_quantity("frequency", frequency, Unit::Hertz, Origin::this_run("cpu.frequency"))
            .if_above(ABOVE)
            .if_below("the core is not the one in the table"))
    }

    fn visit(&self, cases: &[ProbeCase], sampler: &mut Sampler) -> Result<()> {
        let mut works = Vec::new();
        for (index, case) in cases.iter().enumerate() {
            let args = case.params.number::<usize>("args");
            let kernel = args.and_then(|args| KERNELS.get(args)).copied();
            let kernel = kernel.ok_or_else(|| crate::unknown_case(&case.params))?;
            works.push(SamplerWork::unrolled(index, UNROLLED as f64, kernel));
        }
        sampler.run(works);
        Ok(())
    }
}

const ABOVE: &str =
    "return thunks (retpoline) or SMT contention, or the core is not the one in the table";
/// Call, increment, return.
const INSTRUCTIONS: i64 = 3;
/// Calls per iteration: the loop branch adds under 0.1 cycles to each.
const UNROLLED: u64 = 8;

/// Indexed by the number of arguments.
const KERNELS: [fn(u64) -> u64; 8] = [args0, args1, args2, args3, args4, args5, args6, args7];

/// Caller and callee in one assembly block, so that no compiler inlines the call. The callee
/// increments the return register, which proves the number of calls. Both labels are aligned to a
/// cache line: otherwise their position relative to fetch blocks would change the result.
#[cfg(target_arch = "x86_64")]
mod kernels {
    use std::arch::asm;

    use super::UNROLLED;

    macro_rules! kernel {
        ($name:ident, [$($argument:literal)*], [$($load:literal)*]) => {
            pub(super) fn $name(iterations: u64) -> u64 {
                let calls: u64;
                // SAFETY: the block allocates and frees its stack space; the called label returns
                // and changes only registers declared here.
                unsafe {
                    asm!(
                        // Space for a stack argument, in every kernel, so that they differ in the
                        // arguments only.
                        "sub rsp, 32",
                        "jmp 4f",
                        ".p2align 6", "3:",
                        $($load,)*
                        "add rax, 1",
                        "ret",
                        ".p2align 6", "4:",
                        ".rept 8",
                        $(concat!("mov ", $argument, ", r11"),)*
                        "call 3b",
                        ".endr",
                        "dec {count}",
                        "jnz 4b",
                        "add rsp, 32",
                        count = inout(reg) iterations => _,
                        inout("rax") 0u64 => calls,
                        // Outside the argument registers, so that no move overwrites the source.
                        in("r11") 7u64,
                        out("rdi") _, out("rsi") _, out("rdx") _, out("rcx") _,
                        out("r8") _, out("r9") _, out("r10") _);
                }
                calls / UNROLLED
            }
        };
    }

    // Argument registers or stack slots, and the callee's load of a stack argument.
    kernel!(args0, [], []);
    kernel!(args1, ["rdi"], []);
    kernel!(args2, ["rdi" "rsi"], []);
    kernel!(args3, ["rdi" "rsi" "rdx"], []);
    kernel!(args4, ["rdi" "rsi" "rdx" "rcx"], []);
    kernel!(args5, ["rdi" "rsi" "rdx" "rcx" "r8"], []);
    kernel!(args6, ["rdi" "rsi" "rdx" "rcx" "r8" "r9"], []);
    // In the callee the return address is at [rsp], so the argument is 8 bytes above.
    kernel!(args7, ["rdi" "rsi" "rdx" "rcx" "r8" "r9" "[rsp]"], ["mov r10, [rsp + 8]"]);
}

/// As for x86-64.
#[cfg(target_arch = "aarch64")]
mod kernels {
    use std::arch::asm;

    use super::UNROLLED;

    macro_rules! kernel {
        ($name:ident, [$($argument:literal)*]) => {
            pub(super) fn $name(iterations: u64) -> u64 {
                let calls: u64;
                // SAFETY: the called label returns and changes only registers declared here.
                unsafe {
                    asm!(
                        "b 4f",
                        ".p2align 6", "3:",
                        "add x9, x9, #1",
                        "ret",
                        ".p2align 6", "4:",
                        ".rept 8",
                        $(concat!("mov ", $argument, ", x11"),)*
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
    use super::*;

    #[test]
    fn callee_counts_every_call() {
        for kernel in KERNELS {
            assert_eq!(kernel(1), 1);
            assert_eq!(kernel(9_999), 9_999);
        }
    }
}
