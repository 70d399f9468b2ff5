//! Why a request had no complete response, and which end is at fault.

use std::collections::BTreeMap;
use std::fmt;

use fathom_analysis::load::WRONG_CONTENT;
use fathom_http::{Malformed, StreamError, TlsFault};
use fathom_record::{Activity, Cause, Remedy, SystemCause, system_cause};

/// Why a request had no complete response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The connection was not established.
    Connect(i32),
    ConnectTimeout,
    /// No handshake, or what is encrypted cannot be read.
    Tls(TlsFault),
    /// The connection was closed before the first byte of a response.
    Closed,
    /// A kept connection was closed before the first byte of a response to a request that is not
    /// to be sent twice.
    Stale,
    /// Sending or receiving failed.
    Transfer(i32),
    /// The connection was closed within a body.
    Truncated,
    /// The length is not the listed one of the file, or that of its first response.
    WrongLength,
    /// A complete body with another content than the file.
    WrongContent,
    /// A body with a Content-Encoding that was not asked for: its length is not that of the file.
    Coded,
    /// A malformed head or chunk, or bytes after the end of a body.
    BadResponse(&'static str),
    /// No complete response within the time limit.
    Timeout,
    /// A complete response other than 2xx.
    Status(u16),
    /// A redirect that is not followed, although some are.
    Redirect(&'static str),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Connect(number) => write!(f, "connect: {}", cause(number).text),
            Self::ConnectTimeout => f.write_str("connect: timeout"),
            Self::Tls(fault) => write!(f, "{fault}"),
            Self::Closed => f.write_str("connection closed without a response"),
            Self::Stale => f.write_str(
                "kept connection closed before the response, and the method may not be repeated",
            ),
            Self::Transfer(number) => write!(f, "transfer: {}", cause(number).text),
            Self::Truncated => f.write_str("body truncated"),
            Self::WrongLength => {
                // By design or not: an error page with status 200 looks the same.
                f.write_str(
                    "length is not that of the file or of its first response (no option accepts \
                     pages of varying length: name others by --urls)",
                )
            }
            Self::WrongContent => f.write_str(WRONG_CONTENT),
            Self::Coded => f.write_str(UNASKED),
            Self::BadResponse(part) => write!(f, "malformed response: {part}"),
            Self::Timeout => f.write_str("response timeout"),
            Self::Status(status) => write!(f, "status {status}"),
            Self::Redirect(why) => write!(f, "redirected {why}"),
        }
    }
}

impl From<Malformed> for Fault {
    fn from(malformed: Malformed) -> Self {
        Self::BadResponse(malformed.part)
    }
}

fn cause(errno: i32) -> SystemCause {
    system_cause(&std::io::Error::from_raw_os_error(errno), Activity::Other)
}

/// Why a body with a Content-Encoding is refused, and what to do.
pub const UNASKED: &str = "Content-Encoding was not asked for (-H 'Accept-Encoding: gzip' asks)";

/// What to do about a response with a status of redirection.
pub const REDIRECTED: &str = "redirects are not followed (--follow: those within the server); load \
                              the address it redirects to";

/// No local port is free, and the remedy.
const NO_PORT: i32 = libc::EADDRNOTAVAIL;
const PORTS: &str = "use fewer clients (--clients), kept connections (no --fresh), or widen \
                     net.ipv4.ip_local_port_range";

impl Fault {
    pub(super) fn from_error(error: &StreamError) -> Self {
        match error {
            StreamError::System(errno) => Self::Transfer(errno.raw_os_error()),
            StreamError::Tls(error) => Self::Tls(error.fault),
            StreamError::Cut => Self::Closed,
        }
    }

    /// Why a load ended, if the last requests ended so, and what to do. Whether the server or this
    /// end is at fault follows from the fault.
    pub fn end_words(self) -> String {
        match self {
            Self::Status(status @ 300..=399) => {
                format!("the server answers with status {status} only: {REDIRECTED}")
            }
            Self::Status(status) => format!("the server answers with status {status} only"),
            Self::WrongLength | Self::WrongContent | Self::Coded | Self::Redirect(_) => {
                format!("no response is right: {self}")
            }
            fault => match (fault, fault.action()) {
                (Self::Connect(errno), Some(action)) => {
                    format!("{}; {action}", cause(errno).text)
                }
                _ => format!("the server stopped answering: {fault}"),
            },
        }
    }

    /// What to do where a limit of this machine is the cause: the server is not at fault.
    pub fn remedy(self) -> Option<Remedy> {
        self.action().map(|action| Remedy::Do { action: action.to_owned() })
    }

    fn action(self) -> Option<&'static str> {
        match self {
            Self::Connect(NO_PORT) => Some(PORTS),
            Self::Connect(errno) => cause(errno).remedy.filter(|_| cause(errno).is_limit),
            _ => None,
        }
    }

    /// The cause for a verdict where the last requests ended so.
    pub fn end_cause(self) -> Cause {
        match self {
            Self::Status(_)
            | Self::Redirect(_)
            | Self::WrongLength
            | Self::WrongContent
            | Self::Coded => Cause::WrongWork,
            fault if fault.action().is_some() => Cause::LoadGenerator,
            _ => Cause::Crashed,
        }
    }
}

/// Faults as they are recorded.
pub fn by_words(faults: &BTreeMap<Fault, u64>) -> BTreeMap<String, u64> {
    faults.iter().map(|(fault, count)| (fault.to_string(), *count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_of_a_load_names_the_side_at_fault() {
        let (refused, no_port) = (Fault::Connect(111), Fault::Connect(99));
        let redirect = Fault::Status(301);
        assert!(redirect.end_words().contains("status 301 only: redirects are not followed"));
        assert!(no_port.end_words().starts_with("no free local port; use fewer clients"));
        assert_eq!([redirect, refused].map(Fault::remedy), [None, None]);
        assert!(refused.end_words().starts_with("the server stopped answering: connect: "));
        let causes = [redirect, no_port, refused].map(Fault::end_cause);
        assert_eq!(causes, [Cause::WrongWork, Cause::LoadGenerator, Cause::Crashed]);
    }
}
