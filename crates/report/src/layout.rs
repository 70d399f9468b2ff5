//! Layout of views: width, and columns of the table.

use fathom_record::Protocol;

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

/// Widths of the table's columns, fixed before the first row, so that later blocks align.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Columns {
    /// Columns of the whole line.
    pub(crate) line: usize,
    pub(crate) gap: usize,
    pub(crate) name: usize,
    pub(crate) measured: usize,
    pub(crate) cycles: Option<usize>,
    pub(crate) half_width: usize,
    pub(crate) predicted: usize,
    pub(crate) verdict: usize,
    pub(crate) wide: Option<Wide>,
}

/// Additional columns on a wide terminal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wide {
    pub(crate) terms: usize,
    pub(crate) deviation: usize,
    /// Clean visits of all, on the widest terminals.
    pub(crate) clean: Option<usize>,
    pub(crate) spread: usize,
    pub(crate) spark: usize,
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
        let narrow = line < 80;
        let roomy = line >= ROOMY;
        let wide = (line >= WIDE).then_some(Wide {
            terms: if roomy { 17 } else { 14 },
            deviation: 7,
            // "20/80"
            clean: roomy.then_some(5),
            spread: 6,
            spark: if roomy { 10 } else { 8 },
        });
        let mut columns = Self {
            line,
            gap: if narrow || (line >= WIDE && !roomy) { 1 } else { 2 },
            name: 0,
            // "~12.35 Mops/s"; one significant figure less if narrow.
            measured: if narrow { 12 } else { 13 },
            cycles: (layout.cycles && line >= CYCLES_COLUMN).then_some(8),
            half_width: 8,
            predicted: if narrow { 13 } else { 15 },
            verdict: 12,
            wide,
        };
        columns.name = line - columns.figures();
        columns
    }

    /// Width of all columns but the name, with the gaps before them.
    fn figures(&self) -> usize {
        let mut widths = vec![self.measured, self.half_width, self.predicted, self.verdict];
        widths.extend(self.cycles);
        if let Some(wide) = self.wide {
            widths.extend([wide.terms, wide.deviation, wide.spread, wide.spark]);
            widths.extend(wide.clean);
        }
        widths.iter().map(|width| width + self.gap).sum()
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
                assert!(columns.name >= 10, "{width} {cycles}: {}", columns.name);
                assert_eq!(columns.name + columns.figures(), columns.line);
            }
        }
    }
}
