//! Where a store is: in a file, or in a database on a server.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::StoreError;
use crate::address::Address;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    File(PathBuf),
    Database(Address),
}

impl Place {
    /// A path, or an address of PostgreSQL.
    ///
    /// # Errors
    /// For an address of anything else, and a malformed one. No message has a password.
    pub fn parse(text: &OsStr) -> Result<Self, StoreError> {
        match text.to_str().and_then(scheme) {
            None => Ok(Self::File(text.into())),
            Some(_) => Address::parse(text.to_str().unwrap_or_default()).map(Self::Database),
        }
    }

    /// The path of a file.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Database(_) => None,
        }
    }
}

/// What precedes the colon of an address; not of a path with a colon in it.
fn scheme(text: &str) -> Option<&str> {
    let (scheme, rest) = text.split_once(':')?;
    let is_word = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_alphabetic())
            && word.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    };
    let is_known = ["postgres", "postgresql"].iter().any(|it| scheme.eq_ignore_ascii_case(it));
    (is_word(scheme) && (rest.starts_with("//") || is_known)).then_some(scheme)
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Database(address) => address.fmt(f),
        }
    }
}

impl From<&Path> for Place {
    fn from(path: &Path) -> Self {
        Self::File(path.to_owned())
    }
}

impl From<&PathBuf> for Place {
    fn from(path: &PathBuf) -> Self {
        Self::File(path.clone())
    }
}

impl From<&Place> for Place {
    fn from(place: &Place) -> Self {
        place.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_distinguished_from_a_path() {
        let is_file = |text: &str| Place::parse(OsStr::new(text)).unwrap().file().is_some();
        for path in ["fathom.db", "/a/b.db", "./postgres:x", "a:b.db", "postgres", "a b://c"] {
            assert!(is_file(path), "{path}");
        }
        for address in ["postgres://h/d", "postgresql://h", "postgres:///d"] {
            assert!(!is_file(address), "{address}");
        }
    }
}
