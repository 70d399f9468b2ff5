//! What can go wrong at either end.

use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::PathBuf;

use fathom_paths::PathError;
use fathom_record::{Activity, system_cause};
use rustix::io::Errno;

use crate::protocol::PROTOCOL;

#[derive(Debug, thiserror::Error)]
pub enum FarError {
    #[error("{call}: {}", system_cause(.error, Activity::AnyPort))]
    System { call: &'static str, error: std::io::Error },
    #[error("connection closed by the other end")]
    Closed,
    #[error("no answer within {0} s")]
    TimedOut(f64),
    /// The address to connect from.
    #[error("{0} is not an address of this host")]
    NotOwn(IpAddr),
    /// The data connection works, UDP does not.
    #[error("no answer from UDP port {0}: a firewall may drop datagrams")]
    NoDatagrams(u16),
    #[error("a line exceeds 64 KiB")]
    TooLong,
    #[error("unknown message: {0}")]
    Unknown(String),
    /// What the other end reports must not reach a record.
    #[error("the far end's figure is implausible: {0}")]
    Implausible(&'static str),
    #[error("unexpected message: {0}")]
    Unexpected(&'static str),
    #[error("protocol {found} (fathom {version}), this fathom has protocol {PROTOCOL}")]
    Protocol { found: u32, version: String },
    /// The far end requires a token, and the near end has none.
    #[error("a token is required")]
    TokenMissing,
    /// The far end requires no token, so that it cannot prove that it is the right one.
    #[error("the far end has no token")]
    TokenUnknown,
    #[error("wrong token")]
    TokenWrong,
    #[error("token file {path}: {reason}")]
    TokenFile { path: PathBuf, reason: String },
    /// The other end reported this error.
    #[error("{0}")]
    Reported(String),
    /// The other end refused a round before its first byte: what that needs is missing there.
    #[error("{0}")]
    Refused(String),
    /// The other end reported that a limit of its host was reached.
    #[error("{0}")]
    Limit(String),
    #[error("too many far ends run there")]
    Busy,
    #[error("not a fathom service: {0}")]
    OtherProgram(String),
    /// A service that refuses to start a far end, with this status.
    #[error("another version of fathom, or a service that starts no far ends (HTTP status {0})")]
    OtherService(u16),
    /// Of a file that is received.
    #[error("{}", of_path(.0))]
    Path(#[from] PathError),
    /// `others`: bytes of rounds that are being received.
    #[error("{bytes} bytes{} exceed half of the free space, {free} bytes", beside(*.others))]
    NoSpace { bytes: u64, others: u64, free: u64 },
    #[error("it receives no files: `fathom serve` there needs --receive DIR")]
    NoFolder,
    #[error("a far end is started by a run or by the service, with orders on standard input")]
    NoOrders,
}

fn beside(others: u64) -> String {
    if others > 0 { format!(" and {others} bytes of other rounds") } else { String::new() }
}

/// With what to do about the error of a call.
fn of_path(error: &PathError) -> String {
    match error {
        PathError::Call { call, error } => {
            format!("{call}: {}", system_cause(&(*error).into(), Activity::Other))
        }
        other => other.to_string(),
    }
}

impl FarError {
    /// Whether the other end closed or reset a connection.
    pub fn is_closed(&self) -> bool {
        match self {
            Self::Closed => true,
            Self::Path(PathError::Call { error, .. }) => {
                matches!(*error, Errno::PIPE | Errno::CONNRESET)
            }
            Self::System { error, .. } => {
                matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
            }
            _ => false,
        }
    }

    /// Whether an end lacks what was asked for, or forbids it.
    pub fn is_missing(&self) -> bool {
        match self {
            Self::Refused(_) | Self::Path(PathError::Unavailable { .. }) => true,
            // Sandboxes forbid splice(2) and sendfile(2), too.
            Self::Path(PathError::Call { error, .. }) => {
                matches!(*error, Errno::PERM | Errno::NOSYS)
            }
            _ => false,
        }
    }

    pub(crate) fn system(call: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        move |error| Self::System { call, error }
    }

    /// Whether a limit of this host was reached.
    pub(crate) fn is_limit(&self) -> bool {
        match self {
            Self::System { error, .. } => system_cause(error, Activity::AnyPort).is_limit,
            _ => false,
        }
    }

    pub(crate) fn errno(call: &'static str) -> impl FnOnce(Errno) -> Self {
        move |error| Self::System { call, error: error.into() }
    }
}
