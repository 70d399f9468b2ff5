//! The state of the core over a run, in words: said once for all results.

use fathom_analysis::evidence::NOISY_MAX;
use fathom_record::quantity::percent;
use fathom_record::{
    Cause, Document, Reference, ReferenceBasis, Run, RunState, State, Stratum, causes, shell_word,
};

use crate::case::counted;
use crate::counts::cause_words;
use crate::paint::{CARE, paint_lines};
use crate::wrap::{glued, wrapped};

/// So many of what did not fit into the time are named, if they are too many for a command.
const NAMED_MAX: usize = 8;
/// Causes named of a busy machine.
const CAUSES_NAMED: usize = 2;
/// Disturbances of the machine, which the doctor looks for.
pub(crate) const DISTURBANCES: [Cause; 11] = [
    Cause::Throttled,
    Cause::Steal,
    Cause::Contention,
    Cause::NotRunning,
    Cause::Interrupts,
    Cause::Migration,
    Cause::MajorFaults,
    Cause::SlowCore,
    Cause::SlowMemory,
    Cause::SlowDevice,
    Cause::MachineDrift,
];
/// A smaller drift of the core's speed is not said.
const DRIFT_MIN: f64 = 0.01;

/// `core shared (SMT sibling busy) in 98 % of processes: ± 6.1 % from second to second`. A CPU that
/// other programs use (`is_busy`) is not to itself, though its sibling is idle.
pub(crate) fn core_state(reference: &Reference, is_busy: bool) -> String {
    let Reference { visits, clean, shared, slower_clock, deviation, .. } = *reference;
    let share = |count: u32| glued(&percent(f64::from(count) / f64::from(visits.max(1))));
    let spread =
        || format!(": {} from second to second", glued(&format!("± {}", percent(deviation))));
    let drift = match reference.drift {
        drift if drift >= DRIFT_MIN => format!(", its speed ± {}", glued(&percent(drift))),
        _ => String::new(),
    };
    match reference.state {
        // Runs up to version 0.2.0 counted those on a core to itself only.
        None | Some(Stratum::ToItself | Stratum::CoreAtFullSpeed) => {
            let what = if is_busy { "SMT sibling idle" } else { "core to itself" };
            format!("{what} in {} of processes{drift}", share(clean))
        }
        Some(Stratum::Shared) => {
            format!("core shared (SMT sibling busy) in {} of processes{}", share(shared), spread())
        }
        Some(Stratum::SlowerClock) => {
            format!("frequency capped in {} of processes{}", share(slower_clock), spread())
        }
        Some(Stratum::AsFound) => format!("speed of the core varies without steps{}", spread()),
    }
}

/// That the core was shared, or that others disturbed most results, in words.
pub(crate) fn busy(document: &Document) -> Option<String> {
    let Document { records, run, .. } = document;
    let numbers = records.iter().filter(|it| it.verdict.shows_number()).count();
    if let Some(core) = run.reference.filter(Reference::is_shared) {
        let share = glued(&percent(core.clean_share()));
        return Some(format!("shared machine: core to itself in {share} of processes"));
    }
    let causes = causes(records, State::Noisy).into_iter();
    let causes: Vec<(Cause, usize)> = causes.filter(|(it, _)| DISTURBANCES.contains(it)).collect();
    let disturbed: usize = causes.iter().map(|(_, count)| count).sum();
    let named = causes.iter().take(CAUSES_NAMED);
    let named: Vec<String> =
        named.map(|(cause, count)| format!("{} {count}", cause_words(*cause))).collect();
    (disturbed as f64 > NOISY_MAX * numbers as f64).then(|| {
        let of = counted(records.len(), "result");
        format!("busy machine: others disturbed {disturbed} of {of} ({})", named.join(", "))
    })
}

/// The evidence that a core to itself was at full speed.
pub(crate) fn basis_words(reference: &Reference) -> &'static str {
    match reference.basis {
        ReferenceBasis::HighestFrequency => "at its highest frequency",
        ReferenceBasis::EarlierRuns => "as fast as in earlier runs",
        ReferenceBasis::ThisRun => "the fastest seen in this run",
    }
}

/// What did not fit into the time of a run, with the command that measures it.
pub(crate) fn left_out(run: &Run) -> Option<String> {
    let names = &run.left_out;
    let command = |metrics: &[String]| {
        let metrics: Vec<String> = metrics.iter().map(|metric| shell_word(metric)).collect();
        glued(&format!("`fathom run {}`", metrics.join(" ")))
    };
    // What was interrupted would have fitted.
    let (of, remedy) = match names.as_slice() {
        _ if run.state == RunState::Interrupted => return None,
        [] => return None,
        [_] => ("cases of 1 metric".to_owned(), command(names)),
        [_, _] | [_, _, _] => (format!("cases of {} metrics", names.len()), command(names)),
        [first @ .., _] => {
            let named = &first[..NAMED_MAX.min(first.len())];
            let more = names.len() - named.len();
            let list = format!("{} and {more} more", named.join(", "));
            (format!("cases of {} metrics", names.len()), format!("a longer --time; {list}"))
        }
    };
    Some(format!("{of} did not fit into the time → {remedy}"))
}

/// That runs were measured on a busy machine, before they are compared.
pub fn busy_runs(runs: &[&Document], width: usize) -> String {
    let busy = runs.iter().filter(|run| busy(run).is_some()).count();
    if busy == 0 {
        return String::new();
    }
    let which = if busy == runs.len() { "All" } else { "Some" };
    let text = format!(
        "{which} of these runs were measured on a busy machine: what differs may be the load, \
         and may hide what the machine does. `fathom doctor` names it; then measure again."
    );
    paint_lines(CARE, &wrapped(&text, width, "", "  "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_of_a_run_has_its_share_and_its_spread() {
        let one = Reference { visits: 200, clean: 190, shared: 10, ..Reference::default() };
        assert_eq!(core_state(&one, false), "core to itself in 95\u{a0}% of processes");
        let of = |state, clean, shared, slower_clock| {
            let deviation = 0.061;
            let state = Some(state);
            core_state(&Reference { state, clean, shared, slower_clock, deviation, ..one }, false)
        };
        let shared = of(Stratum::Shared, 2, 198, 0).replace('\u{a0}', " ");
        let words =
            "core shared (SMT sibling busy) in 99 % of processes: ± 6.1 % from second to second";
        assert_eq!(shared, words);
        assert!(of(Stratum::SlowerClock, 0, 0, 100).starts_with("frequency capped in 50"));
        assert!(of(Stratum::AsFound, 100, 100, 0).contains("without steps"));
    }

    #[test]
    fn what_did_not_fit_is_named_with_a_command_of_one_line() {
        let of = |count: usize| {
            let names = (0..count).map(|at| format!("os.m{at}")).collect();
            let run = Run { left_out: names, ..Run::default() };
            left_out(&run).map(|text| text.replace('\u{a0}', " "))
        };
        assert_eq!(of(0), None);
        let two = "cases of 2 metrics did not fit into the time → `fathom run os.m0 os.m1`";
        assert_eq!(of(2).as_deref(), Some(two));
        let many = "cases of 12 metrics did not fit into the time → a longer --time; os.m0, os.m1, \
                    os.m2, os.m3, os.m4, os.m5, os.m6, os.m7 and 4 more";
        assert_eq!(of(12).as_deref(), Some(many));
    }
}
