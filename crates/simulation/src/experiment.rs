//! An experiment counts simulated runs, for each world under each condition, checks what is
//! guaranteed of these figures, and prints them as a table.

use crate::parallel::each;
use crate::section::Section;
use crate::{Source, Trials};

/// In texts of a table, ` | ` separates columns.
pub(crate) struct Experiment<'e, R, C, F> {
    /// Worlds: the rows of the table.
    pub(crate) rows: &'e [R],
    /// Conditions: each is a figure in every row.
    pub(crate) columns: &'e [C],
    /// Decides the random numbers of a figure.
    pub(crate) name: fn(&R, &C) -> String,
    /// Simulates one run, and counts it.
    pub(crate) trial: fn(&R, &C, &mut Source, &mut F),
    pub(crate) check: fn(&mut Section, &R, &C, &F),
    /// Head and text of the first columns, which describe the row.
    pub(crate) head: &'static str,
    pub(crate) title: fn(&R) -> String,
    /// Head and text of the columns of a figure.
    pub(crate) heads: fn(&C) -> String,
    pub(crate) cells: fn(&R, &C, &F) -> String,
}

impl<R: Sync, C: Sync, F: Default + Send> Experiment<'_, R, C, F> {
    /// The figures, row by row, of which each has a random source of its own.
    pub(crate) fn run(&self, section: &mut Section, trials: Trials) -> Vec<F> {
        let pairs: Vec<(&R, &C)> =
            self.rows.iter().flat_map(|row| self.columns.iter().map(move |it| (row, it))).collect();
        let figures = each(&pairs, |(row, column)| {
            let mut source = Source::named(trials.seed, &(self.name)(row, column));
            let mut figure = F::default();
            (0..trials.runs).for_each(|_| (self.trial)(row, column, &mut source, &mut figure));
            figure
        });
        let mut lines: Vec<String> = self.rows.iter().map(self.title).collect();
        for (at, ((row, column), figure)) in pairs.iter().zip(&figures).enumerate() {
            (self.check)(section, row, column, figure);
            let line = &mut lines[at / self.columns.len()];
            *line = format!("{line} | {}", (self.cells)(row, column, figure));
        }
        let heads = self.columns.iter().map(self.heads);
        section.table(&heads.fold(self.head.to_owned(), |all, head| all + " | " + &head), lines);
        figures
    }
}
