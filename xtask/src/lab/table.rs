//! The laboratory's table and its account.

/// Whether a run said what it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Right {
    /// It did.
    Yes,
    /// It did, after another cause whose counter moved by the machine's own account.
    AfterAnother,
    /// It did not.
    No,
    /// Untouched, it named a cause whose counter did not move.
    FalseAlarm,
    /// Untouched, it named a cause that nothing outside the program counts.
    Unexplained,
}

/// One run.
pub(super) struct Row {
    pub(super) sabotage: String,
    pub(super) sabotaged: bool,
    pub(super) dose: String,
    pub(super) verdict: String,
    pub(super) cause: String,
    pub(super) truth: String,
    pub(super) right: Right,
}

/// The widths of the columns.
pub(super) fn line(cells: [&str; 6]) -> String {
    let [sabotage, dose, verdict, cause, truth, right] = cells;
    format!("{sabotage:18}  {dose:30}  {verdict:11}  {cause:15}  {truth:39}  {right}")
        .trim_end()
        .to_owned()
}

impl Row {
    /// As a line.
    pub(super) fn line(&self) -> String {
        let dose = if self.sabotaged { &self.dose } else { "left alone" };
        let right = match self.right {
            Right::Yes => "right",
            Right::AfterAnother => "right, after a real one",
            Right::No => "WRONG",
            Right::FalseAlarm => "FALSE ALARM",
            Right::Unexplained => "unexplained",
        };
        line([&self.sabotage, dose, &self.verdict, &self.cause, &self.truth, right])
    }
}

/// What the rows amount to, and whether that is good enough: 90 % right and no false alarm.
pub(super) fn account(rows: &[Row]) -> (String, bool) {
    let count = |sabotaged: bool, rights: &[Right]| {
        rows.iter().filter(|row| row.sabotaged == sabotaged && rights.contains(&row.right)).count()
    };
    let sabotaged = rows.iter().filter(|row| row.sabotaged).count();
    let first = count(true, &[Right::Yes]);
    let after = count(true, &[Right::AfterAnother]);
    let alarms = count(false, &[Right::FalseAlarm]);
    let unexplained = count(false, &[Right::Unexplained]);
    let text = format!(
        "right cause first in {first} of {sabotaged} sabotaged runs, in {after} more after another \
         that was real; false alarms in {alarms} of {} untouched runs, {unexplained} unexplained",
        rows.len() - sabotaged
    );
    (text, (first + after) * 10 >= sabotaged * 9 && alarms == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(sabotaged: bool, right: Right, count: usize) -> Vec<Row> {
        let text = String::new;
        let row = |_| Row {
            sabotage: text(),
            sabotaged,
            dose: text(),
            verdict: text(),
            cause: text(),
            truth: text(),
            right,
        };
        (0..count).map(row).collect()
    }

    #[test]
    fn below_90_per_cent_and_with_any_false_alarm_it_is_not_good_enough() {
        let mut all = rows(true, Right::Yes, 9);
        all.extend(rows(true, Right::No, 1));
        all.extend(rows(false, Right::Unexplained, 10));
        let (text, good) = account(&all);
        assert!(good && text.contains("9 of 10") && text.contains("0 of 10"), "{text}");
        all.extend(rows(true, Right::No, 1));
        assert!(!account(&all).1);
        let mut all = rows(true, Right::Yes, 10);
        all.extend(rows(false, Right::FalseAlarm, 1));
        assert!(!account(&all).1);
    }
}
