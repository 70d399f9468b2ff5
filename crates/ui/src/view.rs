//! What a request asks for, with limits on all that it says, and what answers it.

use fathom_record::KINDS;
use serde::Deserialize;

/// The longest text of a request, in bytes: a metric with its parameters.
const TEXT_MAX: usize = 512;
/// The last page of a list.
const PAGE_MAX: u32 = 1_000_000;

/// The data of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum View {
    /// The list of runs.
    Runs(RunsOf),
    /// One run, by its name.
    Run(String),
    /// The second run compared with the first.
    Compare(String, String),
    /// A metric over time.
    History(HistoryOf),
    /// The hosts of a label; the newest run of each host if it is empty.
    Hosts(String),
}

/// The runs listed: all where nothing is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RunsOf {
    pub host: String,
    pub label: String,
    pub kind: String,
    pub metric: String,
    /// RFC 3339 in UTC, or the beginning of it.
    pub since: String,
    pub until: String,
    /// From 1; 0 as 1.
    pub page: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HistoryOf {
    /// A metric, a group or cases; empty for the list of metrics.
    pub metric: String,
    pub host: String,
    pub label: String,
}

/// Two runs.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pair {
    a: String,
    b: String,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Label {
    label: String,
}

/// Why there are no data, in one line with its remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The request is wrong.
    Wrong(String),
    /// The store has no such thing.
    Missing(String),
    /// What is stored cannot be read.
    Damaged(String),
    /// The store cannot be read now; another request may succeed.
    Unavailable(String),
}

/// Makes the data of views as JSON. It may wait for the store.
pub trait Views: Send + Sync + 'static {
    /// # Errors
    /// If there are none.
    fn data(&self, view: &View) -> Result<String, Problem>;
}

/// A text of a request.
fn text(name: &str, value: &str) -> Result<(), Problem> {
    let wrong = |why: String| Err(Problem::Wrong(format!("{name}: {why}")));
    match value {
        _ if value.len() > TEXT_MAX => {
            wrong(format!("{} bytes, at most {TEXT_MAX}; shorten it", value.len()))
        }
        _ if value.chars().any(char::is_control) => {
            wrong("has a control character; remove it".to_owned())
        }
        _ => Ok(()),
    }
}

/// A text that must be there.
fn name(name: &str, value: String) -> Result<String, Problem> {
    text(name, &value)?;
    match value.is_empty() {
        true => Err(Problem::Wrong(format!("{name}: missing; add {name}=… to the address"))),
        false => Ok(value),
    }
}

/// The beginning of a time: a year, a month, a day, or a time of a day.
fn time(name: &str, value: &str) -> Result<(), Problem> {
    text(name, value)?;
    let is_time = value.len() <= 30
        && value.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            10 => byte == b'T',
            _ => byte.is_ascii_digit() || (at > 10 && b":.Z".contains(&byte)),
        });
    match value.is_empty() || is_time && value.len() >= 4 {
        true => Ok(()),
        false => Err(Problem::Wrong(format!(
            "{name}={value}: expected a date or time in UTC, such as 2026-03-01 or \
             2026-03-01T12:00"
        ))),
    }
}

impl RunsOf {
    pub(crate) fn view(self) -> Result<View, Problem> {
        let Self { host, label, kind, metric, since, until, page } = &self;
        let texts = [("host", host), ("label", label), ("metric", metric)];
        texts.into_iter().try_for_each(|(name, value)| text(name, value))?;
        time("since", since)?;
        time("until", until)?;
        text("kind", kind)?;
        if !kind.is_empty() && !KINDS.contains(&kind.as_str()) {
            let kinds = KINDS.join(", ");
            return Err(Problem::Wrong(format!("kind={kind}: expected one of {kinds}")));
        }
        if *page > PAGE_MAX {
            return Err(Problem::Wrong(format!("page={page}: at most {PAGE_MAX}")));
        }
        Ok(View::Runs(self))
    }
}

impl HistoryOf {
    pub(crate) fn view(self) -> Result<View, Problem> {
        text("metric", &self.metric)?;
        text("host", &self.host)?;
        text("label", &self.label)?;
        match self.host.is_empty() || self.label.is_empty() {
            true => Ok(View::History(self)),
            false => Err(Problem::Wrong("host and label: only one of them; omit one".to_owned())),
        }
    }
}

impl Pair {
    pub(crate) fn view(self) -> Result<View, Problem> {
        Ok(View::Compare(name("a", self.a)?, name("b", self.b)?))
    }
}

impl Label {
    pub(crate) fn view(self) -> Result<View, Problem> {
        text("label", &self.label)?;
        Ok(View::Hosts(self.label))
    }
}

pub(crate) fn run(run: String) -> Result<View, Problem> {
    Ok(View::Run(name("run", run)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_the_beginning_of_rfc_3339() {
        for good in
            ["", "2026", "2026-03", "2026-03-01", "2026-03-01T12:00", "2026-03-01T12:00:00.5Z"]
        {
            assert_eq!(time("since", good), Ok(()), "{good}");
        }
        for wrong in ["1", "202", "yesterday", "2026/03", "2026-03-01 12:00", "2026-03-01T'"] {
            assert!(matches!(time("since", wrong), Err(Problem::Wrong(_))), "{wrong}");
        }
    }

    #[test]
    fn long_and_hidden_texts_are_refused() {
        let view = |label: &str| Label { label: label.to_owned() }.view();
        assert!(view(&"x".repeat(TEXT_MAX)).is_ok());
        let long = Problem::Wrong("label: 513 bytes, at most 512; shorten it".to_owned());
        assert_eq!(view(&"x".repeat(TEXT_MAX + 1)), Err(long));
        assert!(view("a\u{1b}[2J").is_err());
    }
}
