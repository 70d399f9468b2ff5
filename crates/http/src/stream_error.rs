//! Why the bytes of a connection end.

use std::io::{Error, ErrorKind};

use rustix::io::Errno;

use crate::tls_error::TlsError;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    #[error("{0}")]
    System(#[from] Errno),
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The end of the connection, which is not that of the data: anybody on the way could have
    /// made it.
    #[error("TLS: connection closed without close_notify")]
    Cut,
}

impl From<StreamError> for Error {
    fn from(error: StreamError) -> Self {
        match error {
            StreamError::System(errno) => errno.into(),
            StreamError::Tls(_) => Self::new(ErrorKind::InvalidData, error),
            StreamError::Cut => Self::new(ErrorKind::UnexpectedEof, error),
        }
    }
}
