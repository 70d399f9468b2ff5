//! Standard output and standard error: colour, terminal width, progress bar, closed pipes.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use fathom_fileio::folder::write_cause;
use fathom_record::{SystemCause, escaped, shortened};
use fathom_report::{cut, visible};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const DEFAULT_WIDTH: usize = 80;
/// The file behind standard output.
const STDOUT: &str = "/proc/self/fd/1";

/// Template of a progress bar with a percentage and a message.
pub const PERCENT_BAR: &str = "{bar:24} {percent:>3} %  {msg}";
/// Columns of a bar and its percentage.
const BAR: usize = 32;

/// Whether standard output was closed when the program started.
static IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Notes whether standard output is closed. Must run before the runtime of Rust starts, which opens
/// /dev/null in its place, so that every write would succeed.
pub extern "C" fn note_closed_output() {
    // SAFETY: reading the flags of a descriptor changes nothing, whether or not it is open.
    let is_closed = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) } < 0;
    IS_CLOSED.store(is_closed, Ordering::Relaxed);
}

/// Whether standard output was closed when the program started.
pub fn was_closed() -> bool {
    IS_CLOSED.load(Ordering::Relaxed)
}

/// Standard output with a progress bar below it.
pub struct TerminalOutput {
    stream: anstream::AutoStream<io::Stdout>,
    closed: bool,
    error: Option<SystemCause>,
    bar: Option<ProgressBar>,
    /// The largest share that was shown as done.
    done: f64,
}

impl TerminalOutput {
    /// Standard output, with colour on a terminal unless NO_COLOR is set.
    pub fn new() -> Self {
        let stream = anstream::AutoStream::auto(io::stdout());
        let closed = || SystemCause { text: "it is closed".into(), remedy: None, is_limit: false };
        let error = was_closed().then(closed);
        Self { stream, closed: false, error, bar: None, done: 0.0 }
    }

    /// The progress bar; `None` without a terminal. The caller ticks it, because a ticking thread
    /// would disturb timed code.
    pub fn bar(&mut self, template: &str) -> Option<&ProgressBar> {
        if self.bar.is_none() && shows_progress() {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template(template);
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            self.bar = Some(bar);
        }
        self.bar.as_ref()
    }

    /// Draws the bar with the share that is done and a message, cut so that its line never wraps.
    /// The share never falls: an estimate of the time left may grow, a part may be repeated, and
    /// who joins late, or is lost, has done less.
    pub fn progress(&mut self, template: &str, done: f64, message: &str) {
        let terminal = terminal_size::terminal_size_of(io::stderr());
        let width = terminal.map_or(usize::MAX, |(width, _)| usize::from(width.0)).min(width());
        self.done = self.done.max(done.min(1.0));
        let done = self.done;
        let Some(bar) = self.bar(template) else { return };
        bar.set_length(1000);
        bar.set_position((1000.0 * done) as u64);
        bar.set_message(beside_bar(template, message, width));
        bar.tick();
    }

    /// Removes the bar until [`Output::bar`] is called again.
    pub fn clear_bar(&mut self) {
        self.bar.take().iter().for_each(ProgressBar::finish_and_clear);
    }

    /// Writes a text above the bar. After the first error nothing more is written; see
    /// [`Output::is_closed`] and [`Output::error`].
    pub fn write(&mut self, text: &str) {
        match self.bar.clone() {
            Some(bar) => bar.suspend(|| self.write_directly(text)),
            None => self.write_directly(text),
        }
    }

    fn write_directly(&mut self, text: &str) {
        if self.closed || self.error.is_some() {
            return;
        }
        let written =
            self.stream.write_all(visible(text).as_bytes()).and_then(|()| self.stream.flush());
        match written {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => self.closed = true,
            Err(error) => self.error = Some(output_cause(error)),
        }
    }

    /// Whether the reader closed the pipe.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// The first error other than a closed pipe, such as a full disk behind a redirection.
    pub fn error(&self) -> Option<&SystemCause> {
        self.error.as_ref()
    }
}

/// Why standard output cannot be written.
pub fn output_cause(error: io::Error) -> SystemCause {
    write_cause(Path::new(STDOUT), error)
}

/// A line on standard error until it is dropped, if that is a terminal.
pub struct Notice(ProgressBar);

impl Notice {
    pub fn new(text: &'static str) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_message(text);
        bar.tick();
        Self(bar)
    }
}

impl Drop for Notice {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// The message with what fits a line after the bar. The last column stays free, because some
/// terminals wrap there.
fn beside_bar(template: &str, message: &str, width: usize) -> String {
    let bar = if template.contains("{bar") { BAR } else { 0 };
    cut(message, width.saturating_sub(bar + 1))
}

/// The width to lay out for: `COLUMNS` if set, else the terminal's, else 80; at least 60.
pub fn width() -> usize {
    let by_environment = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let terminal = || terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    by_environment.or_else(terminal).unwrap_or(DEFAULT_WIDTH).max(60)
}

/// The height of the terminal; 24 if there is none.
pub fn height() -> usize {
    terminal_size::terminal_size().map_or(24, |(_, height)| usize::from(height.0))
}

/// The longest warning, in characters: another program or server may have any text to say.
const WARNING_CHARS_MAX: usize = 4_000;

/// Writes one line to standard error.
pub fn warn(text: &str) {
    // In one write, so that lines of other processes do not interleave.
    let _ = anstream::stderr().write_all(warning(text).as_bytes());
}

fn warning(text: &str) -> String {
    // It has no colour, and one line: others are parts of names.
    format!(
        "fathom: {}\n",
        shortened(&escaped(&shortened(text, WARNING_CHARS_MAX)), WARNING_CHARS_MAX)
    )
}

/// Reports each panic in one line, which ends with what follows from it.
pub fn report_panics(then: &'static str) {
    std::panic::set_hook(Box::new(move |panic| {
        let thread = std::thread::current();
        let (name, payload) = (thread.name().unwrap_or("?"), panic.payload());
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let why = text.or(payload.downcast_ref::<&str>().copied()).unwrap_or("?");
        let at = panic.location().map_or(String::new(), |at| format!(" at {at}"));
        // What follows from it stands at the end, and is never cut.
        let why = shortened(&escaped(why), 1_000);
        warn(&format!("thread {name} panicked{at}: {why}; {then}"));
    }));
}

/// Whether standard error is a terminal.
pub fn shows_progress() -> bool {
    io::stderr().is_terminal()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warning_of_any_text_is_bounded_and_has_no_escapes() {
        let line = warning(&"\u{1b}[2JΩ".repeat(1_000_000));
        assert!(line.chars().count() < WARNING_CHARS_MAX + 20 && !line.contains('\u{1b}'));
        assert!(line.starts_with("fathom: ") && line.ends_with("…\n"), "{line}");
    }

    #[test]
    fn progress_never_falls() {
        let mut output = TerminalOutput::new();
        let shown = [0.2, 0.1, 0.5, 0.0, 1.5, 0.9].map(|done| {
            output.progress("{msg}", done, "");
            output.done
        });
        assert_eq!(shown, [0.2, 0.2, 0.5, 0.5, 1.0, 1.0]);
    }

    #[test]
    fn progress_line_never_wraps() {
        let text = "é".repeat(200);
        for width in [60, 80] {
            for template in ["{msg}", PERCENT_BAR] {
                let line = template.replace("{bar:24}", &"=".repeat(24));
                let line = line.replace("{percent:>3}", "100");
                let line = line.replace("{msg}", &beside_bar(template, &text, width));
                assert_eq!(line.chars().count(), width - 1, "{line}");
            }
            assert_eq!(beside_bar(PERCENT_BAR, "2 s left", width), "2 s left");
        }
    }
}
