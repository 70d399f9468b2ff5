//! The file of the running program.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

/// The path of the running program.
///
/// # Errors
/// When the kernel does not say.
pub fn this_program() -> std::io::Result<PathBuf> {
    // The link still works when the file was replaced or removed by an update during the run.
    let link = PathBuf::from("/proc/self/exe");
    match link.canonicalize() {
        Ok(program) => Ok(program),
        // Without /proc: as the program was called, which the shell may have made a path.
        Err(_) if !link.exists() => called_as(),
        Err(_) => Ok(link),
    }
}

/// The file that was executed, by the kernel's word to the new process.
fn called_as() -> std::io::Result<PathBuf> {
    let name = rustix::param::linux_execfn();
    let path = PathBuf::from(OsStr::from_bytes(name.to_bytes()));
    path.canonicalize()
}
