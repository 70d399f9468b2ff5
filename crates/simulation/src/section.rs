//! A part of the page: its words, its tables, and the promises that its figures broke.

use crate::chance::Rate;

/// A part of the page.
#[derive(Debug, Default)]
pub(crate) struct Section {
    pub(crate) text: String,
    /// Each promise that was broken by more than chance.
    pub(crate) broken: Vec<String>,
}

impl Section {
    pub(crate) fn titled(title: &str, words: &str) -> Self {
        Self { text: format!("## {title}\n\n{words}\n\n"), broken: Vec::new() }
    }

    /// Words beneath what there is.
    pub(crate) fn say(&mut self, words: &str) {
        self.text += words;
        self.text += "\n\n";
    }

    /// A table; the first column is to the left, the others to the right.
    pub(crate) fn table(&mut self, header: &[String], rows: &[Vec<String>]) {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        self.text += &line(header);
        self.text += &format!("|---|{}\n", "---:|".repeat(header.len() - 1));
        rows.iter().for_each(|row| self.text += &line(row));
        self.text.push('\n');
    }

    /// Holds a rate to a promise.
    pub(crate) fn at_least(&mut self, rate: Rate, promised: f64, what: &str) {
        if rate.is_below(promised) {
            self.note(rate, &format!("at least {}", percent(promised)), what);
        }
    }

    /// Holds a rate to a promise.
    pub(crate) fn at_most(&mut self, rate: Rate, promised: f64, what: &str) {
        if rate.is_above(promised) {
            self.note(rate, &format!("at most {}", percent(promised)), what);
        }
    }

    /// Holds a figure that is no rate to a promise.
    pub(crate) fn hold(&mut self, good: bool, what: &str) {
        if !good {
            self.broken.push(what.to_owned());
        }
    }

    fn note(&mut self, rate: Rate, promised: &str, what: &str) {
        let Rate { hits, of } = rate;
        let share = percent(rate.share());
        self.broken.push(format!("{what}: {share} % ({hits} of {of}) instead of {promised} %"));
    }
}

/// A share in per cent, with one decimal.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1}", 100.0 * share)
}

/// The same, bold where it is below what was stated by more than chance.
pub(crate) fn kept(rate: Rate, stated: f64) -> String {
    let text = percent(rate.share());
    if rate.is_below(stated) { format!("**{text}**") } else { text }
}

/// The same, bold where it is above.
pub(crate) fn alarms(rate: Rate, stated: f64) -> String {
    let text = percent(rate.share());
    if rate.is_above(stated) { format!("**{text}**") } else { text }
}

/// A row or a header from its cells.
pub(crate) fn cells<'c>(texts: impl IntoIterator<Item = &'c str>) -> Vec<String> {
    texts.into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promise_missed_beyond_chance_is_bold() {
        let rate = Rate { hits: 880, of: 1_000 };
        let mut section = Section::titled("A", "b");
        section.at_least(rate, 0.87, "one");
        section.at_most(rate, 0.87, "two");
        assert!(section.broken.is_empty());
        section.at_least(rate, 0.95, "three");
        section.at_most(rate, 0.5, "four");
        section.hold(false, "five");
        let broken = [
            "three: 88.0 % (880 of 1000) instead of at least 95.0 %",
            "four: 88.0 % (880 of 1000) instead of at most 50.0 %",
            "five",
        ];
        assert_eq!(section.broken, broken);
        assert_eq!((kept(rate, 0.95).as_str(), kept(rate, 0.87).as_str()), ("**88.0**", "88.0"));
        assert_eq!(alarms(rate, 0.5), "**88.0**");
    }

    #[test]
    fn a_table_has_its_numbers_to_the_right() {
        let mut section = Section::default();
        section.table(&cells(["a", "b", "c"]), &[cells(["1", "2", "3"])]);
        assert_eq!(section.text, "| a | b | c |\n|---|---:|---:|\n| 1 | 2 | 3 |\n\n");
    }
}
