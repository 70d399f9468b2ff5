//! Layout of views: width, and columns of the table.

use fathom_record::Protocol;

use crate::grid::Grid;
use crate::wrap::NARROWEST;

/// What the user selects for a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Columns of the terminal; at least 60 are used.
    pub width: usize,
    /// Print times in CPU cycles too.
    pub cycles: bool,
    /// The protocol whose headline is printed.
    pub protocol: Protocol,
    /// Print every case of a curve or a matrix as a row.
    pub all: bool,
}

impl Default for Layout {
    fn default() -> Self {
        Self { width: 80, cycles: false, protocol: Protocol::Median, all: false }
    }
}

/// Indices of the table's columns.
pub(crate) mod column {
    pub(crate) const NAME: usize = 0;
    pub(crate) const MEASURED: usize = 1;
    pub(crate) const CYCLES: usize = 2;
    pub(crate) const HALF_WIDTH: usize = 3;
    pub(crate) const PREDICTED: usize = 4;
    pub(crate) const TERMS: usize = 5;
    pub(crate) const DEVIATION: usize = 6;
    pub(crate) const VERDICT: usize = 7;
    pub(crate) const CLEAN: usize = 8;
    pub(crate) const SPREAD: usize = 9;
    pub(crate) const SPARK: usize = 10;
    pub(crate) const COUNT: usize = 11;
}

/// The table's columns, fixed before the first row, so that later blocks align.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Columns {
    /// Columns of the whole line.
    pub(crate) line: usize,
    pub(crate) grid: Grid<{ column::COUNT }>,
}

/// Width from which additional columns are printed.
const WIDE: usize = 110;
/// Width from which they are wider.
const ROOMY: usize = 136;
/// A wider line only moves the values away from their names.
const WIDEST: usize = 160;
/// Width from which cycles have a column, instead of a line below the row.
const CYCLES_COLUMN: usize = 80;

impl Columns {
    pub(crate) fn of(layout: &Layout) -> Self {
        let line = layout.width.clamp(NARROWEST, WIDEST);
        let (is_narrow, is_wide, is_roomy) = (line < 80, line >= WIDE, line >= ROOMY);
        let wide = |width: usize| is_wide.then_some(width);
        let widths = [
            None,
            // "~12.35 Mops/s"; one significant figure less if narrow.
            Some(if is_narrow { 12 } else { 13 }),
            (layout.cycles && line >= CYCLES_COLUMN).then_some(8),
            Some(8),
            Some(if is_narrow { 13 } else { 15 }),
            wide(if is_roomy { 17 } else { 14 }),
            wide(7),
            Some(12),
            // "20/80"
            is_roomy.then_some(5),
            wide(6),
            wide(if is_roomy { 10 } else { 8 }),
        ];
        let gap = if is_narrow || (is_wide && !is_roomy) { 1 } else { 2 };
        let left = &[column::NAME, column::VERDICT, column::SPARK];
        Self { line, grid: Grid::new(line, gap, column::NAME, left, widths) }
    }

    pub(crate) fn has(&self, column: usize) -> bool {
        self.grid.widths[column].is_some()
    }

    pub(crate) fn width(&self, column: usize) -> usize {
        self.grid.width(column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_column_is_never_narrower_than_ten() {
        for width in 0..300 {
            for cycles in [false, true] {
                let columns = Columns::of(&Layout { width, cycles, ..Layout::default() });
                let name = columns.width(column::NAME);
                assert!(name >= 10, "{width} {cycles}: {name}");
            }
        }
    }
}
