//! The laboratory's table and its account.

use serde::{Deserialize, Serialize};

/// Whether a run said what it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Right {
    /// It did.
    Yes,
    /// It did, after another cause whose counter moved by the machine's own account.
    AfterAnother,
    /// It did not.
    No,
    /// Untouched, it named a cause whose counter did not move.
    FalseAlarm,
    /// Untouched, it named a shape of the values, which nothing counts.
    Shape,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) sabotage: String,
    pub(super) sabotaged: bool,
    pub(super) dose: String,
    pub(super) verdict: String,
    pub(super) cause: String,
    pub(super) truth: String,
    pub(super) right: Right,
    /// Records that are noisy, and those of them that have a cause which something counts.
    pub(super) noisy: usize,
    pub(super) named: usize,
}

/// The widths of the columns.
pub(super) fn line(cells: [&str; 6]) -> String {
    let [sabotage, dose, verdict, cause, truth, right] = cells;
    format!("{sabotage:18}  {dose:30}  {verdict:11}  {cause:15}  {truth:39}  {right}")
        .trim_end()
        .to_owned()
}

impl Row {
    /// The cells of a line.
    pub(super) fn cells(&self) -> [&str; 6] {
        let dose = if self.sabotaged { &self.dose } else { "left alone" };
        let right = match self.right {
            Right::Yes => "right",
            Right::AfterAnother => "right, after a real one",
            Right::No => "WRONG",
            Right::FalseAlarm => "FALSE ALARM",
            Right::Shape => "right, a shape",
        };
        [&self.sabotage, dose, &self.verdict, &self.cause, &self.truth, right]
    }
}

/// How often the runs of one sabotage, or of all, said what they should.
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
            match (row.sabotaged, row.right) {
                (true, Right::Yes) => count.first += 1,
                (true, Right::AfterAnother) => count.after += 1,
                (true, _) => count.wrong += 1,
                (false, Right::FalseAlarm) => count.alarms += 1,
                (false, Right::Shape) => count.shapes += 1,
                (false, _) => {}
            }
        }
        count
    }

    /// Whether that is good enough: 90 % right, first or after another that was real, no false
    /// alarm, and a cause for 60 % of what is noisy.
    pub(super) fn is_good(&self) -> bool {
        let is_right = (self.first + self.after) * 10 >= self.sabotaged * 9;
        is_right && self.alarms == 0 && self.named * 10 >= self.noisy * 6
    }
}

/// The columns of the account.
pub(super) const ACCOUNT: [&str; 10] = [
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

/// A line of the account for each sabotage, in the order in which they came, and one for all.
pub(super) fn account(rows: &[Row]) -> Vec<[String; 10]> {
    let mut names: Vec<&str> = rows.iter().map(|row| row.sabotage.as_str()).collect();
    names.dedup();
    let line = |name: &str, count: &Count| {
        let Count { runs, sabotaged, first, after, wrong, alarms, shapes, noisy, named } = count;
        let counts = [runs, sabotaged, first, after, wrong, alarms, shapes, noisy, named];
        let mut cells = counts.iter().map(ToString::to_string);
        std::array::from_fn(|at| match at {
            0 => name.to_owned(),
            _ => cells.next().unwrap_or_default(),
        })
    };
    let of = |name: &str| Count::of(rows.iter().filter(|row| row.sabotage == name));
    let mut lines: Vec<[String; 10]> = names.iter().map(|name| line(name, &of(name))).collect();
    lines.push(line("all", &Count::of(rows)));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(sabotage: &str, sabotaged: bool, right: Right, count: usize) -> Vec<Row> {
        let text = String::new;
        let row = |_| Row {
            sabotage: sabotage.to_owned(),
            sabotaged,
            dose: text(),
            verdict: text(),
            cause: text(),
            truth: text(),
            right,
            noisy: 10,
            named: 6,
        };
        (0..count).map(row).collect()
    }

    #[test]
    fn below_90_per_cent_and_with_any_false_alarm_it_is_not_good_enough() {
        let mut all = rows("a", true, Right::Yes, 8);
        all.extend(rows("a", true, Right::AfterAnother, 1));
        all.extend(rows("a", true, Right::No, 1));
        all.extend(rows("a", false, Right::Shape, 10));
        assert!(Count::of(&all).is_good());
        all.extend(rows("a", true, Right::FalseAlarm, 1));
        assert!(!Count::of(&all).is_good(), "9 of 11: what is sabotaged is right or wrong");
        let mut all = rows("a", true, Right::Yes, 10);
        assert!(Count::of(&all).is_good());
        all[0].named = 5;
        assert!(!Count::of(&all).is_good(), "59 of 100 noisy cases have a cause");
        all[0].named = 6;
        all.extend(rows("a", false, Right::FalseAlarm, 1));
        assert!(!Count::of(&all).is_good());
    }

    #[test]
    fn each_sabotage_has_a_line_and_all_have_one() {
        let mut all = rows("a", true, Right::Yes, 2);
        all.extend(rows("a", false, Right::FalseAlarm, 1));
        all.extend(rows("b", true, Right::AfterAnother, 1));
        all.extend(rows("b", false, Right::Shape, 3));
        let lines: Vec<String> = account(&all).iter().map(|line| line.join(" ")).collect();
        assert_eq!(
            lines,
            ["a 3 2 2 0 0 1 0 30 18", "b 4 1 0 1 0 0 3 40 24", "all 7 3 2 1 0 1 3 70 42"]
        );
    }
}
