//! The origin of numbers that another program measured.

use serde::{Deserialize, Serialize};

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
