//! The names that most peers use.

pub(crate) use fathom_analysis::statistics;
pub(crate) use fathom_record::{Params, PeerStatistic, Unit};
pub(crate) use serde_json::Value;

pub(crate) use crate::Peer;
pub(crate) use crate::process::{Invocation, Output, RunError};
pub(crate) use crate::row::{Commands, On, Ours, Parse, PeerMachine, PeerPlace, PeerReading, Row};
pub(crate) use crate::text::{before, missing};
