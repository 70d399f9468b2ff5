//! Standard output as the commands use it: colour where it is wanted, the width of the terminal,
//! and a reader that may leave at any time.

use std::io::{self, IsTerminal, Write};

/// Width where there is no terminal to ask.
const WIDTH: usize = 80;

/// Standard output.
pub struct Output {
    stream: anstream::AutoStream<io::Stdout>,
    closed: bool,
    failure: Option<io::Error>,
}

impl Output {
    /// Standard output. Colour is kept for a terminal, unless NO_COLOR says otherwise.
    pub fn new() -> Self {
        Self { stream: anstream::AutoStream::auto(io::stdout()), closed: false, failure: None }
    }

    /// Writes a text. A closed or broken output is remembered and does not stop the program here.
    pub fn write(&mut self, text: &str) {
        if self.closed || self.failure.is_some() {
            return;
        }
        let written = self.stream.write_all(text.as_bytes()).and_then(|()| self.stream.flush());
        match written {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => self.closed = true,
            Err(error) => self.failure = Some(error),
        }
    }

    /// Whether the reader has closed it.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// What went wrong, other than the reader leaving: a full disk behind a redirection.
    pub fn failure(&self) -> Option<&io::Error> {
        self.failure.as_ref()
    }
}

/// Columns to lay out for: the terminal's, `COLUMNS` where it is set, else 80.
pub fn width() -> usize {
    let by_hand = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let terminal = || terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    by_hand.or_else(terminal).unwrap_or(WIDTH).max(60)
}

/// Writes one line to standard error.
pub fn warn(text: &str) {
    // At once, so that what another program says does not come between.
    let _ = anstream::stderr().write_all(format!("fathom: {text}\n").as_bytes());
}

/// Whether a progress bar can be drawn: on a terminal, and not between the rows of a table that
/// goes to the same one.
pub fn shows_progress() -> bool {
    io::stderr().is_terminal()
}
