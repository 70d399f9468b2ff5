//! A section of the page: texts, tables, and violated guarantees.

use crate::chance::ChanceRate;

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

    /// Adds a table, of which ` | ` separates columns: the first is left-aligned, the others
    /// right-aligned.
    pub(crate) fn table(&mut self, header: &str, rows: impl IntoIterator<Item = String>) {
        let numbers = header.matches(" | ").count();
        self.text += &format!("| {header} |\n|---|{}\n", "---:|".repeat(numbers));
        rows.into_iter().for_each(|row| self.text += &format!("| {row} |\n"));
        self.text.push('\n');
    }

    pub(crate) fn at_least(&mut self, rate: ChanceRate, guaranteed: f64, what: &str) {
        if rate.is_below(guaranteed) {
            self.violation(rate, &format!("at least {}", percent(guaranteed)), what);
        }
    }

    pub(crate) fn at_most(&mut self, rate: ChanceRate, guaranteed: f64, what: &str) {
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

    fn violation(&mut self, rate: ChanceRate, guaranteed: &str, what: &str) {
        let ChanceRate { hits, of } = rate;
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
pub(crate) fn marked_below(rate: ChanceRate, stated: f64) -> String {
    let text = percent(rate.share());
    if rate.is_below(stated) { format!("**{text}**") } else { text }
}

/// The same, bold if it is significantly above.
pub(crate) fn marked_above(rate: ChanceRate, stated: f64) -> String {
    let text = percent(rate.share());
    if rate.is_above(stated) { format!("**{text}**") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn significant_violation_is_listed_and_bold() {
        let rate = ChanceRate { hits: 880, of: 1_000 };
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
        assert_eq!(
            (marked_below(rate, 0.95).as_str(), marked_below(rate, 0.87).as_str()),
            ("**88.0**", "88.0")
        );
        assert_eq!(marked_above(rate, 0.5), "**88.0**");
    }

    #[test]
    fn numbers_of_tables_are_right_aligned() {
        let mut section = Section::default();
        section.table("a | b | c", ["1 | 2 | 3".to_owned()]);
        assert_eq!(section.text, "| a | b | c |\n|---|---:|---:|\n| 1 | 2 | 3 |\n\n");
    }
}
