//! Files that a command makes by `-o`: what may be replaced by one, and writing it whole or not
//! at all.

use std::fmt::Display;
use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use fathom_fileio::scratch::Scratch;

/// Where the output goes: the file asked for, or with `-` nowhere but to standard output.
pub(super) fn path(asked: &Path) -> Option<&Path> {
    Some(asked).filter(|path| *path != Path::new("-"))
}

/// What may be replaced without `--force`, beside what is empty.
pub(super) struct Own {
    /// Whether a file is one of these.
    pub is: fn(&Path) -> bool,
    /// Why another is not replaced.
    pub refusal: &'static str,
}

/// The place of a file that may be written: the one asked for, or where it links to, since a link
/// must not become a file.
pub(super) fn place(path: &Path, force: bool, own: &Own) -> anyhow::Result<PathBuf> {
    let refused = |why: &dyn Display| Err(refusal(path, why));
    let facts = match fs::metadata(path) {
        Ok(facts) => facts,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return match fs::symlink_metadata(path) {
                Ok(_) => refused(&"it is a link to what is not there"),
                Err(_) => Ok(path.to_owned()),
            };
        }
        Err(error) => return refused(&error),
    };
    if facts.is_dir() {
        return refused(&"it is a directory; name a file in it");
    }
    if !facts.is_file() {
        return refused(&"it is no regular file; for a pipe, write to standard output by -o -");
    }
    if force || facts.len() == 0 || (own.is)(path) {
        return fs::canonicalize(path).map_err(|error| refusal(path, &error));
    }
    refused(&format!("{}; name another, or replace it by --force", own.refusal))
}

/// Writes a file whole or not at all, to a [`place`].
pub(super) fn write(place: &Path, text: &str) -> anyhow::Result<()> {
    let folder = place.parent().filter(|folder| !folder.as_os_str().is_empty());
    let scratch =
        Scratch::new(folder.unwrap_or(Path::new("."))).map_err(|error| refusal(place, &error))?;
    scratch.file().write_all(text.as_bytes()).map_err(|error| refusal(place, &error))?;
    scratch.publish(place, true).map_err(|error| refusal(place, &error))?;
    Ok(())
}

fn refusal(path: &Path, why: &dyn Display) -> anyhow::Error {
    anyhow!("write {}: {why}", path.display())
}
