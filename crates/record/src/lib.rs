//! The data model: metrics and their parameters, samples, summaries, predictions, verdicts.
//!
//! Everything that other crates store, show, compare or send is one of these types. This crate
//! decides nothing, does no I/O, reads no clock and has no `unsafe`.
#![forbid(unsafe_code)]

#[macro_use]
mod words;

mod causes;
pub mod command;
pub mod condition;
pub mod cost;
pub mod counter;
pub mod crosscheck;
pub mod diagnosis;
pub mod fact;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixture;
pub mod fuzz;
pub mod heat_map;
pub mod hidden;
pub mod histogram;
pub mod host;
pub mod load_facts;
pub mod load_window;
pub mod measured_by;
pub mod metric;
mod omitted;
pub mod openmetrics;
pub mod outline;
pub mod passwd;
pub mod plausible;
pub mod prediction;
pub mod protocol;
pub mod quantity;
mod record;
pub mod remedy;
#[cfg(test)]
mod round_trip;
pub mod run;
pub mod sample;
pub mod second;
pub mod series;
pub mod server_use;
pub mod shell;
pub mod summary;
pub mod system_error;
pub mod trial;
pub mod typical;
pub mod verdict;

pub use causes::{causes, first_causes};
pub use condition::Condition;
pub use cost::{Cost, CostPrice, CostService, CostTerm, CostTime, CostWait, CostWhatIf};
pub use counter::{Counter, Counters};
pub use crosscheck::{CrossOutcome, CrossRow, Crosscheck, PairRatio, PeerStatistic, Turn};
pub use diagnosis::{Diagnosis, Finding, Fix, Severity};
pub use fact::{BETWEEN_LEVELS, Fact, FactValue};
pub use heat_map::HeatMap;
pub use hidden::{escape, escaped, is_hidden, shortened};
pub use histogram::Histogram;
pub use host::Host;
pub use load_window::{LoadSlot, LoadThread, LoadWindow, SERVER_TOKEN};
pub use measured_by::MeasuredBy;
pub use metric::{Better, MetricId, OWN_GROUPS, ParamValue, Params, Unit, is_own, matches};
pub use outline::{Headline, Outline};
pub use prediction::{Agreement, Class, Input, LOOSE, NoModel, Origin, Prediction};
pub use protocol::Protocol;
pub use record::{Record, Value};
pub use remedy::Remedy;
pub use run::{
    ClockOffset, Document, Effort, FarHost, IMPORT, KINDS, LabelError, REPORTED_MIN, Reference,
    ReferenceBasis, Run, RunHead, RunState, Tool, kind, label, name,
};
pub use sample::{Check, DeviceTime, Disturbance, FarEnd, Sample};
pub use second::{Phase, Second};
pub use series::Series;
pub use server_use::{Looks, ServerUse};
pub use shell::shell_word;
pub use summary::{Basis, Estimate, Interval, NotSelected, Quantile, Stratum, Summary};
pub use system_error::{Activity, SystemCause, system_cause};
pub use typical::{Position, Typical};
pub use verdict::{Cause, Counts, Reason, State, Verdict};

/// Version of the JSON document and of the record shape; it changes when a reader would break.
pub const SCHEMA_VERSION: u32 = 3;
