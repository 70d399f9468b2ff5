//! cpu.call.per_argument: cost of one more argument, as the slope over the cases of cpu.call.

use super::call::{ARGUMENTS_MAX, IN_REGISTERS};
use crate::prelude::*;

metric!(CallPerArgument, ABOUT);

static ABOUT: About = About {
    id: "cpu.call.per_argument",
    title: "one more argument of a call",
    timed: "slope of a least-squares line of cpu.call over the number of arguments, per process; \
            median and interval over processes",
    not_timed: "the call itself, which is the intercept of the line",
    model: "registers: at most 1 ÷ issue width, as idle issue slots cost nothing. stack: one store \
            and one load. all: mean of the two, weighted by the number of arguments",
    source: "data/uarch.toml: moves_per_cycle, stack_argument_cycles",
    pitfalls: &["one line over eight points hides the step where arguments go to the stack: \
                 register and stack arguments have lines of their own"],
    parameters: &[Parameter::new(
        "through",
        "registers, stack, all",
        "arguments that the line covers",
    )],
    needs: &["cpu.frequency", "cpu.call"],
    published: "0.22 ns (2016, i5-5257U)",
    noise_limit: 0.25,
    ..About::BASE
};

impl Derived for CallPerArgument {
    fn inputs(&self) -> &'static [&'static str] {
        &["cpu.call"]
    }

    fn cases(&self) -> Vec<Params> {
        ["registers", "stack", "all"].map(|through| Params::one("through", through)).into()
    }

    fn reduce(&self, params: &Params, known: &Inputs<'_>) -> Result<DerivedEstimate, MissingInput> {
        let (from, to) = range(params);
        if from >= to {
            return Err(MissingInput::Absent("all arguments are passed in registers here"));
        }
        let args: Vec<f64> = (from..=to).map(|args| args as f64).collect();
        let mut medians = Vec::new();
        for count in from..=to {
            let summary = known.input("cpu.call", &Params::one("args", count))?;
            medians.push(&summary.process_medians);
        }
        // All cases of cpu.call share their visits, so each process has a line of its own.
        let processes = medians.iter().map(|of_case| of_case.len()).min().unwrap_or(0);
        let line = |process: usize| {
            let times: Vec<f64> = medians.iter().map(|of_case| of_case[process]).collect();
            // Two points have no R².
            let rise = (times[times.len() - 1] - times[0]) / (to - from) as f64;
            statistics::line(&args, &times).ok_or(rise)
        };
        let lines: Vec<Result<statistics::Line, f64>> = (0..processes).map(line).collect();
        let median = |part: fn(&statistics::Line) -> f64| {
            statistics::median(&lines.iter().flatten().map(part).collect::<Vec<f64>>())
        };
        let parts = (median(|it| it.slope), median(|it| it.intercept), median(|it| it.r_squared));
        let facts = match parts {
            (Some(slope), Some(intercept), Some(r_squared)) => {
                Fact::of_line(slope, intercept, r_squared, Unit::Nanoseconds, "args")
            }
            _ => Vec::new(),
        };
        let slope = |line: &Result<statistics::Line, f64>| match line {
            Ok(line) => line.slope,
            Err(rise) => *rise,
        };
        let per_process = lines.iter().map(slope).collect();
        Ok(DerivedEstimate { per_process, difference: true, facts, ..DerivedEstimate::default() })
    }

    fn predict(&self, params: &Params, host: &Host, known: &Inputs<'_>) -> Model {
        let row = uarch::row_for(host)?;
        let frequency = known.frequency()?;
        let cycle_ns = 1e9 / frequency;
        let width = row.sourced("moves_per_cycle")?;
        let (from, to) = range(params);
        let on_stack = if to > IN_REGISTERS { (to - from.max(IN_REGISTERS)) as f64 } else { 0.0 };
        let share = on_stack / (to - from).max(1) as f64;
        let mut cycles = (1.0 - share) / width.value;
        let stack = (share > 0.0).then(|| row.sourced("stack_argument_cycles")).transpose()?;
        cycles += stack.map_or(0.0, |stack| share * stack.value);
        let formula = "≤ (1 ÷ moves per cycle, or cycles of a stack argument) ÷ frequency";
        let mut prediction = Prediction::at_most(cycles * cycle_ns, formula, &width.source)
            .with_input("moves per cycle", width.value, row.origin())
            .with_quantity("frequency", frequency, Unit::Hertz, Origin::this_run("cpu.frequency"))
            .if_above("the argument moves depend on each other, or the core is not in the table");
        if let Some(stack) = stack {
            let calculated = Origin::calculated("the arguments of the line");
            prediction = prediction
                .with_input("cycles of a stack argument", stack.value, row.origin())
                .with_input("share of stack arguments", share, calculated);
        }
        Ok(prediction)
    }
}

/// The first and the last number of arguments of a line.
fn range(params: &Params) -> (i64, i64) {
    match params.text("through") {
        Some("registers") => (0, ARGUMENTS_MAX.min(IN_REGISTERS)),
        Some("stack") => (IN_REGISTERS, ARGUMENTS_MAX),
        _ => (0, ARGUMENTS_MAX),
    }
}
