//! The token that both ends share.

use std::fmt;
use std::path::Path;

use fathom_fileio::read_text;

use crate::protocol::error::FarError;

const CHARACTERS_MAX: usize = 4096;
/// Bytes of a file with a token, at most.
const FILE_MAX: u64 = 64 << 10;

/// A secret: it has no text form.
#[derive(Clone)]
pub struct Token(Box<[u8]>);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    pub fn new(text: &str) -> Self {
        Self(text.as_bytes().into())
    }

    /// Reads a file with one line.
    ///
    /// # Errors
    /// If it cannot be read, or is not one line of ASCII.
    pub fn read(path: &Path) -> Result<Self, FarError> {
        let failed = |reason: String| FarError::TokenFile { path: path.to_owned(), reason };
        let text = read_text(path, FILE_MAX).map_err(|error| failed(error.to_string()))?;
        Self::parse(&text).ok_or_else(|| failed("not one line of ASCII".into()))
    }

    /// The only line of a text, if it is one of ASCII.
    pub fn parse(text: &str) -> Option<Self> {
        let token = text.trim();
        let is_token = (1..=CHARACTERS_MAX).contains(&token.len())
            && token.bytes().all(|byte| byte.is_ascii_graphic());
        is_token.then(|| Self::new(token))
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}
