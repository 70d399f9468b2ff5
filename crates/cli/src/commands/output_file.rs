//! Files written with `-o`: which existing files may be replaced, and atomic writing.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use fathom_fileio::folder::write_cause;
use fathom_fileio::scratch::Scratch;

/// Which existing files are replaced without `--force`, besides empty ones.
pub(super) struct Replaceable {
    pub is_replaceable: fn(&Path) -> bool,
    /// Why another file is not replaced.
    pub refusal: &'static str,
}

/// Checks that the file may be written; `None` for standard output (`-`). The path of a symlink's
/// target is returned, so that the link stays one.
pub(super) fn check(
    path: &Path,
    force: bool,
    replaceable: &Replaceable,
) -> anyhow::Result<Option<PathBuf>> {
    if path == Path::new("-") {
        return Ok(None);
    }
    let refused = |why: &dyn Display| Err(refusal(path, why));
    let facts = match fs::metadata(path) {
        Ok(facts) => facts,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return match fs::symlink_metadata(path) {
                Ok(_) => refused(&"dangling symlink"),
                Err(_) => Ok(Some(path.to_owned())),
            };
        }
        Err(error) => return refused(&write_cause(path, error)),
    };
    if facts.is_dir() {
        return refused(&"is a directory; name a file in it");
    }
    if !facts.is_file() {
        return refused(&"not a regular file; write to a pipe through standard output (-o -)");
    }
    if force || facts.len() == 0 || (replaceable.is_replaceable)(path) {
        return fs::canonicalize(path).map(Some).map_err(|error| refusal(path, &error));
    }
    refused(&format!("{}; name another, or replace it with --force", replaceable.refusal))
}

/// Checks that a file can be made in the folder of this one, from which it is renamed.
pub(super) fn check_place(path: &Path) -> anyhow::Result<()> {
    use rustix::fs::{Access, AtFlags, CWD, accessat};
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let rights = Access::WRITE_OK | Access::EXEC_OK;
    accessat(CWD, folder.unwrap_or(Path::new(".")), rights, AtFlags::EACCESS)
        .map_err(|error| refusal(path, &write_cause(path, error)))
}

/// Checks that these files may be written in a folder that is made for them. Their names follow
/// from another one, so that neither they nor the folder may be symlinks.
pub(super) fn check_folder<'n>(
    folder: &Path,
    names: impl IntoIterator<Item = &'n str>,
    force: bool,
    replaceable: &Replaceable,
) -> anyhow::Result<()> {
    if fs::symlink_metadata(folder).is_ok_and(|facts| !facts.is_dir()) {
        return Err(refusal(folder, &"not a directory; name another output"));
    }
    for path in names.into_iter().map(|name| folder.join(name)) {
        // With --force the link is replaced, not followed.
        if path.is_symlink() && !force {
            return Err(refusal(&path, &"a symlink; remove it, or replace it with --force"));
        }
        check(&path, force || path.is_symlink(), replaceable)?;
    }
    Ok(())
}

/// Writes a file atomically.
pub(super) fn write(path: &Path, text: impl AsRef<[u8]>) -> anyhow::Result<()> {
    write_by(path, |mut file| Ok(file.write_all(text.as_ref())?))
}

/// Writes a file atomically, piece by piece. An I/O error of `write` is one of this file.
pub(super) fn write_by(
    path: &Path,
    write: impl FnOnce(&File) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let failed = |error: std::io::Error| refusal(path, &write_cause(path, error));
    let scratch =
        Scratch::new(folder.unwrap_or(Path::new("."))).map_err(|error| failed(error.into()))?;
    write(scratch.file()).map_err(|error| match error.downcast() {
        Ok(error) => failed(error),
        Err(other) => other,
    })?;
    scratch.publish(path, true).map_err(|error| failed(error.into()))?;
    Ok(())
}

fn refusal(path: &Path, why: &dyn Display) -> anyhow::Error {
    anyhow!("write {}: {why}", path.display())
}
