//! A column of a table, and the lines of a table whose columns have fixed widths.

use std::borrow::Cow;

use anstyle::Style;
use fathom_record::quantity::NOTHING;

use crate::paint::{PLAIN, STRONG, paint};
use crate::wrap::{cut, width_of, wrapped};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnSide {
    Left,
    Right,
}

/// The text and style of a column on a line.
pub(crate) type ShownCell = (String, Style);

pub(crate) fn plain(text: impl Into<String>) -> ShownCell {
    (text.into(), PLAIN)
}

/// A column with its cells, or with what makes the cell of a row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Column<C = Vec<String>> {
    pub(crate) title: Cow<'static, str>,
    pub(crate) side: ColumnSide,
    /// From which width of the line on it is how wide, the widest line first: it is hidden below
    /// the last of them. Without any it has the room that the others leave.
    pub(crate) widths: &'static [(usize, usize)],
    pub(crate) cell: C,
}

impl<C> Column<C> {
    /// A column of words.
    pub(crate) const fn left(
        title: &'static str,
        widths: &'static [(usize, usize)],
        cell: C,
    ) -> Self {
        Self { title: Cow::Borrowed(title), side: ColumnSide::Left, widths, cell }
    }

    /// A column of numbers.
    pub(crate) const fn right(
        title: &'static str,
        widths: &'static [(usize, usize)],
        cell: C,
    ) -> Self {
        Self { title: Cow::Borrowed(title), side: ColumnSide::Right, widths, cell }
    }
}

impl Column {
    /// A column of numbers, as wide as its cells.
    pub(crate) fn new(title: &str, cells: impl Iterator<Item = String>) -> Self {
        let title = Cow::Owned(title.to_owned());
        Self { title, side: ColumnSide::Right, widths: &[], cell: cells.collect() }
    }

    /// A column of words, as wide as its cells.
    pub(crate) fn words(title: &str, cells: impl Iterator<Item = String>) -> Self {
        Self { side: ColumnSide::Left, ..Self::new(title, cells) }
    }

    pub(crate) fn has_content(&self) -> bool {
        self.cell.iter().any(|cell| !cell.is_empty() && cell != NOTHING)
    }

    pub(crate) fn width(&self) -> usize {
        self.cell.iter().map(|cell| width_of(cell)).fold(width_of(&self.title), usize::max)
    }
}

/// These columns with a cell for each row.
pub(crate) fn filled<R>(columns: &[Column<impl Fn(&R) -> String>], rows: &[R]) -> Vec<Column> {
    let column = |it: &Column<_>| Column {
        title: it.title.clone(),
        side: it.side,
        widths: it.widths,
        cell: rows.iter().map(&it.cell).collect(),
    };
    columns.iter().map(column).collect()
}

/// The lines of a table whose columns have fixed widths.
#[derive(Clone, Debug)]
pub(crate) struct Lines<C: 'static = ()> {
    /// Columns of a whole line.
    pub(crate) line: usize,
    gap: usize,
    pub(crate) columns: &'static [Column<C>],
    /// `None` for a column that is not printed.
    pub(crate) widths: Vec<Option<usize>>,
}

impl<C> Lines<C> {
    pub(crate) fn new(line: usize, gap: usize, columns: &'static [Column<C>]) -> Self {
        let width = |column: &Column<C>| {
            let width = column.widths.iter().find(|(from, _)| line >= *from);
            width.map(|(_, width)| *width)
        };
        Self { line, gap, columns, widths: columns.iter().map(width).collect() }.with_rest()
    }

    /// Without the columns for which `is_kept` is false.
    pub(crate) fn retain(mut self, is_kept: impl Fn(usize) -> bool) -> Self {
        let widths = (0..).zip(&self.widths);
        self.widths = widths.map(|(at, width)| width.filter(|_| is_kept(at))).collect();
        self.with_rest()
    }

    /// Gives the room that is left to the column without a width of its own.
    fn with_rest(mut self) -> Self {
        let rest = self.rest();
        self.widths[rest] = None;
        let taken: usize = self.widths.iter().flatten().map(|width| width + self.gap).sum();
        self.widths[rest] = Some(self.line.saturating_sub(taken));
        self
    }

    /// The column without a width of its own, most often the names of the rows.
    fn rest(&self) -> usize {
        self.columns.iter().position(|it| it.widths.is_empty()).expect("a column has the rest")
    }

    /// A name of a row for its column, or on lines above if it is too long.
    pub(crate) fn name(&self, name: String, [indent, further]: [&str; 2]) -> [String; 2] {
        match width_of(&name) > self.width(self.rest()) {
            true => [wrapped(&name, self.line, indent, further), String::new()],
            false => [String::new(), name],
        }
    }

    pub(crate) fn has(&self, column: usize) -> bool {
        self.widths[column].is_some()
    }

    pub(crate) fn width(&self, column: usize) -> usize {
        self.widths[column].unwrap_or(0)
    }

    /// The titles of the columns.
    pub(crate) fn header(&self) -> String {
        self.line(self.columns.iter().map(|column| (&column.title, STRONG)))
    }

    /// A line of the cells that `cell` makes for columns with their widths.
    pub(crate) fn row(&self, cell: impl Fn(&C, usize) -> ShownCell) -> String {
        let columns = self.columns.iter().zip(&self.widths);
        self.line(columns.map(|(column, width)| match width {
            Some(width) => cell(&column.cell, *width),
            None => ShownCell::default(),
        }))
    }

    /// The cells of all columns as one line with a newline, without escape codes in the texts.
    pub(crate) fn line<T: AsRef<str>>(
        &self,
        cells: impl IntoIterator<Item = (T, Style)>,
    ) -> String {
        let columns = self.columns.iter().zip(&self.widths);
        let mut cells: Vec<ShownCell> = columns
            .zip(cells)
            .filter_map(|((column, width), (text, style))| {
                let text = cut(text.as_ref(), (*width)?);
                let blanks = " ".repeat((*width)? - width_of(&text));
                let is_left = column.side == ColumnSide::Left;
                Some((if is_left { text + &blanks } else { blanks + &text }, style))
            })
            .collect();
        while cells.last().is_some_and(|(text, _)| text.trim().is_empty()) {
            cells.pop();
        }
        let painted: Vec<String> = cells.iter().map(|(text, style)| paint(*style, text)).collect();
        painted.join(&" ".repeat(self.gap)).trim_end().to_owned() + "\n"
    }
}
