//! Folders whose files are read back and acted on: nobody but this user may change them, or what
//! leads to them.

use std::fs::{DirBuilder, Metadata, OpenOptions, remove_file, rename, symlink_metadata};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use fathom_record::shell_word;
use rustix::fs::OFlags;
use rustix::io::Errno;

const ACCESS_LIST: &str = "system.posix_acl_access";
const FILE_BYTES_MAX: u64 = 1 << 20;

/// As [`folder`]; creates it, and those above it, with mode 0700.
///
/// # Errors
/// If it cannot be created, or who else can change it.
pub fn create(path: &Path) -> io::Result<PathBuf> {
    let existing = path.ancestors().skip(1).find(|above| above.exists());
    checked(existing.unwrap_or(Path::new(".")), 1)?;
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    folder(path)
}

/// The path of an existing folder without symlinks, if only this user can change what is in it.
///
/// # Errors
/// If it does not exist, or who else can change it.
pub fn folder(path: &Path) -> io::Result<PathBuf> {
    checked(path, 0)
}

/// `above`: how far it is above the folder in question.
fn checked(path: &Path, above: usize) -> io::Result<PathBuf> {
    let whole = path.canonicalize()?;
    // In a user namespace root may have another number.
    let root = symlink_metadata("/")?.uid();
    let is_root = rustix::process::geteuid().is_root();
    let home = std::env::var_os("HOME").filter(|_| !is_root).map(PathBuf::from);
    for (level, folder) in (above..).zip(whole.ancestors()) {
        let facts = symlink_metadata(folder)?;
        let is_of_root = level > 0 && [0, root].contains(&facts.uid());
        // In a sticky folder others cannot rename what is of this user.
        let is_sticky = level > 0 && facts.mode() & 0o1000 != 0;
        let is_own = is_of_this_user(&facts) || is_of_root;
        if !facts.is_dir() || !is_own || (is_writable_by_others(folder, &facts) && !is_sticky) {
            return Err(foreign(folder, &facts));
        }
        // Who can change what is above the home of a user is trusted, as by sshd.
        if home.as_deref() == Some(folder) {
            break;
        }
    }
    Ok(whole)
}

/// The content of a file in such a folder: a regular file that only this user can write.
///
/// # Errors
/// If it cannot be read, or who else can write it.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)?;
    let facts = file.metadata()?;
    if !facts.is_file() {
        let text = format!("{} is not a regular file", path.display());
        return Err(io::Error::new(ErrorKind::PermissionDenied, text));
    }
    if !is_of_this_user(&facts) || is_writable_by_others(path, &facts) {
        return Err(foreign(path, &facts));
    }
    let mut content = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut content).map(|_| content)
}

/// Writes a file of this user alone, whole or not at all.
///
/// # Errors
/// If it cannot be written.
pub fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    // Of a killed run.
    let _ = remove_file(&new);
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?.write_all(content)?;
    rename(&new, path)
}

fn is_of_this_user(facts: &Metadata) -> bool {
    facts.uid() == rustix::process::geteuid().as_raw()
}

/// A group with the number of the user is the user's alone, but that of root. With an access list
/// the bits of the group are what the list allows to any other.
fn is_writable_by_others(path: &Path, facts: &Metadata) -> bool {
    let has_own_group = facts.gid() == facts.uid() && facts.uid() != 0 && !has_access_list(path);
    facts.mode() & if has_own_group { 0o002 } else { 0o022 } != 0
}

/// What cannot be read counts as a list.
fn has_access_list(path: &Path) -> bool {
    let list = rustix::fs::lgetxattr(path, ACCESS_LIST, &mut [0_u8; 4096]);
    !matches!(list, Err(Errno::NODATA | Errno::OPNOTSUPP))
}

fn foreign(path: &Path, facts: &Metadata) -> io::Error {
    let (uid, mode) = (facts.uid(), facts.mode() & 0o7777);
    let own = rustix::process::geteuid().as_raw();
    let (path, word) = (path.display(), shell_word(&path.to_string_lossy()));
    let chown = match is_of_this_user(facts) {
        true => String::new(),
        false => format!("chown {own} {word} && "),
    };
    let text = format!(
        "{path} (user {uid}, mode {mode:04o}) can be changed by others than {own}; {chown}chmod \
         go-w {word}"
    );
    io::Error::new(ErrorKind::PermissionDenied, text)
}

#[cfg(test)]
#[expect(clippy::print_stdout, reason = "a test that cannot run here says so")]
mod tests {
    use std::fs::{Permissions, create_dir, set_permissions, write};
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    use super::*;

    #[test]
    fn access_list_is_seen() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(!has_access_list(file.path()));
        // Version, then tag, permissions and id of: owner, user 1, group, mask, others.
        let entries = [(1, 6, u32::MAX), (2, 6, 1), (4, 0, u32::MAX), (16, 6, u32::MAX)];
        let mut list = 2_u32.to_le_bytes().to_vec();
        for (tag, permissions, id) in entries.into_iter().chain([(32, 0, u32::MAX)]) {
            list.extend([tag, 0, permissions, 0]);
            list.extend(id.to_le_bytes());
        }
        let flags = rustix::fs::XattrFlags::empty();
        match rustix::fs::lsetxattr(file.path(), ACCESS_LIST, &list, flags) {
            Err(Errno::OPNOTSUPP) => println!("skipped: this file system has no access lists"),
            set => {
                set.unwrap();
                assert!(has_access_list(file.path()));
            }
        }
    }

    #[test]
    fn folder_that_others_can_change_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let [above, inner] = ["above", "above/inner"].map(|name| home.path().join(name));
        create(&inner).unwrap();
        assert_eq!(folder(&inner).unwrap(), inner.canonicalize().unwrap());
        for (changed, mode, is_refused) in [
            (&inner, 0o1777, true),
            (&inner, 0o757, true),
            (&inner, 0o770, rustix::process::geteuid().is_root()),
            (&above, 0o1777, false),
            (&above, 0o757, true),
        ] {
            set_permissions(changed, Permissions::from_mode(mode)).unwrap();
            let refused = folder(&inner).err().map(|error| error.to_string());
            assert_eq!(refused.is_some(), is_refused, "{changed:?} {mode:o}");
            if let Some(text) = refused {
                // What the message says lets it be used.
                let (_, command) = text.split_once("; ").unwrap();
                assert_eq!(command, format!("chmod go-w {}", changed.display()));
                let done = std::process::Command::new("sh").args(["-c", command]).status();
                assert!(done.unwrap().success() && folder(&inner).is_ok());
            }
            set_permissions(changed, Permissions::from_mode(0o700)).unwrap();
        }
        if !rustix::process::geteuid().is_root() {
            println!("skipped: needs root: folders of another user");
            return;
        }
        for changed in [&inner, &above] {
            chown(changed, Some(1), Some(1)).unwrap();
            let refused = folder(&inner).unwrap_err().to_string();
            assert!(refused.contains("(user 1, mode 0700) can be changed by others"), "{refused}");
            let end = format!("; chown 0 {0} && chmod go-w {0}", changed.display());
            assert!(refused.ends_with(&end), "{refused}");
            chown(changed, Some(0), Some(0)).unwrap();
        }
    }

    #[test]
    fn file_that_others_can_write_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let [file, link] = ["file", "link"].map(|name| home.path().join(name));
        write(&file, "content").unwrap();
        symlink(&file, &link).unwrap();
        create_dir(home.path().join("folder")).unwrap();
        assert_eq!(read(&file).unwrap(), b"content");
        assert!(read(&link).is_err() && read(&home.path().join("folder")).is_err());
        set_permissions(&file, Permissions::from_mode(0o646)).unwrap();
        assert!(read(&file).is_err());
    }
}
