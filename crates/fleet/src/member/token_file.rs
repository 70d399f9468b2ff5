//! The token of a far end, for a child process: a file in memory, so that it is in no argument, and
//! nothing of it is left on a disk.

use std::fs::{File, Permissions};
use std::io::{Result as IoResult, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use fathom_far::Token;
use rustix::fs::{MemfdFlags, memfd_create};

#[derive(Debug)]
pub(super) struct TokenFile(File);

impl TokenFile {
    pub(super) fn new(token: &Token) -> IoResult<Self> {
        let mut file = File::from(memfd_create("token", MemfdFlags::CLOEXEC)?);
        file.set_permissions(Permissions::from_mode(0o600))?;
        file.write_all(token.bytes())?;
        Ok(Self(file))
    }

    /// Opened by it, the file is read from its beginning: by processes of this user only.
    pub(super) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_read_by_its_path() {
        let file = TokenFile::new(&Token::new("secret")).unwrap();
        for _ in 0..2 {
            assert_eq!(Token::read(&file.path()).unwrap().bytes(), b"secret");
        }
        let mode = std::fs::metadata(file.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
