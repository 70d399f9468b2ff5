//! The file of the running program.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

/// The path of the running program.
///
/// # Errors
/// If it is not in /proc nor in the auxiliary vector.
pub fn this_program() -> std::io::Result<PathBuf> {
    // The link works even if an update replaced or removed the file during the run.
    let link = PathBuf::from("/proc/self/exe");
    match link.canonicalize() {
        Ok(program) => Ok(program),
        // Without /proc: AT_EXECFN of the auxiliary vector.
        Err(_) if !link.exists() => {
            let name = rustix::param::linux_execfn();
            PathBuf::from(OsStr::from_bytes(name.to_bytes())).canonicalize()
        }
        Err(_) => Ok(link),
    }
}
