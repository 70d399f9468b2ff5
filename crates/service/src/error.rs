//! Why a service cannot start. Remedies are formatted by the program.

use std::net::SocketAddr;
use std::path::PathBuf;

use rustix::io::Errno;

#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    #[error("open folder {path}: {error}")]
    Folder { path: PathBuf, error: Errno },
    #[error("serving files is unavailable: openat2: {error}")]
    Openat2 { error: Errno },
    #[error("listen on {address}: {error}")]
    Listen { address: SocketAddr, error: Errno },
    #[error("listen on {address}: an address beyond loopback needs a token")]
    NeedsToken { address: SocketAddr },
    #[error("congestion control {name}: {error}; available: {available}")]
    Congestion { name: String, error: Errno, available: String },
    #[error("token file {path}: {error}")]
    TokenFile { path: PathBuf, error: std::io::Error },
    #[error("token file {path}: not a regular file")]
    TokenKind { path: PathBuf },
    #[error("token file {path}: readable by others (mode {mode:04o})")]
    TokenMode { path: PathBuf, mode: u32 },
    #[error("token file {path}: not a token of 22 to 4096 letters and digits")]
    TokenText { path: PathBuf },
    #[error("open files: the limit of {limit} descriptors leaves none for connections")]
    Descriptors { limit: u64 },
    #[error("start the service: {0}")]
    Start(std::io::Error),
}
