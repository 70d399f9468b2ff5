//! The lab's table of runs and its summary.

use serde::{Deserialize, Serialize};

/// Sabotaged runs that must be right, in per cent.
pub(super) const RIGHT_MIN: usize = 90;
/// Noisy records that must have a cause with a counter, in per cent.
pub(super) const WITH_CAUSE_MIN: usize = 60;

/// Whether a run named the right cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Outcome {
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
pub(super) struct Row {
    pub(super) sabotage: String,
    pub(super) sabotaged: bool,
    pub(super) dose: String,
    pub(super) verdict: String,
    pub(super) cause: String,
    pub(super) truth: String,
    pub(super) outcome: Outcome,
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

impl Row {
    pub(super) fn cells(&self) -> [&str; 6] {
        let dose = if self.sabotaged { &self.dose } else { "undisturbed" };
        let outcome = match self.outcome {
            Outcome::Right => "right",
            Outcome::AfterAnother => "right, after a real one",
            Outcome::Wrong => "WRONG",
            Outcome::FalseAlarm => "FALSE ALARM",
            Outcome::Shape => "right, a shape",
        };
        [&self.sabotage, dose, &self.verdict, &self.cause, &self.truth, outcome]
    }
}

/// The outcomes of one sabotage, or of all.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
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

impl Count {
    pub(super) fn of<'r>(rows: impl IntoIterator<Item = &'r Row>) -> Self {
        let mut count = Self::default();
        for row in rows {
            count.runs += 1;
            count.noisy += row.noisy;
            count.named += row.named;
            count.sabotaged += usize::from(row.sabotaged);
            match (row.sabotaged, row.outcome) {
                (true, Outcome::Right) => count.first += 1,
                (true, Outcome::AfterAnother) => count.after += 1,
                (true, _) => count.wrong += 1,
                (false, Outcome::FalseAlarm) => count.alarms += 1,
                (false, Outcome::Shape) => count.shapes += 1,
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
pub(super) fn summary(rows: &[Row]) -> Vec<[String; 10]> {
    let mut names: Vec<&str> = rows.iter().map(|row| row.sabotage.as_str()).collect();
    names.dedup();
    let line = |name: &str, count: &Count| {
        let Count { runs, sabotaged, first, after, wrong, alarms, shapes, noisy, named } = count;
        let counts = [runs, sabotaged, first, after, wrong, alarms, shapes, noisy, named];
        let mut cells = [name.to_owned()].into_iter().chain(counts.map(ToString::to_string));
        std::array::from_fn(|_| cells.next().unwrap_or_default())
    };
    let of = |name: &str| Count::of(rows.iter().filter(|row| row.sabotage == name));
    let mut lines: Vec<[String; 10]> = names.iter().map(|name| line(name, &of(name))).collect();
    lines.push(line("all", &Count::of(rows)));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(sabotage: &str, sabotaged: bool, outcome: Outcome, count: usize) -> Vec<Row> {
        let sabotage = sabotage.to_owned();
        vec![Row { sabotage, sabotaged, outcome, noisy: 10, named: 6, ..Row::default() }; count]
    }

    #[test]
    fn right_needs_90_percent_and_causes_60() {
        let mut all = rows("a", true, Outcome::Right, 8);
        all.extend(rows("a", true, Outcome::AfterAnother, 1));
        all.extend(rows("a", true, Outcome::Wrong, 1));
        all.extend(rows("a", false, Outcome::Shape, 10));
        assert!(Count::of(&all).is_right() && Count::of(&all).has_causes());
        all[0].named = 5;
        assert!(!Count::of(&all).has_causes(), "119 of 200 noisy cases have a cause");
        all.extend(rows("a", true, Outcome::FalseAlarm, 1));
        assert!(!Count::of(&all).is_right(), "9 of 11 sabotaged runs");
        all.extend(rows("a", false, Outcome::FalseAlarm, 1));
        assert_eq!(Count::of(&all).alarms, 1);
    }

    #[test]
    fn summary_has_a_line_for_each_and_all() {
        let mut all = rows("a", true, Outcome::Right, 2);
        all.extend(rows("a", false, Outcome::FalseAlarm, 1));
        all.extend(rows("b", true, Outcome::AfterAnother, 1));
        all.extend(rows("b", false, Outcome::Shape, 3));
        let lines: Vec<String> = summary(&all).iter().map(|line| line.join(" ")).collect();
        assert_eq!(
            lines,
            ["a 3 2 2 0 0 1 0 30 18", "b 4 1 0 1 0 0 3 40 24", "all 7 3 2 1 0 1 3 70 42"]
        );
    }
}
