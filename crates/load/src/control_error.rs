//! Why the service gave no answer that can be used.

use fathom_http::ExchangeError;

#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
    #[error("status {0}")]
    Status(u16),
    #[error("{0}")]
    Answer(&'static str),
    /// The limit in MiB.
    #[error("body above {0} MiB")]
    TooLong(u64),
    #[error("body truncated: {0} bytes received, {1} missing")]
    Truncated(u64, u64),
    /// It must not reach a record.
    #[error("the far end's figure is implausible: {0}")]
    Implausible(&'static str),
    #[error("unexpected JSON: {0}")]
    Json(#[from] serde_json::Error),
}
