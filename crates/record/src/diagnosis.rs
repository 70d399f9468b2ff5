//! The document of an examination: whether a machine can be measured well.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::run::ClockFacts;
use crate::{Host, Tool};

/// Version of the diagnosis' JSON document; it changes when a reader would break.
pub const DIAGNOSIS_SCHEMA_VERSION: u32 = 1;

/// One JSON document: what was examined, and what was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Diagnosis {
    /// [`DIAGNOSIS_SCHEMA_VERSION`].
    pub schema: u32,
    /// The program that made it.
    pub tool: Tool,
    /// When it was made, RFC 3339 in UTC.
    pub examined: String,
    /// The weightiest severity among the findings.
    pub severity: Severity,
    /// The findings, the weightiest first, within a severity in the order of the rules.
    pub findings: Vec<Finding>,
    /// What lasts.
    pub host: Host,
    /// What is so just now.
    pub condition: Condition,
    /// The clock, or why there is none.
    pub clock: ClockState,
}

/// The clock that a run would use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClockState {
    /// Its facts, where it could be calibrated.
    pub facts: Option<ClockFacts>,
    /// Why it could not.
    pub failure: Option<String>,
}

/// How much a finding weighs.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Looked at, and fine.
    #[default]
    Good,
    /// Worth knowing: a part of what the machine is, or a fact that could not be read.
    Note,
    /// Numbers will be noisier than they could be, or different.
    Warning,
    /// Numbers should not be believed, or cannot be taken.
    Severe,
}

impl Severity {
    /// The severity as one word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Severe => "severe",
        }
    }
}

/// What one rule found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Stable name of the rule, such as `cpu-governor`.
    pub id: String,
    /// How much it weighs.
    pub severity: Severity,
    /// The fact could not be read: `found` says so and why. It is then a note.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unknown: bool,
    /// What was found, with its value.
    pub found: String,
    /// Where it was read: files, instructions or system calls.
    pub read_at: Vec<String>,
    /// Metrics it touches: ids, or beginnings of ids followed by `*`, such as `os.*`.
    pub touches: Vec<String>,
    /// What it does to them; of a good finding, what it would do.
    pub effect: String,
    /// A command to type that mends it, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// What to know before typing it, or why there is nothing to do here; empty for a good finding.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub remedy: String,
}
