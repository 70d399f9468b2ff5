//! The origin of numbers that another program measured.

use serde::{Deserialize, Serialize};

use crate::Record;
use crate::command::COMMAND;

/// The fact with the whole name of a benchmark, where its title is short.
pub const NAME: &str = "name";

/// The program that measured a record, where it is another one. What its file does not state is
/// absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MeasuredBy {
    /// The program, such as `hyperfine`.
    pub tool: String,
    /// Its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The host that measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// When, as its file states it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
}

impl MeasuredBy {
    /// In words: `pyperf 2.6.0 on build7, 2026-03-01 12:00:00`.
    pub fn words(&self) -> String {
        let Self { tool, version, host, date } = self;
        let version = version.iter().map(|it| format!(" {it}"));
        let host = host.iter().map(|it| format!(" on {it}"));
        let date = date.iter().map(|it| format!(", {it}"));
        std::iter::once(tool.clone()).chain(version).chain(host).chain(date).collect()
    }
}

impl Record {
    /// What a record is of by its whole name, where the id is made of a part of it: the command of
    /// the user, or the benchmark of another tool.
    pub fn whole_name(&self) -> Option<&str> {
        let of_tool = || self.text_of(NAME).unwrap_or(&self.title);
        self.text_of(COMMAND).or_else(|| self.measured_by.is_some().then(of_tool))
    }

    /// Whether a record of the same id is of another command or benchmark. Older ones of other tools
    /// have a title only.
    pub fn is_of_another(&self, other: &Self) -> bool {
        let of_tool = |one: &Self| one.measured_by.is_some() && one.text_of(NAME).is_none();
        let is_older = (of_tool(self) || of_tool(other)) && self.title == other.title;
        !is_older && self.whole_name() != other.whole_name()
    }
}
