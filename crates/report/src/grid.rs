//! Lines of aligned columns.

use anstyle::Style;

use crate::paint::paint;
use crate::wrap::{cut, width_of};

/// Fixed columns of a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid<const N: usize> {
    /// `None` for a column that is not printed.
    pub(crate) widths: [Option<usize>; N],
    /// The columns aligned to the left.
    left: &'static [usize],
    gap: usize,
}

impl<const N: usize> Grid<N> {
    /// The column `rest` gets the room that the others leave.
    pub(crate) fn new(
        line: usize,
        gap: usize,
        rest: usize,
        left: &'static [usize],
        mut widths: [Option<usize>; N],
    ) -> Self {
        let taken: usize = widths.iter().flatten().map(|width| width + gap).sum();
        widths[rest] = Some(line.saturating_sub(taken));
        Self { widths, left, gap }
    }

    pub(crate) fn width(&self, column: usize) -> usize {
        self.widths[column].unwrap_or(0)
    }

    /// The texts as one line with a newline, without escape codes in `texts`.
    pub(crate) fn line(&self, texts: [&str; N], styles: [Style; N]) -> String {
        let padded = |column: usize| {
            let width = self.widths[column]?;
            let text = cut(texts[column], width);
            let blanks = " ".repeat(width - width_of(&text));
            let is_left = self.left.contains(&column);
            Some((if is_left { text + &blanks } else { blanks + &text }, styles[column]))
        };
        let mut cells: Vec<(String, Style)> = (0..N).filter_map(padded).collect();
        while cells.last().is_some_and(|(text, _)| text.trim().is_empty()) {
            cells.pop();
        }
        let painted: Vec<String> = cells.iter().map(|(text, style)| paint(*style, text)).collect();
        painted.join(&" ".repeat(self.gap)).trim_end().to_owned() + "\n"
    }
}
