//! Why the service gave no answer that can be used.

use std::time::Duration;

use fathom_http::Malformed;

#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("no complete response in {} s", .0.as_secs_f64())]
    Timeout(Duration),
    #[error("stopped")]
    Stopped,
    #[error("status {0}")]
    Status(u16),
    #[error("{0}")]
    Malformed(#[from] Malformed),
    #[error("{0}")]
    Answer(&'static str),
    #[error("body truncated: {0} bytes received, {1} missing")]
    Truncated(u64, u64),
    /// It must not reach a record.
    #[error("the far end's figure is implausible: {0}")]
    Implausible(&'static str),
    #[error("unexpected JSON: {0}")]
    Json(#[from] serde_json::Error),
}
