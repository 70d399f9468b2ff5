//! Standard output as the commands use it: colour where it is wanted, the width of the terminal,
//! and a reader that may leave at any time.

use std::io::{self, IsTerminal, Write};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Width where there is no terminal to ask.
const WIDTH: usize = 80;

/// A progress bar with its share in percent, and what is being done.
pub const SHARE: &str = "{bar:24} {percent:>3} %  {msg}";

/// Standard output, and the progress bar beside it.
pub struct Output {
    stream: anstream::AutoStream<io::Stdout>,
    closed: bool,
    failure: Option<io::Error>,
    bar: Option<ProgressBar>,
}

impl Output {
    /// Standard output. Colour is kept for a terminal, unless NO_COLOR says otherwise.
    pub fn new() -> Self {
        let stream = anstream::AutoStream::auto(io::stdout());
        Self { stream, closed: false, failure: None, bar: None }
    }

    /// The progress bar, where one can be drawn: on a terminal. Whoever changes it ticks it too, so
    /// that nothing is drawn by a thread while something is timed.
    pub fn bar(&mut self, template: &str) -> Option<&ProgressBar> {
        if self.bar.is_none() && shows_progress() {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template(template);
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            self.bar = Some(bar);
        }
        self.bar.as_ref()
    }

    /// Takes the bar away, until it is asked for again.
    pub fn clear_bar(&mut self) {
        self.bar.take().iter().for_each(ProgressBar::finish_and_clear);
    }

    /// Writes a text above the bar. A closed or broken output is remembered and does not stop the
    /// program here.
    pub fn write(&mut self, text: &str) {
        match self.bar.clone() {
            Some(bar) => bar.suspend(|| self.write_alone(text)),
            None => self.write_alone(text),
        }
    }

    fn write_alone(&mut self, text: &str) {
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

/// Whether a progress bar can be drawn: on a terminal.
pub fn shows_progress() -> bool {
    io::stderr().is_terminal()
}
