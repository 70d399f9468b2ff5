//! The few colours there are, and what they stand beside. None says anything alone.

use anstyle::{AnsiColor, Color, Style};
use fathom_record::State;

/// Headings and the names of metrics.
pub(crate) const STRONG: Style = Style::new().bold();
/// What may be passed over at first reading.
pub(crate) const FAINT: Style = Style::new().dimmed();
/// As predicted, or better than before.
pub(crate) const GOOD: Style = foreground(AnsiColor::Green);
/// To be read with care.
pub(crate) const CARE: Style = foreground(AnsiColor::Yellow);
/// Not as predicted, or worse than before.
pub(crate) const BAD: Style = foreground(AnsiColor::Red).bold();
/// As it is.
pub(crate) const PLAIN: Style = Style::new();

const fn foreground(color: AnsiColor) -> Style {
    Style::new().fg_color(Some(Color::Ansi(color)))
}

/// The style of a state's word.
pub(crate) fn of_state(state: State) -> Style {
    match state {
        State::Valid => GOOD,
        State::Noisy => CARE,
        State::Unavailable => FAINT,
        State::Invalid | State::Failed => BAD,
    }
}

/// The text in the style; blanks and newlines at its ends stay outside.
pub(crate) fn paint(style: Style, text: &str) -> String {
    let inner = text.trim();
    if style.is_plain() || inner.is_empty() {
        return text.to_owned();
    }
    let start = text.len() - text.trim_start().len();
    let (before, after) = (&text[..start], &text[start + inner.len()..]);
    format!("{before}{style}{inner}{style:#}{after}")
}

/// Each line in the style.
pub(crate) fn paint_lines(style: Style, lines: &str) -> String {
    lines.split_inclusive('\n').map(|line| paint(style, line)).collect()
}
