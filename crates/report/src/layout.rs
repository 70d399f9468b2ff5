//! Layout of views.

use fathom_record::Protocol;

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
