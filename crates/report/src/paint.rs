//! Colours. Words never rely on them.

use anstyle::{AnsiColor, Color, Style};
use fathom_record::State;

/// Headings and metric names.
pub(crate) const STRONG: Style = Style::new().bold();
/// Secondary text.
pub(crate) const FAINT: Style = Style::new().dimmed();
/// As predicted, or better.
pub(crate) const GOOD: Style = foreground(AnsiColor::Green);
/// Uncertain.
pub(crate) const CARE: Style = foreground(AnsiColor::Yellow);
/// Not as predicted, or worse.
pub(crate) const BAD: Style = foreground(AnsiColor::Red).bold();
pub(crate) const PLAIN: Style = Style::new();

const fn foreground(color: AnsiColor) -> Style {
    Style::new().fg_color(Some(Color::Ansi(color)))
}

pub(crate) fn of_state(state: State) -> Style {
    match state {
        State::Valid => GOOD,
        State::Noisy => CARE,
        State::Unavailable => FAINT,
        State::Invalid | State::Failed => BAD,
    }
}

/// The text in a style; blanks and newlines at both ends stay outside of it.
pub(crate) fn paint(style: Style, text: &str) -> String {
    let inner = text.trim();
    if style.is_plain() || inner.is_empty() {
        return text.to_owned();
    }
    let start = text.len() - text.trim_start().len();
    let (before, after) = (&text[..start], &text[start + inner.len()..]);
    format!("{before}{style}{inner}{style:#}{after}")
}

pub(crate) fn paint_lines(style: Style, lines: &str) -> String {
    lines.split_inclusive('\n').map(|line| paint(style, line)).collect()
}
