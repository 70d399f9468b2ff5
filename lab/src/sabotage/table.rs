//! The lab's table of runs and its summary.

use serde::{Deserialize, Serialize};

/// Sabotaged runs that must be right, in per cent.
pub(super) const RIGHT_MIN: usize = 90;
/// Noisy records that must have a cause with a counter, in per cent.
pub(super) const WITH_CAUSE_MIN: usize = 60;

/// Whether a run named the right cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum SabotageOutcome {
    Right,
    /// Right, after another cause that the machine's counters confirm.
    AfterAnother,
    #[default]
    Wrong,
    /// An undisturbed run named a cause that the counters refute.
    FalseAlarm,
    /// An undisturbed run named a shape of the values, for which there is no counter.
    Shape,
}

/// One run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct SabotageRow {
    pub(super) sabotage: String,
    pub(super) sabotaged: bool,
    pub(super) dose: String,
    pub(super) verdict: String,
    pub(super) cause: String,
    pub(super) truth: String,
    pub(super) outcome: SabotageOutcome,
    /// Noisy records, and those with a cause that has a counter.
    pub(super) noisy: usize,
    pub(super) named: usize,
}

/// Formats the cells in columns.
pub(super) fn line(cells: [&str; 6]) -> String {
    let [sabotage, dose, verdict, cause, truth, outcome] = cells;
    format!("{sabotage:18}  {dose:30}  {verdict:11}  {cause:15}  {truth:39}  {outcome}")
        .trim_end()
        .to_owned()
}

impl SabotageRow {
    pub(super) fn cells(&self) -> [&str; 6] {
        let dose = if self.sabotaged { &self.dose } else { "undisturbed" };
        let outcome = match self.outcome {
            SabotageOutcome::Right => "right",
            SabotageOutcome::AfterAnother => "right, after a real one",
            SabotageOutcome::Wrong => "WRONG",
            SabotageOutcome::FalseAlarm => "FALSE ALARM",
            SabotageOutcome::Shape => "right, a shape",
        };
        [&self.sabotage, dose, &self.verdict, &self.cause, &self.truth, outcome]
    }
}

/// The outcomes of one sabotage, or of all.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SabotageCount {
    pub(super) runs: usize,
    pub(super) sabotaged: usize,
    pub(super) first: usize,
    pub(super) after: usize,
    pub(super) wrong: usize,
    pub(super) alarms: usize,
    pub(super) shapes: usize,
    pub(super) noisy: usize,
    pub(super) named: usize,
}

impl SabotageCount {
    pub(super) fn from_rows<'r>(rows: impl IntoIterator<Item = &'r SabotageRow>) -> Self {
        let mut count = Self::default();
        for row in rows {
            count.runs += 1;
            count.noisy += row.noisy;
            count.named += row.named;
            count.sabotaged += usize::from(row.sabotaged);
            match (row.sabotaged, row.outcome) {
                (true, SabotageOutcome::Right) => count.first += 1,
                (true, SabotageOutcome::AfterAnother) => count.after += 1,
                (true, _) => count.wrong += 1,
                (false, SabotageOutcome::FalseAlarm) => count.alarms += 1,
                (false, SabotageOutcome::Shape) => count.shapes += 1,
                (false, _) => {}
            }
        }
        count
    }

    /// Whether enough are right, first or after a confirmed cause.
    pub(super) fn is_right(&self) -> bool {
        (self.first + self.after) * 100 >= self.sabotaged * RIGHT_MIN
    }

    pub(super) fn has_causes(&self) -> bool {
        self.named * 100 >= self.noisy * WITH_CAUSE_MIN
    }
}

/// The columns of the summary.
pub(super) const SUMMARY: [&str; 10] = [
    "sabotage",
    "runs",
    "sabotaged",
    "right first",
    "right after a real one",
    "wrong",
    "false alarms",
    "shapes",
    "noisy cases",
    "with a cause",
];

/// A line for each sabotage, in their order, and one for all.
pub(super) fn summary(rows: &[SabotageRow]) -> Vec<[String; 10]> {
    let mut names: Vec<&str> = rows.iter().map(|row| row.sabotage.as_str()).collect();
    names.dedup();
    let line = |name: &str, count: &SabotageCount| {
        let SabotageCount { runs, sabotaged, first, after, wrong, alarms, shapes, noisy, named } =
            count;
        let counts = [runs, sabotaged, first, after, wrong, alarms, shapes, noisy, named];
        let mut cells = [name.to_owned()].into_iter().chain(counts.map(ToString::to_string));
        std::array::from_fn(|_| cells.next().unwrap_or_default())
    };
    let of = |name: &str| SabotageCount::from_rows(rows.iter().filter(|row| row.sabotage == name));
    let mut lines: Vec<[String; 10]> = names.iter().map(|name| line(name, &of(name))).collect();
    lines.push(line("all", &SabotageCount::from_rows(rows)));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(
        sabotage: &str,
        sabotaged: bool,
        outcome: SabotageOutcome,
        count: usize,
    ) -> Vec<SabotageRow> {
        let sabotage = sabotage.to_owned();
        vec![
            SabotageRow {
                sabotage,
                sabotaged,
                outcome,
                noisy: 10,
                named: 6,
                ..SabotageRow::default()
            };
            count
        ]
    }

    #[test]
    fn right_needs_90_percent_and_causes_60() {
        let mut all = rows("a", true, SabotageOutcome::Right, 8);
        all.extend(rows("a", true, SabotageOutcome::AfterAnother, 1));
        all.extend(rows("a", true, SabotageOutcome::Wrong, 1));
        all.extend(rows("a", false, SabotageOutcome::Shape, 10));
        assert!(
            SabotageCount::from_rows(&all).is_right()
                && SabotageCount::from_rows(&all).has_causes()
        );
        all[0].named = 5;
        assert!(
            !SabotageCount::from_rows(&all).has_causes(),
            "119 of 200 noisy cases have a cause"
        );
        all.extend(rows("a", true, SabotageOutcome::FalseAlarm, 1));
        assert!(!SabotageCount::from_rows(&all).is_right(), "9 of 11 sabotaged runs");
        all.extend(rows("a", false, SabotageOutcome::FalseAlarm, 1));
        assert_eq!(SabotageCount::from_rows(&all).alarms, 1);
    }

    #[test]
    fn summary_has_a_line_for_each_and_all() {
        let mut all = rows("a", true, SabotageOutcome::Right, 2);
        all.extend(rows("a", false, SabotageOutcome::FalseAlarm, 1));
        all.extend(rows("b", true, SabotageOutcome::AfterAnother, 1));
        all.extend(rows("b", false, SabotageOutcome::Shape, 3));
        let lines: Vec<String> = summary(&all).iter().map(|line| line.join(" ")).collect();
        assert_eq!(
            lines,
            ["a 3 2 2 0 0 1 0 30 18", "b 4 1 0 1 0 0 3 40 24", "all 7 3 2 1 0 1 3 70 42"]
        );
    }
}
