//! A section of the page: texts, tables, and violated guarantees.

use crate::chance::Rate;

#[derive(Debug, Default)]
pub(crate) struct Section {
    pub(crate) text: String,
    pub(crate) violations: Vec<String>,
}

impl Section {
    pub(crate) fn new(title: &str, text: &str) -> Self {
        Self { text: format!("## {title}\n\n{text}\n\n"), violations: Vec::new() }
    }

    pub(crate) fn paragraph(&mut self, text: &str) {
        self.text += text;
        self.text += "\n\n";
    }

    /// Adds a table: the first column is left-aligned, the others right-aligned.
    pub(crate) fn table(&mut self, header: &[String], rows: &[Vec<String>]) {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        self.text += &line(header);
        self.text += &format!("|---|{}\n", "---:|".repeat(header.len() - 1));
        rows.iter().for_each(|row| self.text += &line(row));
        self.text.push('\n');
    }

    /// Adds a table with a line for each row and its figures, of which each has the same number.
    pub(crate) fn grid<R, F>(
        &mut self,
        header: &[String],
        rows: &[R],
        figures: &[F],
        line: impl Fn(&R, &[F]) -> Vec<String>,
    ) {
        let figures = figures.chunks(figures.len() / rows.len());
        let lines = rows.iter().zip(figures).map(|(row, figures)| line(row, figures));
        self.table(header, &lines.collect::<Vec<_>>());
    }

    pub(crate) fn at_least(&mut self, rate: Rate, guaranteed: f64, what: &str) {
        if rate.is_below(guaranteed) {
            self.violation(rate, &format!("at least {}", percent(guaranteed)), what);
        }
    }

    pub(crate) fn at_most(&mut self, rate: Rate, guaranteed: f64, what: &str) {
        if rate.is_above(guaranteed) {
            self.violation(rate, &format!("at most {}", percent(guaranteed)), what);
        }
    }

    /// For guarantees that are not about a rate.
    pub(crate) fn require(&mut self, good: bool, what: &str) {
        if !good {
            self.violations.push(what.to_owned());
        }
    }

    fn violation(&mut self, rate: Rate, guaranteed: &str, what: &str) {
        let Rate { hits, of } = rate;
        let share = percent(rate.share());
        self.violations
            .push(format!("{what}: {share} % ({hits} of {of}) instead of {guaranteed} %"));
    }
}

/// A share in per cent, with one decimal.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1}", 100.0 * share)
}

/// The same, bold if it is significantly below the stated level.
pub(crate) fn kept(rate: Rate, stated: f64) -> String {
    let text = percent(rate.share());
    if rate.is_below(stated) { format!("**{text}**") } else { text }
}

/// The same, bold if it is significantly above.
pub(crate) fn alarms(rate: Rate, stated: f64) -> String {
    let text = percent(rate.share());
    if rate.is_above(stated) { format!("**{text}**") } else { text }
}

pub(crate) fn cells<'c>(texts: impl IntoIterator<Item = &'c str>) -> Vec<String> {
    texts.into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn significant_violation_is_listed_and_bold() {
        let rate = Rate { hits: 880, of: 1_000 };
        let mut section = Section::new("A", "b");
        section.at_least(rate, 0.87, "one");
        section.at_most(rate, 0.87, "two");
        assert!(section.violations.is_empty());
        section.at_least(rate, 0.95, "three");
        section.at_most(rate, 0.5, "four");
        section.require(false, "five");
        let violations = [
            "three: 88.0 % (880 of 1000) instead of at least 95.0 %",
            "four: 88.0 % (880 of 1000) instead of at most 50.0 %",
            "five",
        ];
        assert_eq!(section.violations, violations);
        assert_eq!((kept(rate, 0.95).as_str(), kept(rate, 0.87).as_str()), ("**88.0**", "88.0"));
        assert_eq!(alarms(rate, 0.5), "**88.0**");
    }

    #[test]
    fn numbers_of_tables_are_right_aligned() {
        let mut section = Section::default();
        section.table(&cells(["a", "b", "c"]), &[cells(["1", "2", "3"])]);
        assert_eq!(section.text, "| a | b | c |\n|---|---:|---:|\n| 1 | 2 | 3 |\n\n");
    }
}
