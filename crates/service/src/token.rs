//! The token that clients beyond loopback present: read from a file, or made at random.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use fathom_far::Token;

use crate::error::ServiceError;

/// 128 bits in base64.
const CHARACTERS_MIN: usize = 22;
const CHARACTERS_MAX: usize = 4096;

/// Reads a token file that only its owner can read, or makes one if there is none.
///
/// # Errors
/// If the file cannot be read or made, is readable by others, or has no token.
pub fn token_from_file(path: &Path) -> Result<Token, ServiceError> {
    let failed = |error| ServiceError::TokenFile { path: path.to_owned(), error };
    let mut options = OpenOptions::new();
    match options.write(true).create_new(true).mode(0o600).open(path) {
        Ok(mut file) => {
            let made = random().and_then(|text| {
                file.write_all(format!("{text}\n").as_bytes())?;
                file.sync_all()?;
                Ok(Token::new(&text))
            });
            made.map_err(failed)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => read(path),
        Err(error) => Err(failed(error)),
    }
}

fn read(path: &Path) -> Result<Token, ServiceError> {
    let failed = |error| ServiceError::TokenFile { path: path.to_owned(), error };
    // A FIFO would wait for its writer.
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(failed)?;
    let data = file.metadata().map_err(failed)?;
    if !data.is_file() {
        return Err(ServiceError::TokenKind { path: path.to_owned() });
    }
    let mode = data.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(ServiceError::TokenMode { path: path.to_owned(), mode });
    }
    let mut text = String::new();
    let unusable = || ServiceError::TokenText { path: path.to_owned() };
    match file.take(CHARACTERS_MAX as u64 + 1).read_to_string(&mut text) {
        Err(error) if error.kind() == ErrorKind::InvalidData => Err(unusable()),
        Err(error) => Err(failed(error)),
        Ok(_) => parse(&text).ok_or_else(unusable),
    }
}

/// The only line of a file.
pub(crate) fn parse(text: &str) -> Option<Token> {
    let text = text.trim();
    let is_allowed = |b: u8| b.is_ascii_alphanumeric() || b"-._~+/=".contains(&b);
    let is_token =
        (CHARACTERS_MIN..=CHARACTERS_MAX).contains(&text.len()) && text.bytes().all(is_allowed);
    is_token.then(|| Token::new(text))
}

/// Whether an Authorization field has this token, in a time that depends on lengths only.
pub(crate) fn is_in(token: &Token, authorization: Option<&[u8]>) -> bool {
    fathom_http::bears(authorization, token.bytes())
}

fn random() -> std::io::Result<String> {
    fathom_far::nonce().map_err(std::io::Error::other)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn token_file_is_made_once_and_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let made = token_from_file(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let read = token_from_file(&path).unwrap();
        assert_eq!(made.bytes(), read.bytes());
        assert_eq!(made.bytes().len(), 64);
        assert_eq!(format!("{made:?}"), "Token(…)");
        let other = token_from_file(&folder.path().join("other")).unwrap();
        assert_ne!(made.bytes(), other.bytes());
    }

    #[test]
    fn exposed_or_short_token_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        token_from_file(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(token_from_file(&path), Err(ServiceError::TokenMode { mode: 0o640, .. })));
        for text in ["", "short", "has spaces in it and is long enough"] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
            std::fs::write(&path, text).unwrap();
            let outcome = token_from_file(&path);
            assert!(matches!(outcome, Err(ServiceError::TokenText { .. })), "{text}");
        }
        std::fs::write(&path, [0xff; 30]).unwrap();
        assert!(matches!(token_from_file(&path), Err(ServiceError::TokenText { .. })));
        // Neither waits for a writer nor advises to change the mode of a folder or a device.
        let fifo = folder.path().join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, 0o600.into()).unwrap();
        for path in [folder.path(), &fifo, Path::new("/dev/zero")] {
            let outcome = token_from_file(path);
            assert!(matches!(outcome, Err(ServiceError::TokenKind { .. })), "{outcome:?}");
        }
    }

    #[test]
    fn only_the_whole_token_is_accepted() {
        let token = Token::new("0123456789abcdef0123456789abcdef");
        for (field, accepted) in [
            (Some(&b"Bearer 0123456789abcdef0123456789abcdef"[..]), true),
            (Some(b"bearer  0123456789abcdef0123456789abcdef"), true),
            (Some(b"Bearer 0123456789abcdef0123456789abcde"), false),
            (Some(b"Bearer 0123456789abcdef0123456789abcdeF"), false),
            (Some(b"Bearer 0123456789abcdef0123456789abcdef0"), false),
            (Some(b"Bearer \t0123456789abcdef0123456789abcdef"), false),
            (Some(b"Basic 0123456789abcdef0123456789abcdef"), false),
            (Some(b"Bearer"), false),
            (Some(b""), false),
            (None, false),
        ] {
            assert_eq!(is_in(&token, field), accepted, "{field:?}");
        }
    }
}
